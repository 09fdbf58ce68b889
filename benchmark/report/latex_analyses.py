"""The tables of analyses for a paper: floats that fit a column or the page, in parts where they are long."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmark.report.latex import escape, evenly, figure, fitted, intervals_told
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.results.wording import slug
from benchmark.settings.latex_settings import LatexSettings

_OF_PAGE, _OF_COLUMN = 6, 2  # columns of figures at a legible size
_LINES = 34  # of a float, at which it fits a page with its caption
_LETTERS = 34  # of a label's line
_HEADING = 12  # letters of a heading's line
_BESIDE = 12  # letters of words that stand in place of a figure; longer ones are footnotes
_PREAMBLE = "% needs \\usepackage{booktabs,graphicx}"


@dataclass(frozen=True)
class _Part:
    """A piece of a table that one float holds."""

    table: PrintedTable
    label: str
    place: int


def latex_analyses(tables: Sequence[tuple[str, PrintedTable]], settings: LatexSettings) -> str:
    """Every table, by its name, as one or several floats."""
    parts = [part for name, table in tables for part in _parts(name, table)]
    return "\n".join([_PREAMBLE, *(line for part in parts for line in _float(part, settings)), ""])


def _parts(name: str, table: PrintedTable) -> Iterator[_Part]:
    """The table cut into columns and lines that fit a float."""
    place = 0
    for columns in evenly(range(len(table.columns)), _OF_PAGE):
        whole = table.part(columns)
        for rows in _paged(whole.rows):
            place += 1
            yield _Part(replace(whole, groups={"": rows}), f"tab:{slug(name)}", place)


def _paged(rows: Sequence[PrintedRow]) -> Iterator[tuple[PrintedRow, ...]]:
    page: list[PrintedRow] = []
    lines = 0
    for row in rows:
        height = max(len(_wrapped(label)) for label in row.labels)
        if page and lines + height > _LINES:
            yield tuple(page)
            page, lines = [], 0
        page.append(row)
        lines += height
    yield tuple(page)


def _wrapped(text: str, letters: int = _LETTERS) -> list[str]:
    return textwrap.wrap(text, letters, break_long_words=False, break_on_hyphens=False) or [""]


def _stacked(text: str, letters: int, form: str) -> str:
    """Text in lines below one another, where it is longer than one; `form` is `[t]` (level with its first line) and side."""
    lines = [escape(line) for line in _wrapped(text, letters)]
    body = (chr(92) * 2).join(lines)
    return rf"\begin{{tabular}}{form}{body}\end{{tabular}}" if len(lines) > 1 else body


def _noted(rows: Sequence[PrintedRow]) -> tuple[list[PrintedRow], list[str]]:
    """The lines with a number in place of long words, and the words as footnotes."""
    notes: dict[str, int] = {}

    def short(entry: PrintedEntry) -> PrintedEntry:
        if len(entry.words) <= _BESIDE:
            return entry
        return replace(
            entry, words="–" if entry.value is None else "", mark=notes.setdefault(entry.words, len(notes) + 1)
        )

    return [replace(row, entries=tuple(map(short, row.entries))) for row in rows], list(notes)


def _float(part: _Part, settings: LatexSettings) -> Iterator[str]:
    table, interval = part.table, settings.interval
    rows, notes = _noted(table.rows)
    counted = any(row.examples for row in rows)
    wide = settings.columns == "two" and len(table.columns) + len(table.labels) > _OF_COLUMN + 1
    star, width = ("*", r"\textwidth") if wide else ("", r"\columnwidth")
    more = " (continued)" if part.place > 1 else ""
    label = part.label + (f"-{part.place}" if part.place > 1 else "")
    bounded = any(math.isfinite(entry.low) for row in rows for entry in row.entries)
    told = " ".join([*([intervals_told(interval).strip()] if bounded else []), *map(escape, table.below)])

    def line(row: PrintedRow) -> str:
        labels = [_stacked(text, _LETTERS, "[t]{@{}l@{}}") for text in row.labels]
        values = [_entry(entry, interval) for entry in row.entries]
        return " & ".join([*labels, *values, *([escape(row.examples)] if counted else [])]) + r" \\"

    yield from (
        "", rf"\begin{{table{star}}}", r"\centering", r"\footnotesize", r"\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{escape(table.title)}{more}. {told}}}", rf"\label{{{label}}}", r"\medskip",
        rf"\sbox0{{\begin{{tabular}}{{{'l' * len(table.labels)}{'r' * (len(table.columns) + counted)}}}", r"\toprule",
        " & ".join([*map(escape, table.labels), *map(_heading, table.columns), *(["$n$"] if counted else [])]) + r" \\",
        r"\midrule", *map(line, rows), r"\bottomrule", r"\end{tabular}}%", fitted(width),
    )  # fmt: skip
    if notes:
        numbered = [rf"\textsuperscript{{{place}}}~{escape(note)}" for place, note in enumerate(notes, 1)]
        yield rf"\par\smallskip{{\raggedright\scriptsize {'; '.join(numbered)}\par}}"
    yield rf"\end{{table{star}}}"


def _heading(heading: Heading) -> str:
    return _stacked(heading.name, _HEADING, "[b]{@{}r@{}}")


def _entry(entry: PrintedEntry, interval: str) -> str:
    """The figure, and short words beside it."""
    if entry.value is None and not entry.words:
        return ""
    beside = f" ({escape(entry.words)})" if entry.value is not None and entry.words else ""
    return figure(entry, "", 0, interval) + beside
