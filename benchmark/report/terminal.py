"""The headline metrics as one compact table, as wide as the terminal, a pipe or a log has it."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from benchmark.report.arrangement import repeated_line, repeats
from benchmark.report.cells import NamedCell, answers_line, passages_line
from benchmark.report.leaderboard import MetricColumn, frame, groups_with_figures, headline_columns, make_board
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.report.verdicts import AgainstRandom, against_random
from benchmark.results.tables import Table as AnalysisTable
from benchmark.results.wording import arrow, bounds, number

MARKS = {1: "★", 2: "☆"}
"""The best and the second among methods: seen in a pipe, in a log and without colours too."""

_STYLES = {1: "bold green", 2: "underline"}
_LETTERS = {True: 13, False: 9}  # of a heading's line, at least, by whether figures have their intervals
_ENOUGH = 3  # metrics with intervals; where fewer fit, more of them are shown without
LEGEND = (
    f"±: larger distance to a bound of the 95 % interval; ↑ ↓: better; {MARKS[1]} best and {MARKS[2]} second figure among "
    "methods, shown where the method is better than the control random (paired, Holm-corrected over the methods), and "
    "nowhere without that control. "
    "Rows by mean rank on the ranked headline metrics, controls below."
)
_RANGE = "n: examples of a figure; a range where some tests or metrics do not apply to all."


def _entry(entry: PrintedEntry, heading: Heading, *, bounded: bool) -> Text:
    text = _figure(entry, bounded=bounded)
    if heading.doubt:
        text.stylize("dim not bold")
    return text


def _figure(entry: PrintedEntry, *, bounded: bool) -> Text:
    mark = "" if entry.mark is None else f"[{entry.mark}]"
    if entry.value is None:
        return Text(f"{entry.words}{mark}", style="dim")
    rank = entry.rank or 0
    text = Text(number(entry.value), style=_STYLES.get(rank, ""))
    around = f"±{number(entry.margin)}" if math.isfinite(entry.margin) else bounds(entry.low, entry.high)
    text.append(f" {around}" if bounded and around else "", style="not bold not underline dim")
    text.append(MARKS.get(rank, " "), style="not underline")
    text.append(mark, style="not bold not underline dim")
    return text


def _headings(headings: Sequence[Heading], kinds: Sequence[str], letters: int) -> Iterator[str]:
    """The kind of a column's test where a new one begins, and its name in lines as long as a figure, below one another."""
    names = [heading.short or " ".join(filter(None, (heading.group, heading.name))) for heading in headings]
    titles = [
        f"{name.replace('_', ' ')} {arrow(heading.higher_is_better)}"
        for name, heading in zip(names, headings, strict=True)
    ]
    wrapped = [textwrap.wrap(title, letters, break_long_words=False, break_on_hyphens=False) for title in titles]
    longest = max(map(len, wrapped))
    for kind, lines in zip(kinds, wrapped, strict=True):
        yield "\n".join([kind, *[""] * (longest - len(lines)), *lines])


def _kinds(columns: Sequence[MetricColumn], part: pd.DataFrame) -> list[str]:
    """The kind of each column's test, where it is another than that of the column before."""
    of_test = dict(zip(part["evaluation"], part["kind"], strict=True))
    kinds = [of_test[column.evaluation] for column in columns]
    return [kind if not place or kind != kinds[place - 1] else "" for place, kind in enumerate(kinds)]


def _rich_table(board: PrintedTable, kinds: Sequence[str], *, bounded: bool) -> Table:
    """The table in rich's form, as wide as it needs to be."""
    # `Text` and not a string: rich reads a string as markup, brackets and :smileys: included
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, title_justify="left")
    shown.add_column(Text(board.labels[0]), no_wrap=True, vertical="bottom", overflow="ellipsis")
    for heading in _headings(board.columns, kinds, _LETTERS[bounded]):
        shown.add_column(Text(heading), justify="right", vertical="bottom", no_wrap=True)
    if board.has_constant:
        shown.add_column("constant\nmaps", justify="right", style="dim", vertical="bottom", no_wrap=True)
    if _counts_differ(board):
        shown.add_column("n", justify="right", style="dim", vertical="bottom", no_wrap=True)
    for rows in board.groups.values():
        for row in rows:
            cells = [
                Text(row.labels[0]),
                *(_entry(*one, bounded=bounded) for one in zip(row.entries, board.columns, strict=True)),
                *([Text(row.constant)] if board.has_constant else []),
                Text(row.examples),
            ]
            shown.add_row(*cells[: len(shown.columns)])
        shown.add_section()
    return shown


@dataclass(frozen=True)
class _Board:
    """The headline metrics of one task and model, cut to a width."""

    members: Sequence[NamedCell]
    part: pd.DataFrame
    notes: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = headline_columns(self.part)
        if not columns:
            yield _without_figures(self.part)
            return
        board, kinds = make_board(self.part, columns), _kinds(columns, self.part)

        def fitting(*, bounded: bool) -> int:
            tables = ((n, _cut(board, kinds, n, bounded=bounded)) for n in range(len(columns), 1, -1))
            return next((n for n, shown in tables if _width(shown, console) <= options.max_width), 1)

        count = fitting(bounded=True)
        bounded = count >= min(_ENOUGH, len(columns))
        count = count if bounded else fitting(bounded=False)
        counted = f", n = {board.examples}" if board.examples else ""
        yield Text(f"{board.title}{counted}", style="bold")
        shown = _starred(board.part(range(count)), columns[:count], self.members)  # comparing takes time
        yield _rich_table(shown, kinds[:count], bounded=bounded)
        yield from (Text(line, style="dim") for line in self._below(board, count, bounded=bounded))

    def _below(self, board: PrintedTable, count: int, *, bounded: bool) -> Iterator[str]:
        yield from (f"[{place}] {note}" for place, note in board.part(range(count)).footnotes)
        if left := [heading.short or heading.title for heading in board.columns[count:]]:
            more = f"{len(left)} more headline metrics" if len(left) > 1 else "One more headline metric"
            yield f"{more} in leaderboard.md: {', '.join(left)}."
        if not bounded:
            yield "The 95 % intervals stand in leaderboard.md; a wider terminal shows them here."
        if _counts_differ(board) or "–" in board.examples:
            yield _RANGE
        yield from board.below
        yield from filter(None, self.notes)


def _counts_differ(board: PrintedTable) -> bool:
    """Whether lines have different numbers of examples, so that each tells its own."""
    return len({row.examples for row in board.rows} - {""}) > 1


def _starred(board: PrintedTable, columns: Sequence[MetricColumn], members: Sequence[NamedCell]) -> PrintedTable:
    """The table with the places of those methods alone that are better than random; of none without a random control."""
    beyond = [against_random(members, column) for column in columns]

    def entry(method: str, entry: PrintedEntry, found: AgainstRandom | None) -> PrintedEntry:
        return entry if found is not None and method in found.above else replace(entry, rank=None)

    def row(one: PrintedRow) -> PrintedRow:
        entries = map(partial(entry, one.labels[0]), one.entries, beyond)
        return replace(one, entries=tuple(entries))

    return replace(board, groups={name: tuple(map(row, rows)) for name, rows in board.groups.items()})


def _cut(board: PrintedTable, kinds: Sequence[str], count: int, *, bounded: bool) -> Table:
    return _rich_table(board.part(range(count)), kinds[:count], bounded=bounded)


def _width(table: Table, console: Console) -> int:
    return Measurement.get(console, console.options.update(width=10_000), table).maximum


def _without_figures(table: pd.DataFrame) -> Text:
    reasons = [f"{row['method']}: {row['dash']}" for row in table.to_dict("records") if row["dash"] is not None]
    return Text("no figures" + "".join(f"\n{reason}" for reason in reasons))


def terminal_table(cells: Sequence[NamedCell], tables: Sequence[AnalysisTable] = ()) -> Any:
    """Headline metrics of cells for rich to print, best method first, controls below the line; one table per task and model.

    `value ±m`: m is the larger distance from the value to the bounds of its 95 % interval, which themselves are shown where
    ±m would leave what is possible. As many metrics as the width
    holds are shown; the others are named. Figures of tests of which the analyses' `tables` say that they fail here are dim.
    """
    table = frame(cells, tables)
    grid = Table.grid(padding=(0, 0, 1, 0))
    for _, _, members, part in groups_with_figures(cells, table):
        told = answers_line(members), passages_line(members), repeated_line(repeats(members))
        grid.add_row(_Board(members, part, told))
    grid.add_row(Text(LEGEND, style="dim"))
    return grid
