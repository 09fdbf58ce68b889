"""The headline metrics as one table for the terminal."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import Board, Column, Entry, Row, frame, groups, headline_columns, make_board
from benchmark.results.wording import arrow, number

_TABLE_WIDTH = 120
_STYLES = {1: "bold green", 2: "underline"}


def margin(entry: Entry) -> float:
    """The larger distance from the value to its bounds: ± never promises more than an asymmetric interval holds."""
    return max(entry.high - entry.value, entry.value - entry.low)


def _entry(entry: Entry) -> Text:
    if entry.note is not None:
        return Text(f"– [{entry.note}]", style="dim")
    text = Text(number(entry.value), style=_STYLES.get(entry.rank or 0, ""))
    width = margin(entry)
    quiet = "not bold not underline dim"
    if math.isfinite(width):
        text.append(f" ±{number(width)}", style=quiet)
    return text if entry.remark is None else text.append(f" [{entry.remark}]", style=quiet)


def _add(table: Table, row: Row) -> None:
    table.add_row(Text(row.method), *map(_entry, row.entries), row.examples)


def _width(board: Board, place: int) -> int:
    """Characters that a column needs: the longest word of its heading or the longest entry, and the gap."""
    column = board.columns[place]
    entries = [len(_entry(row.entries[place]).plain) for row in (*board.methods, *board.controls)]
    return 2 + max(*map(len, _heading(column).split()), *entries)


def _parts(board: Board) -> list[list[Column]]:
    """The columns in tables that fit the width, as many as fit in each."""
    names = [len(row.method) for row in (*board.methods, *board.controls)]
    free = _TABLE_WIDTH - max(names) - 12  # 12: gaps and the column of n
    parts: list[list[Column]] = [[]]
    used = 0
    for place, column in enumerate(board.columns):
        width = _width(board, place)
        if parts[-1] and used + width > free:
            parts.append([])
            used = 0
        parts[-1].append(column)
        used += width
    return parts


def _heading(column: Column) -> str:
    return f"{column.evaluation}\n{column.metric.replace('_', ' ')} {arrow(column.higher_is_better)}".rstrip()


def _narrowed(board: Board, chosen: Sequence[Column]) -> Board:
    """The board with some of its columns; order of the methods, ranks and footnote numbers are kept."""

    def cut(row: Row) -> Row:
        return Row(
            row.method, tuple(e for e, column in zip(row.entries, board.columns, strict=True) if column in chosen)
        )

    methods, controls = (tuple(cut(row) for row in rows) for rows in (board.methods, board.controls))
    return replace(board, columns=tuple(chosen), methods=methods, controls=controls)


def _board_table(board: Board) -> Table:
    entries = [entry for row in (*board.methods, *board.controls) for entry in row.entries]
    used = {entry.note for entry in entries} | {entry.remark for entry in entries}
    notes = "\n".join(f"[{place}] {note}" for place, note in enumerate(board.notes, 1) if place in used)
    # `Text` and not a string: rich reads a string as markup, brackets and :smileys: included
    table = Table(
        title=Text(f"{board.task} · {board.model}"), caption=Text(notes) if notes else None, box=box.SIMPLE_HEAD,
        title_justify="left", caption_justify="left", padding=(0, 1), title_style="bold",
    )  # fmt: skip
    table.add_column("method", no_wrap=True, overflow="ellipsis")
    for column in board.columns:
        table.add_column(Text(_heading(column)), justify="right")
    table.add_column("\nn", justify="right", style="dim")
    for row in board.methods:
        _add(table, row)
    table.add_section()
    for row in board.controls:
        _add(table, row)
    return table


def _without_figures(table: pd.DataFrame) -> Text:
    reasons = [f"{row['method']}: {row['dash']}" for row in table.to_dict("records") if row["dash"] is not None]
    return Text("no figures" + "".join(f"\n{reason}" for reason in reasons))


def terminal_table(cells: Sequence[NamedCell]) -> Table:
    """Headline metrics of cells, best method first, controls below the line.

    `value ±m`: m is the larger distance from the value to the bounds of its 95 % interval. Fits 120 columns.
    """
    table = frame(cells)
    grid = Table.grid(padding=(0, 0, 1, 0))
    grid.caption = (
        "value ±larger distance to the bounds of its 95 % interval; ↑ ↓ better; best green, second underlined"
    )
    grid.caption_justify = "left"
    for task, model, _ in groups(cells):
        part = table[(table["task"] == task) & (table["model"] == model)]
        columns = headline_columns(part)
        if not columns:
            grid.add_row(_without_figures(part))
            continue
        board = make_board(part, columns)
        for chosen in _parts(board):
            grid.add_row(_board_table(_narrowed(board, chosen)))
    return grid
