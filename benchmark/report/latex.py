"""LaTeX for a paper: the leaderboard as an overview and an appendix, and the tables of analyses.

A float fits a column or the page and is shrunk where it is wider; tables of the appendix break across pages.
"""

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TypeVar

import pandas as pd

from benchmark.errors import UserError, near
from benchmark.report.arrangement import is_control
from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import (
    MetricColumn,
    groups_with_figures,
    headline_columns,
    make_board,
    scalar_columns,
)
from benchmark.report.naming import method_title
from benchmark.report.pairs import MethodPairs
from benchmark.report.printed import PrintedEntry, PrintedRow, PrintedTable
from benchmark.results.statistics import ALPHA
from benchmark.results.wording import number, slug, without_fingerprint
from benchmark.settings.latex_settings import LatexSettings

Column = TypeVar("Column")

Marks = Mapping[tuple[str, str, str], str]
"""Daggers by method, test and metric."""

_OF_PAGE = 6  # columns of figures of a table without choice of ours, at a legible size
_OF_COLUMN, _OF_APPENDIX = 3, 4
_NARROW = 3  # columns, labels included, of an analysis' table that a column of two holds
_OF_FLOAT = 30  # methods of a table that cannot break across pages
_LINES = 34  # of an analysis' float, at which it fits a page with its caption
_HEADING, _NAME = 11, 12  # letters of a line above a figure of the leaderboard, and of an analysis
_LABEL = 34  # letters of a line of a label
_BESIDE = 12  # letters of words that stand in place of a figure; longer ones are footnotes
_OF_FLOATS = "% needs \\usepackage{booktabs,graphicx}"
_OF_LONG_TABLES = "% needs \\usepackage{booktabs,longtable}; in a two-column document after \\onecolumn"
_BREAK = r"\\"
_TEST = (
    rf"two-sided test of paired differences over the same examples (sign flips; swaps for ratios of sums), "
    rf"Holm-corrected, {ALPHA * 100:g}\,\%"
)

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}",  # after \\ a bracket or a star would be its argument
    "–": "--", "—": "---", "·": r"\textperiodcentered{}", "×": r"$\times$", "…": r"\dots{}",
    "≥": r"$\geq$", "≤": r"$\leq$", "≠": r"$\neq$", "≈": r"$\approx$", "²": r"$^2$", "³": r"$^3$", "±": r"$\pm$",
    "∞": r"$\infty$", "−": "$-$", "→": r"$\to$", "←": r"$\leftarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    "∈": r"$\in$", "∑": r"$\sum$", "∂": r"$\partial$", "√": r"$\surd$", "⊙": r"$\odot$", "‖": r"$\|$", "∘": r"$\circ$",
    "ε": r"$\epsilon$", "ϵ": r"$\epsilon$", "†": r"$\dagger$", "‡": r"$\ddagger$", "★": r"$\star$", "½": r"$\frac12$",
    "‘": "`", "’": "'", "“": "``", "”": "''", "„": ",,", "•": r"\textbullet{}",
}  # fmt: skip
_GREEK = (
    "alpha", "beta", "gamma", "delta", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "pi", "rho",
    "sigma", "varsigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi",
    "Sigma", "Upsilon", "Phi", "Psi", "Omega",
)  # fmt: skip
_SPECIAL |= {letter: rf"$\{name}$" for letter, name in zip("αβγδζηθικλμνξπρσςτυφχψωΓΔΘΛΞΠΣΥΦΨΩ", _GREEK, strict=True)}
_ARROWS = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; what pdfLaTeX has no glyph for becomes a question mark."""
    escaped = "".join(_SPECIAL.get(symbol, symbol) for symbol in " ".join(text.split()))
    return escaped.encode("latin-1", "replace").decode("latin-1")


def as_math(value: str) -> str:
    """A formatted number for math mode: 1.0e-05 as a power of ten."""
    value = value.replace("∞", r"\infty").replace("NaN", r"\mathrm{NaN}")
    digits, _, power = value.partition("e")
    return rf"{digits}{{\times}}10^{{{int(power)}}}" if power and power.lstrip("+-").isdigit() else value


def intervals_told(interval: str) -> str:
    """What subscripts are, for a caption; with a blank behind it."""
    return {
        "half": r"Subscripts: half width of the 95\,\% interval (the larger side), its bounds where that is impossible. ",
        "bounds": r"Subscripts: 95\,\% intervals. ",
        "none": "",
    }[interval]


def figure(entry: PrintedEntry, marks: str, most: int, interval: str) -> str:
    """A figure with its interval and daggers, as math.

    Args:
        entry: the figure.
        marks: its daggers.
        most: the most daggers of a figure of its column, for which room is left so that figures align.
        interval: `half`, `bounds` or `none`.
    """
    mark = "" if entry.mark is None else str(entry.mark)
    if entry.value is None:
        return ("--" if entry.words == "–" else escape(entry.words)) + (f"$^{{{mark}}}$" if mark else "")
    value = as_math(number(entry.value))
    value = {1: rf"\mathbf{{{value}}}", 2: rf"\underline{{{value}}}"}.get(entry.rank or 0, value)
    below = ""
    if interval != "none" and math.isfinite(entry.high - entry.low):
        ends = f"[{as_math(number(entry.low))}, {as_math(number(entry.high))}]"
        width = entry.margin
        below = rf"\pm {as_math(number(width))}" if interval == "half" and math.isfinite(width) else ends
    above = marks.replace("†", r"\dagger ").replace("‡", r"\ddagger ").strip()
    above += r"\phantom{" + r"\dagger" * (most - len(marks)) + "}" if len(marks) < most else ""
    above = f"{above}{',' if above and mark else ''}{mark}"
    return f"${value}{f'_{{{below}}}' if below else ''}{f'{{}}^{{{above}}}' if above else ''}$"


def evenly(columns: Sequence[Column], most: int) -> list[Sequence[Column]]:
    """The columns in as few parts as may be, of about one size."""
    parts = math.ceil(len(columns) / most)
    ends = [round(place * len(columns) / parts) for place in range(parts + 1)] if parts else []
    return [columns[start:end] for start, end in pairwise(ends)]


def _wrapped(text: str, letters: int) -> list[str]:
    """Text in lines that break between words alone."""
    return textwrap.wrap(text, letters, break_long_words=False, break_on_hyphens=False) or [""]


def _footnotes(notes: Sequence[tuple[int, str]]) -> list[str]:
    """Numbered notes below a table."""
    told = [rf"\textsuperscript{{{place}}}~{escape(note)}" for place, note in notes]
    return [rf"\par\smallskip{{\raggedright\scriptsize {'; '.join(told)}\par}}"] if told else []


def _float(
    *, caption: str, label: str, columns: str, lines: Sequence[str], notes: Sequence[tuple[int, str]], wide: bool
) -> Iterator[str]:
    """A floating table that is shrunk where it is wider than its column (`wide`: than the page), after an empty line.

    Args:
        caption: in LaTeX, as are the lines.
        label: what the paper refers to.
        columns: how each is aligned.
        lines: what stands from the first rule to the last.
        notes: numbered, below it.
        wide: whether it spans both columns of a page.
    """
    star, width = ("*", r"\textwidth") if wide else ("", r"\columnwidth")
    yield from (
        "", rf"\begin{{table{star}}}", r"\centering", r"\footnotesize", r"\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{caption}}}", rf"\label{{{label}}}", r"\medskip",
        rf"\sbox0{{\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}}%",
        rf"\ifdim\wd0>{width}\resizebox{{{width}}}{{!}}{{\usebox0}}\else\usebox0\fi", *_footnotes(notes),
        rf"\end{{table{star}}}",
    )  # fmt: skip


@dataclass(frozen=True)
class _Group:
    """What the tables of one task and model need."""

    task: str
    model: str
    part: pd.DataFrame
    marks: Marks
    settings: LatexSettings

    @property
    def label(self) -> str:
        return f"tab:{slug(self.task)}-{slug(self.model)}"

    def called(self, method: str) -> str:
        """What a method is called."""
        return self.settings.names.get(method) or method_title(method)


def _marks(pairs: Sequence[MethodPairs]) -> dict[tuple[str, str, str], str]:
    """† better than the random control, ‡ worse than the best method."""
    marks: dict[tuple[str, str, str], str] = {}
    for of_metric in pairs:
        column = of_metric.column
        better = set() if of_metric.random is None else {*of_metric.random.above}
        for method in of_metric.methods:
            worse = method != of_metric.methods[0] and of_metric.better(of_metric.methods[0], method)
            marks[method, column.evaluation, column.metric] = "†" * (method in better) + "‡" * worse
    return marks


def _heading(column: MetricColumn) -> str:
    """Short title in lines, with its arrow."""
    name = column.short or column.title or f"{column.evaluation} {column.metric}"
    lines = map(escape, _wrapped(name.replace("_", " "), _HEADING))
    return rf"\shortstack[r]{{{_BREAK.join(lines)}{_ARROWS[column.higher_is_better]}}}"


def _kinds(group: _Group, columns: Sequence[MetricColumn]) -> list[str]:
    """The line that names the kinds of tests above the columns, with its rules; nothing where there are none."""
    of_test = dict(zip(group.part["evaluation"], group.part["kind"], strict=True))
    runs = [(kind, len([*run])) for kind, run in groupby(of_test[column.evaluation] for column in columns)]
    if not any(kind for kind, _ in runs):
        return []
    ends = [2, *(2 + sum(size for _, size in runs[:place]) for place in range(1, len(runs) + 1))]
    named = [rf"\multicolumn{{{size}}}{{c}}{{{escape(kind)}}}" for kind, size in runs]
    rules = [rf"\cmidrule(lr){{{start}-{end - 1}}}" for start, end in pairwise(ends)]
    return [rf" & {' & '.join(named)} \\", "".join(rules)]


def _lines(group: _Group, board: PrintedTable, columns: Sequence[MetricColumn]) -> Iterator[str]:
    """The lines of a table between its rules."""
    yield r"\toprule"
    yield from _kinds(group, columns)
    constant = r" & \shortstack[r]{constant\\maps}" if board.has_constant else ""
    yield rf"method & {' & '.join(map(_heading, columns))}{constant} \\"
    for rows in filter(None, board.groups.values()):
        yield r"\midrule"
        yield from (_row(group, row, columns, constant=board.has_constant) for row in rows)
    yield r"\bottomrule"


def _row(group: _Group, row: PrintedRow, columns: Sequence[MetricColumn], *, constant: bool) -> str:
    method = row.labels[0]
    marks = [group.marks.get((method, column.evaluation, column.metric), "") for column in columns]
    most = [_most_marks(group, column) for column in columns]
    values = [figure(*pair, group.settings.interval) for pair in zip(row.entries, marks, most, strict=True)]
    values += [escape(row.constant)] if constant else []
    return rf"{escape(group.called(method))} & {' & '.join(values)} \\"


def _most_marks(group: _Group, column: MetricColumn) -> int:
    """The most daggers that a figure of the column has."""
    own = (len(mark) for key, mark in group.marks.items() if key[1:] == (column.evaluation, column.metric))
    return max(own, default=0)


def _caption(group: _Group, board: PrintedTable) -> str:
    shown = intervals_told(group.settings.interval)
    daggers = {
        mark for row in board.rows for key, own in group.marks.items() if key[0] == row.labels[0] for mark in own
    }
    told = [r"$\dagger$: better than random scores"] * ("†" in daggers)
    told += [r"$\ddagger$: worse than the best method"] * ("‡" in daggers)
    tested = f"{'; '.join(told)} ({_TEST}). " if told else ""
    return (
        rf"{escape(group.task)} with {escape(without_fingerprint(group.model))}, $n$ = {escape(board.examples)}. {shown}"
        rf"Best figure of a method bold, second underlined, tested or not; methods by mean rank, controls below the line "
        rf"are not ranked. {tested}{_said(group, board)}"
    ).strip()


def _said(group: _Group, board: PrintedTable) -> str:
    """What must be known of the whole table, with methods by what they are called."""
    named = {row.labels[0]: group.called(row.labels[0]) for row in board.rows}
    told = " ".join(board.below)
    for method in sorted(named, key=len, reverse=True):
        called = named[method].replace("\\", r"\\")
        told = re.sub(rf"(?<![\w.]){re.escape(method)}(?= \()", called, told)
    return escape(told)


def _board_float(group: _Group, columns: Sequence[MetricColumn], *, wide: bool, place: int) -> Iterator[str]:
    """The best methods and the controls on some metrics."""
    methods = [str(method) for method in dict.fromkeys(group.part["method"])]
    real = [method for method in methods if not is_control(method)]
    chosen = group.settings.methods or [
        method for method in methods if is_control(method) or method in real[:_OF_FLOAT]
    ]
    cut = not group.settings.methods and len(real) > _OF_FLOAT
    told = f" The best {_OF_FLOAT} of {len(real)} methods; the appendix has all." if cut else ""
    rows = group.part[group.part["method"].isin(list(chosen))]
    board = make_board(rows, columns)
    return _float(
        caption=f"{_caption(group, board)}{told}",
        label=f"{group.label}{f'-{place}' if place > 1 else ''}",
        columns=f"l{'r' * (len(columns) + board.has_constant)}",
        lines=list(_lines(group, board, columns)),
        notes=board.footnotes,
        wide=wide,
    )


def _chosen(group: _Group) -> list[MetricColumn]:
    """The columns that the settings name; UserError where one is unknown."""
    known = scalar_columns(group.part)
    found = []
    for name in group.settings.metrics:
        fitting = [column for column in known if name in (column.code, column.metric, column.evaluation)]
        if not fitting:
            raise UserError(f"report.latex.metrics={name} is unknown; {near(name, [column.code for column in known])}")
        found += [column for column in fitting if column not in found]
    return found


def _overview(group: _Group) -> Iterator[str]:
    """The floats of one task and model."""
    two, given = group.settings.columns == "two", _chosen(group)
    columns = given or headline_columns(group.part)
    if not columns:
        return
    first = [*columns] if given else columns[: _OF_COLUMN if two else _OF_PAGE]
    yield from _board_float(group, first, wide=False, place=1)
    others = columns if two and len(first) < len(columns) else columns[len(first) :]
    for place, chunk in enumerate(evenly(others, _OF_PAGE), 2):
        yield from _board_float(group, chunk, wide=two, place=place)


def _appendix(group: _Group) -> Iterator[str]:
    """All scalar metrics of each test, in tables that break across pages."""
    for evaluation in dict.fromkeys(column.evaluation for column in scalar_columns(group.part)):
        rows = group.part[group.part["evaluation"] == evaluation]
        figures = rows[rows["value"].notna()]  # a metric that no method has a figure of has no column
        for place, chunk in enumerate(evenly(scalar_columns(figures), _OF_APPENDIX)):
            board = make_board(rows, chunk)
            first, *others = _lines(group, board, chunk)
            head = others[: others.index(r"\midrule")]
            body = others[len(head) :]
            label = f"{group.label}-{slug(evaluation)}{f'-{place + 1}' if place else ''}"
            yield from (
                "", r"\begingroup\scriptsize\setlength{\tabcolsep}{3pt}",
                rf"\begin{{longtable}}{{l{'r' * (len(chunk) + board.has_constant)}}}",
                rf"\caption{{{escape(evaluation)}: {_caption(group, board)}}}\label{{{label}}}\\",
                first, *head, r"\endfirsthead", first, *head, r"\endhead", *body, r"\end{longtable}",
                *_footnotes(board.footnotes), r"\endgroup",
            )  # fmt: skip


def latex_files(
    cells: Sequence[NamedCell],
    table: pd.DataFrame,
    pairs: Mapping[tuple[str, str], Sequence[MethodPairs]],
    settings: LatexSettings,
) -> Iterator[tuple[str, bytes]]:
    """Name and content of `leaderboard.tex`, the overview, and of `leaderboard-full.tex`, the appendix.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
        pairs: their pairs (`pairs.every_pair`).
        settings: what a person chose.

    Raises:
        UserError: the settings name a metric or a method that there is not.
    """
    groups = [
        _Group(task, model, part, _marks(pairs[task, model]), settings)
        for task, model, _, part in groups_with_figures(cells, table)
    ]
    settings.check_methods({str(method) for group in groups for method in group.part["method"]})
    overview = [_OF_FLOATS, *(line for group in groups for line in _overview(group))]
    yield "leaderboard.tex", ("\n".join(overview) + "\n").encode()
    full = [_OF_LONG_TABLES, *(line for group in groups for line in _appendix(group))]
    yield "leaderboard-full.tex", ("\n".join(full) + "\n").encode()


@dataclass(frozen=True)
class _Part:
    """A piece of a table that one float holds."""

    table: PrintedTable
    label: str
    place: int


def latex_analyses(tables: Sequence[tuple[str, PrintedTable]], settings: LatexSettings) -> str:
    """Every table, by its name, as one or several floats."""
    parts = [part for name, table in tables for part in _parts(name, table)]
    return "\n".join([_OF_FLOATS, *(line for part in parts for line in _part_float(part, settings)), ""])


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
        height = max(len(_wrapped(label, _LABEL)) for label in row.labels)
        if page and lines + height > _LINES:
            yield tuple(page)
            page, lines = [], 0
        page.append(row)
        lines += height
    yield tuple(page)


def _stacked(text: str, letters: int, form: str) -> str:
    """Text in lines below one another, where it is longer than one; `form` is `[t]` (level with its first line) and side."""
    lines = [escape(line) for line in _wrapped(text, letters)]
    body = _BREAK.join(lines)
    return rf"\begin{{tabular}}{form}{body}\end{{tabular}}" if len(lines) > 1 else body


def _of_words(rows: Sequence[PrintedRow]) -> list[bool]:
    """Which columns hold words of examples and no figure: what stands there is what the table says; none is missing."""
    columns = zip(*(row.entries for row in rows), strict=True)
    return [
        all(entry.value is None for entry in column) and any(entry.words and entry.n is not None for entry in column)
        for column in columns
    ]


def _noted(rows: Sequence[PrintedRow]) -> tuple[list[PrintedRow], list[str]]:
    """The lines with a number in place of long words, and the words as footnotes; columns of words keep them."""
    notes: dict[str, int] = {}

    def short(entry: PrintedEntry) -> PrintedEntry:
        if len(entry.words) <= _BESIDE:
            return entry
        return replace(
            entry, words="–" if entry.value is None else "", mark=notes.setdefault(entry.words, len(notes) + 1)
        )

    texts = _of_words(rows)

    def shortened(row: PrintedRow) -> PrintedRow:
        pairs = zip(row.entries, texts, strict=True)
        return replace(row, entries=tuple(entry if is_text else short(entry) for entry, is_text in pairs))

    return [shortened(row) for row in rows], list(notes)


def _part_float(part: _Part, settings: LatexSettings) -> Iterator[str]:
    """The lines of a part, with their labels stacked and with long words as footnotes."""
    table, interval = part.table, settings.interval
    rows, notes = _noted(table.rows)
    texts = _of_words(rows)
    counted = any(row.examples for row in rows)
    bounded = any(math.isfinite(entry.low) for row in rows for entry in row.entries)
    told = " ".join([*([intervals_told(interval).strip()] if bounded else []), *map(escape, table.below)])

    def line(row: PrintedRow) -> str:
        labels = [_stacked(text, _LABEL, "[t]{@{}l@{}}") for text in row.labels]
        values = [
            _stacked(entry.words, _LABEL, "[t]{@{}r@{}}") if is_text else _entry(entry, interval)
            for entry, is_text in zip(row.entries, texts, strict=True)
        ]
        return " & ".join([*labels, *values, *([escape(row.examples)] if counted else [])]) + r" \\"

    headings = [_stacked(heading.name, _NAME, "[b]{@{}r@{}}") for heading in table.columns]
    head = " & ".join([*map(escape, table.labels), *headings, *(["$n$"] if counted else [])]) + r" \\"
    return _float(
        caption=f"{escape(table.title)}{' (continued)' if part.place > 1 else ''}. {told}",
        label=f"{part.label}{f'-{part.place}' if part.place > 1 else ''}",
        columns=f"{'l' * len(table.labels)}{'r' * (len(table.columns) + counted)}",
        lines=[r"\toprule", head, r"\midrule", *map(line, rows), r"\bottomrule"],
        notes=list(enumerate(notes, 1)),
        wide=settings.columns == "two" and len(table.columns) + len(table.labels) > _NARROW,
    )


def _entry(entry: PrintedEntry, interval: str) -> str:
    """The figure, and short words beside it."""
    if entry.value is None and not entry.words:
        return ""
    beside = f" ({escape(entry.words)})" if entry.value is not None and entry.words else ""
    return figure(entry, "", 0, interval) + beside
