"""Where rows of tests lie: a table in memory, or a Parquet file of any length, of which as much is in memory as is read.

A file has the columns `ROW_COLUMNS`. It is sorted by test (in the order given) and metric (by name), in groups of `GROUP`
rows. Its metadata hold how many rows each metric of each test has, and a digest of them, so that one metric can be read and
checked without the others. Equal rows give equal bytes.
"""

import io
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol, runtime_checkable

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmark.errors import Corrupt, one_line
from benchmark.results import bounded
from benchmark.results.digests import DAMAGE, digest

TYPES: Mapping[str, str] = {"x": "float64", "value": "float64", "draw": "int64"}
ROW_COLUMNS = ("uid", "evaluation", "metric", "x", "value", "draw")
KEY = ("uid", "metric", "x", "draw")
"""What no two rows of a test have in common."""

File = io.BytesIO | io.BufferedReader
"""An open file."""

NO_ROWS = pd.DataFrame({name: pd.Series(dtype=TYPES.get(name, "str")) for name in ROW_COLUMNS})

GROUP = 1 << 16
"""Rows of a Parquet row group."""

SCHEMA = pa.schema([(name, pa.type_for_alias(TYPES.get(name, "string"))) for name in ROW_COLUMNS])
"""Columns of a file."""

DIGESTED = ["uid", "x", "value", "draw"]
"""What the digest of a metric of a test covers."""

INDEX = b"rows"
"""Key of the metadata: {test: {metric: [rows, digest]}}."""

_GROUPS = 2  # that are kept decoded: consecutive metrics lie in the same
_IN_MEMORY = 1 << 24  # bytes of a file that is read in whole; of a longer one the pages that are asked for


@dataclass(frozen=True)
class Entry:
    """Where the rows of one metric of a test lie, under which names, and their digest (None: not computed yet)."""

    evaluation: str
    metric: str
    start: int
    rows: int
    digest: str | None = None


@runtime_checkable
class Source(Protocol):
    """Rows by number."""

    def rows(self, start: int, stop: int) -> pd.DataFrame:
        """The rows from one number to another."""


class FrameRows:
    """A table in memory."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table

    def rows(self, start: int, stop: int) -> pd.DataFrame:
        """The rows from one number to another."""
        return self._table.iloc[start:stop].reset_index(drop=True)


class FileRows:
    """A Parquet file, which stays open, so that it is the same file whatever happens to its name."""

    def __init__(self, path: Path, file: File, examples: int | None, declared: Mapping[str, str]) -> None:
        self.path = path
        try:
            self._parquet = pq.ParquetFile(file, page_checksum_verification=True)
            self.entries = self._index(examples, declared)
        except DAMAGE as error:
            raise Corrupt(path, one_line(error)) from error
        self._groups: OrderedDict[int, pa.Table] = OrderedDict()

    def _index(self, examples: int | None, declared: Mapping[str, str]) -> list[Entry]:
        footer = self._parquet.metadata
        sizes = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
        self._starts = [0, *accumulate(sizes)]
        if missing := [name for name in ROW_COLUMNS if name not in self._parquet.schema_arrow.names]:
            raise ValueError(f"column {', '.join(missing)} is missing")
        if any(size > GROUP for size in sizes):
            raise ValueError(f"a group of {max(sizes)} rows")
        listed = bounded.parse_json((footer.metadata or {}).get(INDEX, b"null"))
        if not isinstance(listed, dict):
            raise ValueError("it does not say what it holds")
        whole = {test: index_digest(metrics) for test, metrics in listed.items()}.items() <= declared.items()
        bounded.check_rows(max(footer.num_rows, self._starts[-1]), None if whole else examples)
        entries, start = [], 0
        for evaluation, metrics in listed.items():
            for metric, (count, written) in metrics.items():
                entries.append(Entry(evaluation, metric, start, int(count), str(written)))
                start += entries[-1].rows
        if start != footer.num_rows or any(entry.rows < 1 for entry in entries):
            raise ValueError(f"it holds {footer.num_rows} rows, not those that it says")
        return entries

    def rows(self, start: int, stop: int) -> pd.DataFrame:
        """The same, of the file; Corrupt where it is broken."""
        try:
            parts = [
                self._group(number).slice(max(start - first, 0), min(stop, end) - max(start, first))
                for number, (first, end) in enumerate(zip(self._starts, self._starts[1:], strict=False))
                if first < stop and start < end
            ]
            table: pd.DataFrame = pa.concat_tables(parts).to_pandas()
            return table
        except DAMAGE as error:
            raise Corrupt(self.path, one_line(error)) from error

    def _group(self, number: int) -> pa.Table:
        if number not in self._groups:
            read = self._parquet.read_row_group(number, columns=list(ROW_COLUMNS))
            self._groups[number] = read.select(list(ROW_COLUMNS)).cast(SCHEMA)
        self._groups.move_to_end(number)
        if len(self._groups) > _GROUPS:
            self._groups.popitem(last=False)
        return self._groups[number]


def index_digest(metrics: Mapping[str, tuple[int, str]]) -> str:
    """Digest of the rows of a test, from how many rows each of its metrics has and their digest."""
    return digest({name: [rows, of_rows] for name, (rows, of_rows) in metrics.items()})


def held(path: Path) -> File:
    """A file to be read in pieces: its content, or where that is large the open file."""
    return io.BytesIO(path.read_bytes()) if bounded.check_file(path) <= _IN_MEMORY else path.open("rb")
