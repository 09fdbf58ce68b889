"""Tables as every format prints them: lines of figures under headings, in groups, with footnotes.

And what several files share of how a table is written: lines of Markdown, and CSV that a spreadsheet shows as it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from benchmark.results.wording import arrow, span

_SYMMETRIC = 0.8  # of the larger distance to a bound, that the smaller one is at least
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four: full-width forms


@dataclass(frozen=True)
class Heading:
    """What stands above a column of figures.

    Attributes:
        name: in the field's terms where that is known.
        higher_is_better: the direction of better.
        group: that it belongs to, named before it.
        code: the name that settings and CSV files have, where `name` is another.
        short: the name for a narrow column; empty where there is none.
        meaning: what is measured, range and direction, in one sentence.
        doubt: why the figures are not to be trusted here; empty where they are.
    """

    name: str
    higher_is_better: bool | None = None
    group: str = ""
    code: str = ""
    short: str = ""
    meaning: str = ""
    doubt: str = ""

    @property
    def title(self) -> str:
        """Name and direction."""
        return f"{self.name} {arrow(self.higher_is_better)}".rstrip()

    @property
    def alone(self) -> "Heading":
        """The heading without its group."""
        return replace(self, group="")


@dataclass(frozen=True)
class PrintedEntry:
    """A figure, or words in its place.

    Attributes:
        value: the figure; None where words stand in its place, or nothing does.
        low: lower bound of its 95 % interval, NaN where there is none.
        high: upper bound.
        n: examples that it rests on, None where it counts none.
        rank: its place among the ranked lines (1 is best), None where it is not ranked.
        words: what stands in place of a figure, or in brackets behind it.
        mark: number of the footnote that says why there is no figure, or what must be known of it.
        reach: least and largest possible value.
    """

    value: float | None = None
    low: float = math.nan
    high: float = math.nan
    n: int | None = None
    rank: int | None = None
    words: str = ""
    mark: int | None = None
    reach: tuple[float, float] = (-math.inf, math.inf)

    @property
    def margin(self) -> float:
        """The larger distance from the value to its bounds; NaN where there is none.

        ± never promises more than an asymmetric interval holds. NaN, too, where ± it would leave what is possible: then the
        bounds themselves are shown.
        """
        if self.value is None:
            return math.nan
        width = max(self.high - self.value, self.value - self.low)
        inside = self.reach[0] <= self.value - width and self.value + width <= self.reach[1]
        return width if inside else math.nan

    @property
    def is_symmetric(self) -> bool:
        """Whether the distances from the value to its bounds differ by no more than a fifth."""
        below, above = sorted((abs((self.value or 0.0) - self.low), abs(self.high - (self.value or 0.0))))
        return below >= _SYMMETRIC * above


@dataclass(frozen=True)
class PrintedRow:
    """A line: what names it, an entry per column, and the share of the examples on which a method's map is constant."""

    labels: tuple[str, ...]
    entries: tuple[PrintedEntry, ...]
    constant: str = ""

    @property
    def examples(self) -> str:
        """How many examples its figures rest on; a range where they differ."""
        return span(entry.n for entry in self.entries if entry.n is not None)


@dataclass(frozen=True)
class PrintedTable:
    """A table in the form that every format prints.

    Attributes:
        title: what it shows, in one line.
        labels: headings of the leading columns, which name a line.
        columns: headings of the figures.
        groups: lines under the name of their group; the names of all but the first are shown.
        notes: footnotes, numbered from 1.
        counted: whether a last column says how many examples a line rests on.
        below: what must be known of the whole table, in sentences.
        best: what bold and underlined figures are, where there are any; formats with words of their own leave it out.
    """

    title: str
    labels: tuple[str, ...]
    columns: tuple[Heading, ...]
    groups: Mapping[str, tuple[PrintedRow, ...]]
    notes: tuple[str, ...] = ()
    counted: bool = True
    below: tuple[str, ...] = ()
    best: str = ""

    @property
    def rows(self) -> tuple[PrintedRow, ...]:
        """The lines of all groups."""
        return tuple(row for rows in self.groups.values() for row in rows)

    @property
    def examples(self) -> str:
        """How many examples its figures rest on; a range where they differ."""
        return span(entry.n for row in self.rows for entry in row.entries if entry.n)

    @property
    def footnotes(self) -> list[tuple[int, str]]:
        """Number and words of the footnotes that its figures have; a part of a table has not all of them."""
        used = {entry.mark for row in self.rows for entry in row.entries}
        return [(place, note) for place, note in enumerate(self.notes, 1) if place in used]

    @property
    def has_constant(self) -> bool:
        """Whether a column says on how many of the examples a method's map is constant: where one is on any."""
        return any(row.constant for row in self.rows)

    @property
    def ungrouped(self) -> "PrintedTable":
        """The same without the columns' groups."""
        return replace(self, columns=tuple(heading.alone for heading in self.columns))

    def part(self, places: Sequence[int]) -> "PrintedTable":
        """The table with the columns at these places; lines, ranks and the footnotes' numbers stay."""
        groups = {
            name: tuple(replace(row, entries=tuple(row.entries[place] for place in places)) for row in rows)
            for name, rows in self.groups.items()
        }
        return replace(self, columns=tuple(self.columns[place] for place in places), groups=groups)


def markdown_line(cells: Sequence[str]) -> str:
    """A line of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def as_text(cell: object) -> object:
    """A name that a spreadsheet would compute, with an apostrophe before it; numbers and other names as they are.

    `=HYPERLINK(...)` and its kind are executed when a table is opened. The apostrophe makes a cell text (OWASP, "CSV
    injection").
    """
    if not isinstance(cell, str) or not cell.lstrip().startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell


def csv_bytes(table: pd.DataFrame) -> bytes:
    """The table as CSV in UTF-8, without its index."""
    names = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    safe = table.assign(**{name: table[name].map(as_text) for name in names})
    return safe.rename(columns=as_text).to_csv(index=False, lineterminator="\n").encode()
