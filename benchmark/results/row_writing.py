"""Writing of files of rows (`benchmark.results.stored_rows`): whole tables, several tests, or one test from its parts."""

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmark.errors import UserError
from benchmark.results import bounded
from benchmark.results.cache import atomic_path
from benchmark.results.digests import table_digest
from benchmark.results.row_files import DIGESTED, GROUP, INDEX, KEY, NO_ROWS, ROW_COLUMNS, SCHEMA, TYPES
from benchmark.results.stored_rows import StoredRows, in_chunks


class RowsWriter:
    """Writes a file that `StoredRows.open` reads, test by test, in groups of `GROUP` rows."""

    def __init__(self, file: Path | io.BytesIO) -> None:
        self._writer = pq.ParquetWriter(file, SCHEMA, write_page_checksum=True)
        self._index: dict[str, dict[str, tuple[int, str]]] = {}
        self._waiting: list[pa.Table] = []

    def add(self, evaluation: str, rows: pd.DataFrame) -> None:
        """Whole metrics of a test, sorted by metric; those of one test follow one another."""
        table = rows.assign(evaluation=evaluation).astype(TYPES)
        for metric, part in table.groupby("metric", sort=False):
            self._index.setdefault(evaluation, {})[str(metric)] = (len(part), table_digest(part[DIGESTED]))
        self._waiting.append(pa.Table.from_pandas(table[list(ROW_COLUMNS)], SCHEMA, preserve_index=False))
        self._write(GROUP)

    def close(self) -> None:
        """Write what is left, and what the file holds."""
        self._write(1)
        self._writer.add_key_value_metadata({INDEX: json.dumps(self._index).encode()})
        self._writer.close()

    def _write(self, least: int) -> None:
        """Write groups of `GROUP` rows, as long as at least so many are left."""
        table = pa.concat_tables(self._waiting) if self._waiting else SCHEMA.empty_table()
        while len(table) >= least:
            self._writer.write_table(table.slice(0, GROUP), row_group_size=GROUP)
            table = table.slice(GROUP)
        self._waiting = [table] if len(table) else []


@dataclass(frozen=True)
class Share:
    """Some rows of a test.

    Attributes:
        rows: where they are.
        test: what the test is called there.
        uids: the examples whose rows are meant; None: all.
    """

    rows: StoredRows
    test: str = ""
    uids: frozenset[str] | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows each metric has, those of other examples included."""
        return self.rows.tests.get(self.test, {})

    @property
    def digest(self) -> str:
        """Digest of the rows of all examples, which the test's figures are stored with."""
        return self.rows.digest(self.test)

    @property
    def whole(self) -> pd.DataFrame:
        """All of them."""
        return self.read(list(self.counts))

    def read(self, metrics: Sequence[str]) -> pd.DataFrame:
        """The rows of these metrics, as far as there are any."""
        table = self.rows.select(self.test, [name for name in metrics if name in self.counts])
        return table if self.uids is None else table[table["uid"].isin(self.uids)]


NOTHING = Share(StoredRows.of(NO_ROWS))
"""No rows."""


def write_rows(path: Path, tests: Mapping[str, Share]) -> None:
    """Write the rows of several tests under these names, atomically, without having all of them in memory.

    Raises:
        UserError: they are more than are read again; nothing was written.
    """
    try:
        bounded.check_rows(sum(sum(share.counts.values()) for share in tests.values()))
    except ValueError as error:
        raise UserError(f"{path} could not be read again ({error}); test fewer examples or draws") from error
    with atomic_path(path) as temporary:
        writer = RowsWriter(temporary)
        for name, share in tests.items():
            for part in share.rows.chunks(share.test):
                writer.add(name, part)
        writer.close()


def rows_bytes(table: pd.DataFrame) -> bytes:
    """The file of a table in memory, see `StoredRows.of`."""
    rows, buffer = StoredRows.of(table), io.BytesIO()
    writer = RowsWriter(buffer)
    for test in rows.tests:
        for part in rows.chunks(test):
            writer.add(test, part)
    writer.close()
    return buffer.getvalue()


def join_rows(path: Path, shares: Sequence[Share], uids: Sequence[str]) -> None:
    """Write the rows of one test, which gets no name, from shares that hold those of some examples each.

    The rows of a metric lie in the order of the examples `uids`, however they were shared out.

    Raises:
        ValueError: rows are there twice.
    """
    place = {uid: number for number, uid in enumerate(uids)}
    counts: Counter[str] = Counter()
    for share in shares:
        counts.update(share.counts)
    with atomic_path(path) as temporary:
        writer = RowsWriter(temporary)
        for metrics in in_chunks([(name,) for name in sorted(counts)], counts.__getitem__):
            table = pd.concat([NO_ROWS, *(share.read(metrics) for share in shares)], ignore_index=True)
            if table.duplicated(list(KEY)).any():
                raise ValueError("an example was tested twice")
            ordered = table.assign(place=table["uid"].map(place)).sort_values(["metric", "place"], kind="stable")
            writer.add("", ordered.drop(columns="place"))
        writer.close()
