"""The leaderboard as Markdown: an overview and one table per test, for every task and model, with the verdicts."""

from collections.abc import Mapping, Sequence

import pandas as pd

from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import (
    Board,
    Column,
    Entry,
    Row,
    groups,
    headline_columns,
    judged_columns,
    make_board,
    scalar_columns,
)
from benchmark.report.pairs import Pairs, Place
from benchmark.report.verdicts import against_random, calibration
from benchmark.results.statistics import ALPHA
from benchmark.results.wording import arrow, bounds, number
from benchmark.results.wording import escape_markdown as escape

_LEGEND = (
    "Values with 95 % intervals over examples (studentised bootstrap, score intervals of proportions); n: examples. Best "
    "real method **bold**, second "
    "<u>underlined</u>; controls are shown below the line and never ranked. ↑ higher is better, ↓ lower is better, "
    "no arrow: descriptive. "
    "In the sentences below a table, above means better, whatever the direction of the metric. Methods are compared on "
    "the same examples, never by whether two intervals overlap."
)


def _entry(entry: Entry) -> str:
    if entry.note is not None:
        return f"– [{entry.note}]"
    value = number(entry.value)
    value = {1: f"**{value}**", 2: f"<u>{value}</u>"}.get(entry.rank or 0, value)
    mark = "" if entry.remark is None else f" [{entry.remark}]"
    return f"{value} {bounds(entry.low, entry.high)}".rstrip() + mark


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _title(column: Column, *, full: bool) -> str:
    name = f"{column.evaluation}: {column.metric}" if full else column.metric
    return f"{escape(name)} {arrow(column.higher_is_better)}".rstrip()


def board_lines(board: Board, *, full: bool, titles: Sequence[str] = ()) -> list[str]:
    """A board as a Markdown table with its footnotes; `full` puts the test's name before each metric.

    Args:
        board: the table.
        full: whether the tests are named.
        titles: of the columns, in words of the reader's own; none: the metrics' names.
    """

    def line(row: Row) -> str:
        return _line([escape(row.method), *map(_entry, row.entries), row.examples])

    width = len(board.columns)
    named = titles or [_title(column, full=full) for column in board.columns]
    lines = [_line(["method", *named, "n"])]
    lines += [_line(["---", *["---:"] * (width + 1)]), *map(line, board.methods)]
    if board.controls:
        lines += [_line(["*controls*", *[""] * (width + 1)]), *map(line, board.controls)]
    if board.notes:
        lines += ["", *(f"[{place}] {escape(note)}  " for place, note in enumerate(board.notes, 1))]
    return lines


def _verdicts(cells: Sequence[NamedCell], table: pd.DataFrame) -> list[str]:
    columns = judged_columns(table)
    if not columns:
        return ["The test is descriptive: its figures are not ranked, and calibration does not apply."]
    lines = ["Calibration (oracle above random above inverted, in paired differences over the same examples):", ""]
    lines += [f"- {_title(column, full=False)}: {calibration(cells, column)}" for column in columns]
    found = [(column, verdict) for column in columns if (verdict := against_random(cells, column)) is not None]
    if not found:
        return [*lines, "", "Methods were not compared to random: no figure of that control, or no method."]
    level = f"{ALPHA * 100:g} %"
    lines += ["", f"Against random (sign flips, two-sided, Holm-corrected over the methods of a metric, {level}):", ""]
    return lines + [
        f"- {_title(column, full=False)} ({verdict.compared} methods): {escape(verdict.sentence)}"
        for column, verdict in found
    ]


_LETTERED = 12  # methods and controls up to which a matrix is shown; the CSV has all
_PAIRS = (
    f"Pairs of methods (sign flips, two-sided, Holm-corrected over the pairs of a metric, {ALPHA * 100:g} %). Above the "
    "diagonal: how much better the row is than the column, \\* where significant; below it the corrected p-value. "
    "Differences to controls are beside them, and no part of the family. `differences.csv` has all, with intervals."
)


def _signed(amount: float) -> str:
    return f"{'+' if amount > 0 else ''}{number(amount)}"


def _pair(found: Pairs, row: str, column: str) -> str:
    """An entry of the matrix."""
    if (row, column) in found.comparisons:
        comparison, adjusted = found.comparisons[row, column], found.adjusted.get((row, column), 1.0)
        return "–" if comparison is None else _signed(comparison.gain.value) + ("\\*" if adjusted < ALPHA else "")
    p = found.adjusted.get((column, row))
    return "" if p is None else f"p {number(p)}"


def _matrix(found: Pairs) -> list[str]:
    """The pairs of one metric as a table: real methods down, real methods and controls across."""
    names = [*found.methods, *found.controls]
    if not any(found.comparisons.values()) or len(names) > _LETTERED:
        return []
    lines = ["", _line([_title(found.column, full=False), *map(escape, names)])]
    lines += [_line(["---", *["---:"] * len(names)])]
    return lines + [_line([escape(row), *(_pair(found, row, column) for column in names)]) for row in found.methods]


def _pairs(every: Sequence[Pairs]) -> list[str]:
    """What the pairs of methods say, metric by metric, and their matrices."""
    known = [found for found in every if len(found.methods) > 1]
    if not known:
        return []
    lines = ["", _PAIRS, ""]
    lines += [f"- {_title(found.column, full=False)}: {escape('; '.join(found.sentences))}" for found in known]
    return [*lines, *(line for found in known for line in _matrix(found))]


def _facts(cell: NamedCell) -> str:
    task, model = cell.record.task, cell.record.model
    seed = "" if task.seed is None else f", seed {task.seed}"
    limit = "no limit" if task.limit is None else f"limit {task.limit}"
    return escape(
        f"Task {task.name} version {task.version}, split {task.split}, {limit}{seed}, "
        f"{task.n} examples; model {model.name}, {model.dtype}."
    )


def _section(cells: Sequence[NamedCell], table: pd.DataFrame, pairs: Sequence[Pairs]) -> list[str]:
    lines = [f"## {escape(cells[0].task)} · {escape(cells[0].model)}", "", _facts(cells[0]), ""]
    columns = headline_columns(table)
    if not columns:
        reasons = [f"- {escape(cell.method)}: {escape(cell.dash)}" for cell in cells if cell.dash]
        return [*lines, "No scalar figures.", "", *reasons]
    lines += ["### Overview", "", *board_lines(make_board(table, columns), full=True)]
    for evaluation in dict.fromkeys(column.evaluation for column in scalar_columns(table)):
        part = table[table["evaluation"] == evaluation]
        target = next((test.target for cell in cells if (test := cell.evaluation(evaluation)) is not None), None)
        lines += ["", f"### {escape(evaluation)}", ""]
        lines += [f"Explained class: {escape(target)}.", ""] if target else []
        lines += [*board_lines(make_board(part, scalar_columns(part)), full=False), "", *_verdicts(cells, part)]
        lines += _pairs([found for found in pairs if found.column.evaluation == evaluation])
    return lines


def markdown(cells: Sequence[NamedCell], table: pd.DataFrame, pairs: Mapping[Place, Sequence[Pairs]]) -> str:
    """The whole leaderboard.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
        pairs: their pairs (`pairs.every_pair`).
    """
    lines = ["# Leaderboard", "", _LEGEND]
    for task, model, members in groups(cells):
        part = table[(table["task"] == task) & (table["model"] == model)]
        lines += ["", *_section(members, part, pairs[task, model])]
    return "\n".join(lines) + "\n"
