"""The rows of tests: tables in memory, or Parquet files of any length, of which as much is in memory as is read.

A file has the columns `ROW_COLUMNS`. It is sorted by test (in the order given) and metric (by name), in groups of `GROUP`
rows. Its metadata hold how many rows each metric of each test has, and a digest of them, so that one metric can be read and
checked without the others. Equal rows give equal bytes.

`StoredRows` reads them, `Share` names some of them, and `write_rows` and `join_rows` write them.
"""

import io
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import Protocol, runtime_checkable

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmark.errors import Corrupt, UserError, one_line
from benchmark.results import bounded
from benchmark.results.cache import atomic_path
from benchmark.results.digests import DAMAGE, digest, part_digests, table_digest

TYPES: Mapping[str, str] = {"x": "float64", "value": "float64", "draw": "int64"}
ROW_COLUMNS = ("uid", "evaluation", "metric", "x", "value", "draw")
KEY = ("uid", "metric", "x", "draw")
"""What no two rows of a test have in common."""

File = io.BytesIO | io.BufferedReader
"""An open file."""

NO_ROWS = pd.DataFrame({name: pd.Series(dtype=TYPES.get(name, "str")) for name in ROW_COLUMNS})

GROUP = 1 << 16
"""Rows of a Parquet row group."""

CHUNK = 1 << 18
"""Rows that are worked on at a time, unless a single metric has more: some 25 MB."""

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


class StoredRows:
    """Rows of tests, of which those of one metric or of a few can be read without the others.

    What is read from a file is checked against the digests that it was written with.

    Attributes:
        tests: for each test its metrics, by name, with the number of their rows.
    """

    def __init__(self, source: Source, entries: Mapping[str, Mapping[str, Entry]]) -> None:
        self._source, self._entries = source, entries
        self._checked: set[Entry] = set()
        self._kept: OrderedDict[tuple[str, str], pd.DataFrame] = OrderedDict()

    @staticmethod
    def open(
        path: Path,
        file: File,
        examples: int | None = None,
        declared: Mapping[str, str] | None = None,
        *,
        intact: bool = False,
    ) -> "StoredRows":
        """Rows that `write_rows` wrote.

        Args:
            path: what messages call the file.
            file: the open file, which is kept.
            examples: how many there are; None where it is not known. There are only so many rows for each, unless
            declared: names the file's tests, with the digests of their rows: then as many as were written.
            intact: the whole file was held against its digest, so that its parts need not be.

        Raises:
            Corrupt: it is broken, or something else; also when rows are read.
        """
        source = FileRows(path, file, examples, declared or {})
        rows = StoredRows(source, _by_test(source.entries))
        if intact:
            rows._checked.update(source.entries)
        return rows

    @staticmethod
    def read_from(path: Path) -> "StoredRows":
        """The same of a file that no record speaks of."""
        try:
            file = held(path)
        except (OSError, ValueError) as error:
            raise Corrupt(path, one_line(error)) from error
        return StoredRows.open(path, file)

    @staticmethod
    def of(table: pd.DataFrame) -> "StoredRows":
        """Those of a table in memory with `ROW_COLUMNS`; without `evaluation` they are of one test without a name."""
        named = (table if "evaluation" in table else table.assign(evaluation="")).reset_index(drop=True)
        tests = {name: place for place, name in enumerate(dict.fromkeys(named["evaluation"]))}
        order = pd.DataFrame({"test": named["evaluation"].map(tests), "metric": named["metric"]})
        ordered = named.loc[order.sort_values(["test", "metric"], kind="stable").index, list(ROW_COLUMNS)]
        ordered = ordered.astype({**TYPES, "uid": "str", "evaluation": "str", "metric": "str"}).reset_index(drop=True)
        counts = ordered.groupby(["evaluation", "metric"], sort=False).size()
        names = [tuple(map(str, key)) for key in counts.index.to_list()]
        places = zip(names, counts.tolist(), counts.cumsum().tolist(), strict=True)
        entries = [Entry(evaluation, metric, stop - count, count) for (evaluation, metric), count, stop in places]
        return StoredRows(FrameRows(ordered), _by_test(entries))

    @property
    def tests(self) -> dict[str, dict[str, int]]:
        """For each test its metrics, with the number of their rows."""
        return {test: {name: entry.rows for name, entry in metrics.items()} for test, metrics in self._entries.items()}

    def __len__(self) -> int:
        return sum(entry.rows for metrics in self._entries.values() for entry in metrics.values())

    def read(self, evaluation: str, metric: str) -> pd.DataFrame:
        """The rows of one metric of a test, `ROW_COLUMNS`; none where it has none. They are not to be changed."""
        entry = self._entries.get(evaluation, {}).get(metric)
        if entry is None:
            return NO_ROWS
        key = evaluation, metric
        if key not in self._kept:
            self._kept[key] = self.select(evaluation, [metric])
            while sum(map(len, self._kept.values())) > CHUNK and len(self._kept) > 1:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def select(self, evaluation: str, metrics: Sequence[str]) -> pd.DataFrame:
        """The rows of some metrics of a test, one after the other in the order of the file."""
        entries, parts = self._entries.get(evaluation, {}), list[pd.DataFrame]()
        runs: list[list[str]] = []  # metrics that lie side by side
        for name in sorted(metrics, key=lambda name: entries[name].start):
            previous = entries[runs[-1][-1]] if runs else None
            if previous is not None and previous.start + previous.rows == entries[name].start:
                runs[-1].append(name)
            else:
                runs.append([name])
        for run in runs:
            first, last = entries[run[0]], entries[run[-1]]
            table = self._source.rows(first.start, last.start + last.rows)
            self._check(table, [entries[name] for name in run])
            if any((evaluation, name) != (entries[name].evaluation, entries[name].metric) for name in run):
                counts = [entries[name].rows for name in run]
                shown = pd.Series(run, dtype="str").repeat(counts).reset_index(drop=True)
                table = table.assign(evaluation=evaluation, metric=shown).astype({"evaluation": "str"})
            parts.append(table)
        return parts[0] if len(parts) == 1 else pd.concat([NO_ROWS, *parts], ignore_index=True)

    def chunks(self, evaluation: str, together: Iterable[Sequence[str]] | None = None) -> Iterator[pd.DataFrame]:
        """All rows of a test, whole metrics at a time, about `CHUNK` rows of them.

        Args:
            evaluation: the test.
            together: metrics that are never apart; None: each may stand alone.
        """
        metrics = self._entries.get(evaluation, {})
        groups = [(name,) for name in metrics] if together is None else together
        for names in in_chunks(groups, lambda name: metrics[name].rows):
            yield self.select(evaluation, names)

    def frame(self) -> pd.DataFrame:
        """All rows in one table."""
        return pd.concat([NO_ROWS, *(part for test in self._entries for part in self.chunks(test))], ignore_index=True)

    def digest(self, evaluation: str) -> str:
        """Digest of the rows of a test, which its figures are stored with."""
        metrics = self._entries.get(evaluation, {})
        return index_digest({name: (entry.rows, self._digest(entry)) for name, entry in metrics.items()})

    def named(self, tests: Mapping[str, str], metrics: Mapping[str, str] | None = None) -> "StoredRows":
        """The rows of some tests under other names.

        Args:
            tests: the name shown, by the name here; others are left out.
            metrics: the same of metrics; those that are not named stay what they are.

        Raises:
            ValueError: two metrics of a test would have one name.
        """
        shown = metrics or {}
        entries: dict[str, dict[str, Entry]] = {}
        for name, called in tests.items():
            own = self._entries.get(name, {})
            entries[called] = {shown.get(metric, metric): entry for metric, entry in own.items()}
            if len(entries[called]) < len(own):
                raise ValueError("two metrics differ in characters that cannot be shown alone")
        view = StoredRows(self._source, entries)
        view._checked = self._checked
        return view

    def _check(self, table: pd.DataFrame, entries: Sequence[Entry]) -> None:
        """Corrupt where the rows of a file are not those that were written."""
        if not isinstance(self._source, FileRows) or self._checked.issuperset(entries):
            return
        tests, metrics = table["evaluation"].array, table["metric"].array
        digests, stop = part_digests(table[DIGESTED], [entry.rows for entry in entries]), 0
        for entry, found in zip(entries, digests, strict=True):
            start, stop = stop, stop + entry.rows
            named = all(
                set(own[start:stop].tolist()) <= {name}
                for own, name in ((tests, entry.evaluation), (metrics, entry.metric))
            )
            if entry not in self._checked and not (named and found == entry.digest):
                raise Corrupt(self._source.path, "it is not what was written: its digest does not fit")
            self._checked.add(entry)

    def _digest(self, entry: Entry) -> str:
        if entry.digest is not None:
            return entry.digest
        return table_digest(self._source.rows(entry.start, entry.start + entry.rows)[DIGESTED])


def _by_test(entries: Sequence[Entry]) -> dict[str, dict[str, Entry]]:
    tests: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        tests.setdefault(entry.evaluation, {})[entry.metric] = entry
    return tests


def in_chunks(groups: Iterable[Sequence[str]], size: Callable[[str], int]) -> Iterator[list[str]]:
    """The members of as many groups at a time as have `CHUNK` rows, at least of one."""
    names, rows = list[str](), 0
    for group in groups:
        more = sum(map(size, group))
        if names and rows + more > CHUNK:
            yield names
            names, rows = [], 0
        names, rows = [*names, *group], rows + more
    if names:
        yield names


class RowsWriter:
    """Writes a file that `StoredRows.open` reads, test by test, in groups of `GROUP` rows."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, SCHEMA, write_page_checksum=True)
        self._index: dict[str, dict[str, tuple[int, str]]] = {}
        self._waiting: list[pa.Table] = []

    def add(self, evaluation: str, rows: pd.DataFrame) -> None:
        """Whole metrics of a test, sorted by metric; those of one test follow one another."""
        table = rows.assign(evaluation=evaluation).astype(TYPES)
        sizes = {str(metric): len(list(own)) for metric, own in groupby(table["metric"].tolist())}
        digests = part_digests(table[DIGESTED], list(sizes.values()))
        index = self._index.setdefault(evaluation, {})
        index.update(zip(sizes, zip(sizes.values(), digests, strict=True), strict=True))
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
