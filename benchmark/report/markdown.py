"""The leaderboard as Markdown: an overview and one table per test, for every task and model, with the verdicts."""

from collections.abc import Sequence

import pandas as pd

from benchmark.report.cells import Cell
from benchmark.report.leaderboard import (
    Board,
    Column,
    Entry,
    Row,
    groups,
    headline_columns,
    make_board,
    scalar_columns,
)
from benchmark.report.text import arrow, bounds, number
from benchmark.report.text import escape_markdown as escape
from benchmark.report.verdicts import against_random, calibration
from benchmark.statistics import ALPHA

_LEGEND = (
    "Values with 95 % bootstrap intervals over examples; n: examples. Best real method **bold**, second "
    "<u>underlined</u>; controls are shown below the line and never ranked. ↑ higher is better, ↓ lower is better, "
    "no arrow: descriptive. "
    "In the sentences below a table, above means better, whatever the direction of the metric."
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


def board_lines(board: Board, *, full: bool) -> list[str]:
    """A board as a Markdown table with its footnotes; `full` puts the test's name before each metric."""

    def line(row: Row) -> str:
        return _line([escape(row.method), *map(_entry, row.entries), row.examples])

    width = len(board.columns)
    lines = [_line(["method", *(_title(column, full=full) for column in board.columns), "n"])]
    lines += [_line(["---", *["---:"] * (width + 1)]), *map(line, board.methods)]
    if board.controls:
        lines += [_line(["*controls*", *[""] * (width + 1)]), *map(line, board.controls)]
    if board.notes:
        lines += ["", *(f"[{place}] {escape(note)}  " for place, note in enumerate(board.notes, 1))]
    return lines


def judged_columns(table: pd.DataFrame) -> list[Column]:
    """The metrics that verdicts are given on: the ranked headline metrics of a test, or all ranked ones."""
    ranked = [column for column in headline_columns(table) if column.higher_is_better is not None]
    return ranked or [column for column in scalar_columns(table) if column.higher_is_better is not None]


def _verdicts(cells: Sequence[Cell], table: pd.DataFrame) -> list[str]:
    columns = judged_columns(table)
    if not columns:
        return ["The test is descriptive: its figures are not ranked, and calibration does not apply."]
    lines = ["Calibration (oracle above random above inverted, paired bootstrap over the same examples):", ""]
    lines += [f"- {_title(column, full=False)}: {calibration(cells, column)}" for column in columns]
    found = [(column, verdict) for column in columns if (verdict := against_random(cells, column)) is not None]
    if not found:
        return [*lines, "", "Methods were not compared to random: no figure of that control, or no intervals."]
    level = f"{ALPHA * 100:g} %"
    lines += ["", f"Against random (paired bootstrap, two-sided, Holm-corrected over the methods, {level}):", ""]
    return lines + [
        f"- {_title(column, full=False)} ({verdict.compared} methods): {escape(verdict.sentence)}"
        for column, verdict in found
    ]


def _facts(cell: Cell) -> str:
    task, model = cell.record["task"], cell.record["model"]
    seed = "" if task["seed"] is None else f", seed {task['seed']}"
    limit = "no limit" if task["limit"] is None else f"limit {task['limit']}"
    return escape(
        f"Task {task['name']} version {task['version']}, split {task['split']}, {limit}{seed}, "
        f"{task['n']} examples; model {model['name']}, {model['dtype']}."
    )


def _section(cells: Sequence[Cell], table: pd.DataFrame) -> list[str]:
    lines = [f"## {escape(cells[0].task)} · {escape(cells[0].model)}", "", _facts(cells[0]), ""]
    columns = headline_columns(table)
    if not columns:
        reasons = [f"- {escape(cell.method)}: {escape(cell.dash)}" for cell in cells if cell.dash]
        return [*lines, "No scalar figures.", "", *reasons]
    lines += ["### Overview", "", *board_lines(make_board(table, columns), full=True)]
    for evaluation in dict.fromkeys(column.evaluation for column in scalar_columns(table)):
        part = table[table["evaluation"] == evaluation]
        target = next((entry["target"] for cell in cells if (entry := cell.evaluation(evaluation)).get("target")), None)
        lines += ["", f"### {escape(evaluation)}", ""]
        lines += [f"Explained class: {escape(target)}.", ""] if target else []
        lines += [*board_lines(make_board(part, scalar_columns(part)), full=False), "", *_verdicts(cells, part)]
    return lines


def markdown(cells: Sequence[Cell], table: pd.DataFrame) -> str:
    """The whole leaderboard.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
    """
    lines = ["# Leaderboard", "", _LEGEND]
    for task, model, members in groups(cells):
        part = table[(table["task"] == task) & (table["model"] == model)]
        lines += ["", *_section(members, part)]
    return "\n".join(lines) + "\n"
