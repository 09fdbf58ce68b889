"""Rows of tests, of which those of one metric or of a few are read without the others (`benchmark.results.row_files`)."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from benchmark.errors import Corrupt, one_line
from benchmark.results.digests import table_digest
from benchmark.results.row_files import (
    DIGESTED,
    NO_ROWS,
    ROW_COLUMNS,
    TYPES,
    Entry,
    File,
    FileRows,
    FrameRows,
    Source,
    held,
    index_digest,
)

CHUNK = 1 << 18
"""Rows that are worked on at a time, unless a single metric has more: some 25 MB."""


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
        path: Path, file: File, examples: int | None = None, declared: Mapping[str, str] | None = None
    ) -> "StoredRows":
        """Rows that `write_rows` wrote.

        Args:
            path: what messages call the file.
            file: the open file, which is kept.
            examples: how many there are; None where it is not known. There are only so many rows for each, unless
            declared: names the file's tests, with the digests of their rows: then as many as were written.

        Raises:
            Corrupt: it is broken, or something else; also when rows are read.
        """
        source = FileRows(path, file, examples, declared or {})
        return StoredRows(source, _by_test(source.entries))

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
        if not isinstance(self._source, FileRows):
            return
        start = 0
        for entry in entries:
            part, start = table.iloc[start : start + entry.rows], start + entry.rows
            if entry in self._checked:
                continue
            names = (part["evaluation"] == entry.evaluation) & (part["metric"] == entry.metric)
            if not names.all() or table_digest(part[DIGESTED]) != entry.digest:
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
