"""Tables for the terminal, and the headline metrics as one."""

import math
from collections.abc import Iterator, Sequence

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import frame, groups_with_figures, headline_columns, make_board
from benchmark.report.printed import Heading, PrintedEntry, PrintedTable
from benchmark.results.wording import number

_TABLE_WIDTH = 120
_STYLES = {1: "bold green", 2: "underline"}


def margin(value: float, low: float, high: float) -> float:
    """The larger distance from the value to its bounds: ± never promises more than an asymmetric interval holds."""
    return max(high - value, value - low)


def _entry(entry: PrintedEntry) -> Text:
    mark = "" if entry.mark is None else f" [{entry.mark}]"
    if entry.value is None:
        return Text(entry.words + mark, style="dim")
    width = margin(entry.value, entry.low, entry.high)
    behind = [f" ±{number(width)}" if math.isfinite(width) else "", f" ({entry.words})" if entry.words else "", mark]
    text = Text(number(entry.value), style=_STYLES.get(entry.rank or 0, ""))
    for words in filter(None, behind):
        text.append(words, style="not bold not underline dim")
    return text


def _heading(heading: Heading) -> str:
    return f"{heading.group}\n{heading.title.replace('_', ' ')}"


def _parts(table: PrintedTable) -> Iterator[PrintedTable]:
    """The table in parts that fit the width, with as many columns as fit in each."""
    free = _TABLE_WIDTH - max(len(" ".join(row.labels)) for row in table.rows) - 12  # 12: gaps and the column of n
    places: list[int] = []
    used = 0
    for place, heading in enumerate(table.columns):
        entries = [len(_entry(row.entries[place]).plain) for row in table.rows]
        width = 2 + max(*map(len, _heading(heading).split()), *entries)  # the gap, and the longest word or entry
        if places and used + width > free:
            yield table.part(places)
            places, used = [], 0
        places.append(place)
        used += width
    yield table.part(places)


def rich_table(table: PrintedTable) -> Table:
    """A table with the footnotes that it refers to."""
    used = {entry.mark for row in table.rows for entry in row.entries}
    notes = "\n".join(f"[{place}] {note}" for place, note in enumerate(table.notes, 1) if place in used)
    # `Text` and not a string: rich reads a string as markup, brackets and :smileys: included
    shown = Table(
        title=Text(table.title), caption=Text(notes) if notes else None, box=box.SIMPLE_HEAD,
        title_justify="left", caption_justify="left", padding=(0, 1), title_style="bold",
    )  # fmt: skip
    for label in table.labels:
        shown.add_column(Text(label), no_wrap=True, overflow="ellipsis")
    for heading in table.columns:
        shown.add_column(Text(_heading(heading)), justify="right")
    if table.counted:
        shown.add_column("\nn", justify="right", style="dim")
    for rows in table.groups.values():
        for row in rows:
            count = [row.examples] if table.counted else []
            shown.add_row(*map(Text, row.labels), *map(_entry, row.entries), *count)
        shown.add_section()
    return shown


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
    for _, _, _, part in groups_with_figures(cells, table):
        columns = headline_columns(part)
        if not columns:
            grid.add_row(_without_figures(part))
            continue
        for board in _parts(make_board(part, columns)):
            grid.add_row(rich_table(board))
    return grid
