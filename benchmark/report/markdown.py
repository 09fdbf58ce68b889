"""Tables as Markdown, and the leaderboard: an overview and one table per test of every task and model, with verdicts."""

from collections.abc import Mapping, Sequence

import pandas as pd

from benchmark.report.arrangement import ORDER, ordered_tests, repeated_line, repeats
from benchmark.report.cells import NamedCell, answers_line, passages_line
from benchmark.report.curve_figures import curves, not_drawn
from benchmark.report.leaderboard import (
    MetricColumn,
    groups_with_figures,
    headline_columns,
    judged_columns,
    make_board,
    scalar_columns,
)
from benchmark.report.pairs import MethodPairs
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable, markdown_line
from benchmark.report.verdicts import calibration
from benchmark.results.record import KINDS, About, EvaluationRecord
from benchmark.results.statistics import ALPHA
from benchmark.results.wording import arrow, bounds, number
from benchmark.results.wording import escape_markdown as escape

_LEGEND = (
    "Values with 95 % intervals over examples (studentised bootstrap, score intervals of proportions); n: examples. Best "
    "figure of a real method **bold**, second <u>underlined</u>: that is no verdict, which sentences below a table give; "
    "nothing is where all are equal or none is better than the worst possible value. Controls are shown below the line and "
    "never ranked. ↑ higher is better, ↓ lower is better, no arrow: descriptive. "
    "In the sentences below a table, above means better, whatever the direction of the metric. Methods are compared on "
    "the same examples, never by whether two intervals overlap. " + ORDER
)


def _entry(entry: PrintedEntry) -> str:
    mark = "" if entry.mark is None else f"[{entry.mark}]"
    words = escape(entry.words)
    if entry.value is None:
        return f"{words} {mark}".rstrip()
    value = number(entry.value)
    value = {1: f"**{value}**", 2: f"<u>{value}</u>"}.get(entry.rank or 0, value)
    return " ".join(filter(None, [value, bounds(entry.low, entry.high), f"({words})" if words else "", mark]))


def _title(heading: Heading) -> str:
    name = f"{heading.group}: {heading.name}" if heading.group else heading.name
    return f"{escape(name)} {arrow(heading.higher_is_better)}".rstrip()


def _head(heading: Heading) -> str:
    """The same above a column, with the code name in small type."""
    return f"{_title(heading)}<br><sub>{escape(heading.code)}</sub>" if heading.code else _title(heading)


def table_lines(table: PrintedTable) -> list[str]:
    """A table with its footnotes; the name of a column's group stands before its own."""

    def line(row: PrintedRow) -> str:
        last = [row.constant] * table.has_constant + [row.examples] * table.counted
        return markdown_line([*map(escape, row.labels), *map(_entry, row.entries), *map(escape, last)])

    leading, figures = len(table.labels), len(table.columns) + table.counted + table.has_constant
    last = ["constant maps"] * table.has_constant + ["n"] * table.counted
    names = [*map(escape, table.labels), *map(_head, table.columns), *last]
    lines = [markdown_line(names), markdown_line(["---"] * leading + ["---:"] * figures)]
    for place, (group, rows) in enumerate(table.groups.items()):
        lines += [markdown_line([f"*{group}*", *[""] * (leading + figures - 1)])] if place and rows else []
        lines += map(line, rows)
    if table.notes:
        lines += ["", *(f"[{place}] {escape(note)}  " for place, note in enumerate(table.notes, 1))]
    return [*lines, *(line for sentence in filter(None, (table.best, *table.below)) for line in ("", escape(sentence)))]


def _verdicts(cells: Sequence[NamedCell], table: pd.DataFrame, pairs: Sequence[MethodPairs]) -> list[str]:
    columns = judged_columns(table)
    if not columns:
        return ["The test is descriptive: its figures are not ranked, and calibration does not apply."]
    lines = [
        "Calibration (oracle above random above inverted, and constant scores not above random, in paired differences over "
        f"the same examples: sign flips, two-sided, {ALPHA * 100:g} %, and the 95 % interval beyond 0):",
        "",
    ]
    lines += [f"- {_title(column.heading.alone)}: {calibration(cells, column)}" for column in columns]
    verdicts = [(of_metric.column, of_metric.random) for of_metric in pairs if of_metric.random is not None]
    if not verdicts:
        return [*lines, "", "Methods were not compared to random: no figure of that control, or no method."]
    level = f"{ALPHA * 100:g} %"
    lines += ["", f"Against random (sign flips, two-sided, Holm-corrected over the methods of a metric, {level}):", ""]
    return lines + [
        f"- {_title(column.heading.alone)} ({verdict.compared} methods): {escape(verdict.sentence)}"
        for column, verdict in verdicts
    ]


_LETTERED = 12  # methods and controls up to which a matrix is shown; the CSV has all
_PAIRS = (
    f"Pairs of methods (sign flips, two-sided, Holm-corrected over the pairs of a metric, {ALPHA * 100:g} %). Above the "
    "diagonal: how much better the row is than the column, \\* where significant; below it the corrected p-value. "
    "Differences to controls are beside them, and no part of the family. `differences.csv` has all, with intervals."
)


def _pairs(by_metric: Sequence[MethodPairs]) -> list[str]:
    """What the pairs of methods say, metric by metric, and their matrices."""
    compared = [pairs for pairs in by_metric if len(pairs.methods) + len(pairs.constant) > 1]
    if not compared:
        return []
    lines = ["", _PAIRS, ""]
    lines += [f"- {_title(pairs.column.heading.alone)}: {escape('; '.join(pairs.sentences))}" for pairs in compared]
    matrices = (pairs.matrix for pairs in compared if len(pairs.methods) + len(pairs.controls) <= _LETTERED)
    return lines + [line for matrix in matrices if matrix is not None for line in ("", *table_lines(matrix))]


def _facts(cell: NamedCell) -> str:
    task, model = cell.record.task, cell.record.model
    seed = "" if task.seed is None else f", seed {task.seed}"
    limit = "no limit" if task.limit is None else f"limit {task.limit}"
    return escape(
        f"Task {task.name} version {task.version}, split {task.split}, {limit}{seed}, "
        f"{task.n} examples; model {model.name}, {model.dtype}."
    )


def _test(name: str, test: EvaluationRecord | None) -> list[str]:
    """The heading of a test: its title with the code name, its kind, and the class that is explained."""
    about = About() if test is None else test.about
    heading = f"{escape(about.title)} <sub>{escape(name)}</sub>" if about.title else escape(name)
    told = [f"A test of {about.kind}."] if about.kind in KINDS[:-1] else ["Descriptive."] if about.kind in KINDS else []
    told += [f"Explained class: {escape(test.target)}."] if test is not None and test.target else []
    return [f"### {heading}", "", *([" ".join(told), ""] if told else [])]


def _meanings(columns: Sequence[MetricColumn]) -> list[str]:
    """What each metric measures, its range and direction; nothing for those without a title."""
    lines = [f"- {_title(column.heading.alone)}: {escape(column.meaning)}" for column in columns if column.title]
    return [*lines, ""] if lines else []


def _section(cells: Sequence[NamedCell], table: pd.DataFrame, pairs: Sequence[MethodPairs]) -> list[str]:
    lines = [f"## {escape(cells[0].task)} · {escape(cells[0].model)}", "", _facts(cells[0]), ""]
    for told in filter(None, (answers_line(cells), passages_line(cells))):
        lines += [told, ""]
    columns = headline_columns(table)
    if not columns:
        reasons = [f"- {escape(cell.method)}: {escape(cell.dash)}" for cell in cells if cell.dash]
        return [*lines, "No scalar figures.", "", *reasons]
    lines += ["### Overview", "", *table_lines(make_board(table, columns))]
    lines += ["", escape(told)] if (told := repeated_line(repeats(cells))) else []
    shown = ordered_tests(cells)
    for evaluation in dict.fromkeys(column.evaluation for column in scalar_columns(table)):
        part = table[table["evaluation"] == evaluation]
        lines += ["", *_test(evaluation, shown.get(evaluation)), *_meanings(scalar_columns(part))]
        own = [of_metric for of_metric in pairs if of_metric.column.evaluation == evaluation]
        lines += [*table_lines(make_board(part, scalar_columns(part)).ungrouped), "", *_verdicts(cells, part, own)]
        lines += _pairs(own)
    return lines


def _figures(cells: Sequence[NamedCell], table: pd.DataFrame) -> list[str]:
    """Where the curves are, and which are not drawn."""
    found = curves(cells, table)
    lines = [f"- {escape(curve.text)}" for curve in found if not curve.flat]
    told = ["", escape(left)] if (left := not_drawn(found)) else []
    return ["", "## Curves", "", *lines, *told] if found else []


def markdown(
    cells: Sequence[NamedCell], table: pd.DataFrame, pairs: Mapping[tuple[str, str], Sequence[MethodPairs]]
) -> str:
    """The whole leaderboard.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
        pairs: their pairs (`pairs.every_pair`).
    """
    lines = ["# Leaderboard", "", _LEGEND]
    for task, model, members, part in groups_with_figures(cells, table):
        lines += ["", *_section(members, part, pairs[task, model])]
    return "\n".join([*lines, *_figures(cells, table)]) + "\n"
