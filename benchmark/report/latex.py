"""LaTeX for a paper: the leaderboard as an overview and an appendix, and the tables of analyses.

A float fits a column or the page and is shrunk where it is wider; tables of the appendix break across pages.
"""

import math
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import TypeVar

import pandas as pd

from benchmark.report.arrangement import control_place, is_control
from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import (
    MetricColumn,
    groups_with_figures,
    headline_columns,
    make_board,
    scalar_columns,
)
from benchmark.report.naming import Names
from benchmark.report.pairs import MethodPairs
from benchmark.report.printed import PrintedEntry, PrintedRow, PrintedTable
from benchmark.results.statistics import ALPHA
from benchmark.results.wording import number, slug
from benchmark.settings.report_settings import LatexSettings, ReportSettings, means, without_detail

Column = TypeVar("Column")

_ROOM = {"column": 51, "page": 107, "text": 81}
"""Letters of \\footnotesize that a line holds: a column and the page of a paper in two columns (219 and 455 pt, the
narrowest of common styles), and the text of one in one column (345 pt). A table is cut where it would be wider."""
_GAP = 1.5  # letters between columns
_OF_FLOAT = 24  # methods of a table that cannot break across pages
_UNBROKEN = 26  # lines of a table of the appendix up to which it stays on one page
_LINES = 40  # of an analysis' float, at which it fits a page with its caption
_METHOD = 24  # letters of a line of a method's name
_HEADING, _NAME = 11, 12  # letters of a line above a figure of the leaderboard, and of an analysis
_LABEL = 34  # letters of a line of a label
_BESIDE = 12  # letters of words that stand in place of a figure; longer ones are footnotes
_OF_FLOATS = "% needs \\usepackage{booktabs}"
_OF_LONG_TABLES = "% needs \\usepackage{booktabs,longtable}; in a two-column document after \\onecolumn"
_OTHER = "otherscript"
_OF_SCRIPTS = (
    f"% letters of other scripts are printed by lualatex and xelatex, with a font that has them\n"
    rf"\providecommand{{\{_OTHER}}}[2]{{\ifdefined\directlua#1\else\ifdefined\XeTeXversion#1\else#2\fi\fi}}"
)
_ORDER = "Methods by their mean place over all columns and metrics; controls are below the line. $n$: examples."
_NOT_THERE = "not compared on this data set and model"
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
    """Text that LaTeX prints as it is; letters that only lualatex and xelatex have are question marks in pdflatex."""
    escaped = "".join(_SPECIAL.get(symbol, symbol) for symbol in " ".join(text.split()))
    return re.sub(r"[^\x00-\xff]+", lambda found: rf"\{_OTHER}{{{found[0]}}}{{{'?' * len(found[0])}}}", escaped)


def as_math(value: str) -> str:
    """A formatted number for math mode: 1.0e-05 as a power of ten."""
    value = value.replace("∞", r"\infty").replace("NaN", r"\mathrm{NaN}")
    digits, _, power = value.partition("e")
    return rf"{digits}{{\times}}10^{{{int(power)}}}" if power and power.lstrip("+-").isdigit() else value


def intervals_told(interval: str) -> str:
    """What stands below a figure, for a caption; with a blank behind it."""
    return {
        "half": r"Below: half width of the 95\,\% interval, or the interval where it is not symmetric. ",
        "bounds": r"Below: 95\,\% intervals. ",
        "none": "",
    }[interval]


def figure(entry: PrintedEntry, marks: str = "", most: int = 0, *, bold: bool = True) -> str:
    """A figure with its daggers, as math; or the words in its place.

    Args:
        entry: the figure.
        marks: its daggers.
        most: the most daggers of a figure of its column, for which room is left so that figures align.
        bold: whether the best figure of its column is bold and the second underlined.
    """
    mark = "" if entry.mark is None else str(entry.mark)
    if entry.value is None:
        return ("--" if entry.words == "–" else escape(entry.words)) + (f"$^{{{mark}}}$" if mark else "")
    value = as_math(number(entry.value))
    if bold:
        value = {1: rf"\mathbf{{{value}}}", 2: rf"\underline{{{value}}}"}.get(entry.rank or 0, value)
    above = marks.replace("†", r"\dagger ").replace("‡", r"\ddagger ").strip()
    above += r"\phantom{" + r"\dagger" * (most - len(marks)) + "}" if len(marks) < most else ""
    above = f"{above}{',' if above and mark else ''}{mark}"
    return f"${value}{f'^{{{above}}}' if above else ''}$"


def interval_of(entry: PrintedEntry, form: str) -> str:
    """The interval of a figure in plain letters; nothing where it has none, or none is wanted."""
    if form == "none" or entry.value is None or not math.isfinite(entry.high - entry.low):
        return ""
    if form == "half" and math.isfinite(entry.margin) and entry.is_symmetric:
        return f"±{number(entry.margin)}"
    return f"[{number(entry.low)}, {number(entry.high)}]"


def _below(entry: PrintedEntry, form: str) -> str:
    """The same as math, to stand below the figure."""
    told = interval_of(entry, form)
    numbers = re.sub(r"[^\[\], ±]+", lambda found: as_math(found[0]), told).replace("±", r"\pm ").replace(", ", r",\,")
    return rf"{{\scriptsize${numbers}$}}" if told else ""


def _letters(entry: PrintedEntry, form: str) -> int:
    """How many letters wide a figure is, with its interval below and room for marks."""
    above = len(entry.words) if entry.value is None else len(number(entry.value)) + 2
    return max(above, len(interval_of(entry, form)))


def evenly(columns: Sequence[Column], widths: Sequence[float], room: float) -> list[Sequence[Column]]:
    """The columns in as few parts as their widths allow, of about one size; a column alone may be wider than the room.

    Args:
        columns: what is parted.
        widths: letters of each, without the gap before it.
        room: letters of a line that are left for them.
    """
    whole = [width + _GAP for width in widths]
    for parts in range(1, len(columns) + 1):
        ends = [round(place * len(columns) / parts) for place in range(parts + 1)]
        if all(sum(whole[start:end]) <= room or end - start == 1 for start, end in pairwise(ends)):
            return [columns[start:end] for start, end in pairwise(ends)]
    return []


def _wrapped(text: str, letters: int) -> list[str]:
    """Text in lines that break between words alone."""
    return textwrap.wrap(text, letters, break_long_words=False, break_on_hyphens=False) or [""]


def _below_table(notes: Sequence[tuple[int, str]], remarks: Sequence[str] = ()) -> list[str]:
    """Numbered notes below a table, and what must be known of all of it."""
    told = "; ".join(rf"\textsuperscript{{{place}}}~{escape(note)}" for place, note in notes)
    said = " ".join(filter(None, [*remarks, told]))
    return [rf"\par\smallskip{{\raggedright\scriptsize {said}\par}}"] if said else []


def _float(
    *,
    caption: str,
    label: str,
    columns: str,
    lines: Sequence[str],
    notes: Sequence[tuple[int, str]],
    wide: bool,
    remarks: Sequence[str] = (),
) -> Iterator[str]:
    """A floating table in letters of 8 pt, after an empty line.

    Args:
        caption: in LaTeX, as are the lines.
        label: what the paper refers to.
        columns: how each is aligned.
        lines: what stands from the first rule to the last.
        notes: numbered, below it.
        wide: whether it spans both columns of a page.
        remarks: sentences below it, in LaTeX.
    """
    star = "*" if wide else ""
    yield from (
        "", rf"\begin{{table{star}}}", r"\centering", r"\footnotesize", r"\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{caption}}}", rf"\label{{{label}}}", r"\medskip",
        rf"\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}", *_below_table(notes, remarks), rf"\end{{table{star}}}",
    )  # fmt: skip


@dataclass(frozen=True)
class _Group:
    """What the tables of one task and model need.

    Attributes:
        task, model: what they are called.
        label: what a paper refers to.
        part: the leaderboard's rows.
        pairs: of its methods, by test and metric.
        names: what methods are called.
        settings: what a person chose.
    """

    task: str
    model: str
    label: str
    part: pd.DataFrame
    pairs: Mapping[tuple[str, str], MethodPairs]
    names: Names
    settings: LatexSettings

    @property
    def methods(self) -> list[str]:
        """From best to worst, controls last."""
        return [str(method) for method in dict.fromkeys(self.part["method"])]

    def among(self, methods: Collection[str]) -> "_Group":
        """With these methods alone."""
        return replace(self, part=self.part[self.part["method"].isin(list(methods))])

    def columns(self) -> list[MetricColumn]:
        """The columns that the settings name, as far as there are any, or the headline ones."""
        if not self.settings.metrics:
            return headline_columns(self.part)
        known = scalar_columns(self.part)
        chosen = [
            column
            for name in self.settings.metrics
            for column in known
            if means(name, column.evaluation, column.metric)
        ]
        return list(dict.fromkeys(chosen))


def _selected(methods: Sequence[str], settings: LatexSettings) -> tuple[list[str], str]:
    """The methods of an overview, in their order, and what is said of a choice that nobody made.

    A person's choice means a method with all its variants, or one of them; else these are the best and the controls.
    """
    if settings.methods:
        return [m for m in methods if {m, without_detail(m)} & {*settings.methods}], ""
    real = [method for method in methods if not is_control(method)]
    kept = [method for method in methods if is_control(method) or method in real[:_OF_FLOAT]]
    cut = len(real) > _OF_FLOAT
    return kept, f" The best {_OF_FLOAT} of {len(real)} methods; the appendix has all." if cut else ""


@dataclass(frozen=True)
class _Figures:
    """A column of figures in a table of the leaderboard.

    Attributes:
        head: what stands above it, in plain text.
        above: what stands above its neighbours too, which have the same; empty where nothing does.
        higher_is_better: the direction of better; None where an arrow stands elsewhere or there is none.
        entries: the figure of each method.
        marks: its daggers.
        bold: whether the best figure is bold: where some method is worse than the best.
        notes: footnotes by number.
    """

    head: str
    above: str
    higher_is_better: bool | None
    entries: Mapping[str, PrintedEntry]
    marks: Mapping[str, str] = field(default_factory=dict)
    bold: bool = False
    notes: Mapping[int, str] = field(default_factory=dict)

    def width(self, form: str) -> float:
        """Letters."""
        own = max((_letters(entry, form) for entry in self.entries.values()), default=0)
        return max(own, *map(len, _wrapped(self.head, _HEADING)))

    @property
    def heading(self) -> str:
        """In lines, with its arrow."""
        lines = map(escape, _wrapped(self.head, _HEADING))
        return rf"\shortstack[r]{{{_BREAK.join(lines)}{_ARROWS[self.higher_is_better]}}}"


def _figures(group: _Group, board: PrintedTable, columns: Sequence[MetricColumn]) -> list[_Figures]:
    """The columns of a board, each under the kind of its test."""
    of_test = dict(zip(group.part["evaluation"], group.part["kind"], strict=True))
    made = []
    for place, column in enumerate(columns):
        marks, differs = _marks(group.pairs.get((column.evaluation, column.metric)), group.methods)
        head = (column.short or column.title or f"{column.evaluation} {column.metric}").replace("_", " ")
        entries = {row.labels[0]: row.entries[place] for row in board.rows}
        kind = str(of_test[column.evaluation])
        made.append(
            _Figures(head, kind, column.higher_is_better, entries, marks, bold=differs, notes=dict(board.footnotes))
        )
    return made


def _marks(pairs: MethodPairs | None, shown: Sequence[str]) -> tuple[dict[str, str], bool]:
    """† better than the random control, ‡ worse than the best of the methods that are shown; and whether any method is."""
    methods = [method for method in pairs.methods if method in shown] if pairs is not None else []
    if pairs is None or not methods:
        return {}, False
    better = set() if pairs.random is None else {*pairs.random.above}
    best, *others = methods
    worse = {method for method in others if pairs.better(best, method)}
    return {m: "†" * (m in better) + "‡" * (m in worse) for m in methods}, bool(worse)


def _spans(columns: Sequence[_Figures]) -> list[str]:
    """The line that names what neighbouring columns share, with its rules; nothing where there is none."""
    runs = [(above, len([*run])) for above, run in groupby(column.above for column in columns)]
    if not any(above for above, _ in runs):
        return []
    ends = [2, *(2 + sum(size for _, size in runs[:place]) for place in range(1, len(runs) + 1))]
    named = [rf"\multicolumn{{{size}}}{{c}}{{{escape(above)}}}" for above, size in runs]
    rules = [rf"\cmidrule(lr){{{start}-{end - 1}}}" for start, end in pairwise(ends)]
    return [rf" & {' & '.join(named)} \\", "".join(rules)]


@dataclass(frozen=True)
class _Body:
    """The lines of a table of the leaderboard, and its footnotes."""

    head: list[str]
    rows: list[str]
    notes: list[tuple[int, str]]


def _body(
    columns: Sequence[_Figures],
    methods: Sequence[str],
    names: Names,
    form: str,
    last: Sequence[tuple[str, Sequence[str]]] = (),
) -> _Body:
    """A line for each method, its intervals below; controls under a rule, and then further lines of words.

    Args:
        columns: of the table.
        methods: in their order, controls last.
        names: what they are called.
        form: of the intervals.
        last: further lines: their label, and what stands in each column.
    """
    notes: dict[str, int] = {}

    def numbered(column: _Figures, method: str) -> PrintedEntry:
        entry = column.entries.get(method)
        if entry is not None and entry.mark is None:
            return entry
        note = _NOT_THERE if entry is None else column.notes[entry.mark or 0]
        return replace(entry or PrintedEntry(words="–"), mark=notes.setdefault(note, len(notes) + 1))

    def lines(method: str) -> Iterator[str]:
        shown = [(column, numbered(column, method)) for column in columns]
        label, *more = textwrap.wrap(names.method(method), _METHOD) or [""]
        values = [
            figure(entry, column.marks.get(method, ""), most[place], bold=column.bold)
            for place, (column, entry) in enumerate(shown)
        ]
        yield rf"{escape(label)} & {' & '.join(values)} \\*"
        below = [_below(entry, form) for _, entry in shown]
        if any(below) or more:
            yield rf"\quad {escape(' '.join(more))} & {' & '.join(below)} \\" if more else rf" & {' & '.join(below)} \\"

    most = [max(map(len, column.marks.values()), default=0) for column in columns]
    rows = []
    blocks = [[m for m in methods if not is_control(m)], [m for m in methods if is_control(m)]]
    for block in filter(None, blocks):
        rows += [r"\midrule", *(line for method in block for line in lines(method))]
    if last:
        rows += [r"\midrule", *(rf"{label} & {' & '.join(cells)} \\" for label, cells in last)]
    head = [*_spans(columns), rf"method & {' & '.join(column.heading for column in columns)} \\"]
    return _Body([r"\toprule", *head], [*rows, r"\bottomrule"], [(number, note) for note, number in notes.items()])


def _label_width(methods: Sequence[str], names: Names) -> float:
    return max((len(line) for method in methods for line in textwrap.wrap(names.method(method), _METHOD)), default=0)


def _daggers(columns: Sequence[_Figures], methods: Sequence[str]) -> str:
    """What marks and bold figures say, of those that these columns have."""
    marks = {mark for column in columns for method in methods for mark in column.marks.get(method, "")}
    told = [r"$\dagger$: better than random scores"] * ("†" in marks)
    told += [r"$\ddagger$: worse than the best method"] * ("‡" in marks)
    bold = (
        r"Bold: the best method of a column, underlined: the second, where any is worse than the best. "
        if any(column.bold for column in columns)
        else "No figure is bold, as no method is told apart from the best. "
    )
    return bold + (f"{'; '.join(told)} ({_TEST}). " if told else "")


def _said(names: Names, board: PrintedTable) -> list[str]:
    """What must be known of the whole table, in sentences with methods by what they are called."""
    called = {row.labels[0]: names.method(row.labels[0]) for row in board.rows}
    longest_first = "|".join(map(re.escape, sorted(called, key=len, reverse=True)))

    def worded(sentence: str) -> str:
        return re.sub(rf"(?<![\w.])(?:{longest_first})(?= \()", lambda found: called[found[0]], sentence)

    return [escape(worded(sentence)) for sentence in board.below]


def _constant_maps(board: PrintedTable) -> list[_Figures]:
    """The column that says on how many examples a method's map is constant, where one is on any."""
    if not board.has_constant:
        return []
    return [
        _Figures("constant maps", "", None, {row.labels[0]: PrintedEntry(words=row.constant) for row in board.rows})
    ]


def _overview(group: _Group) -> Iterator[str]:
    """The floats of one task and model; of a paper in two columns one for a column, and then all columns across the page."""
    two, (methods, told) = group.settings.columns == "two", _selected(group.methods, group.settings)
    shown, columns = group.among(methods), group.columns()
    if not columns:
        return
    label = _label_width(shown.methods, group.names)
    chunks = _chunks(shown, columns, _ROOM["column" if two else "text"] - label)
    floats = [(chunk, False) for chunk in chunks]
    if two and not group.settings.metrics and len(chunks) > 1:
        floats = [floats[0], *((chunk, True) for chunk in _chunks(shown, columns, _ROOM["page"] - label))]
    for place, (chunk, wide) in enumerate(floats, 1):
        board = make_board(shown.part, chunk)
        made = _figures(shown, board, chunk)
        body = _body([*made, *_constant_maps(board)], shown.methods, group.names, group.settings.interval)
        yield from _float(
            caption=f"{_caption(shown, made, board)}{told}",
            label=f"{group.label}{f'-{place}' if place > 1 else ''}",
            columns=f"l{'r' * (len(chunk) + board.has_constant)}",
            lines=[*body.head, *body.rows],
            notes=body.notes,
            wide=wide,
            remarks=_said(group.names, board),
        )


def _chunks(group: _Group, columns: Sequence[MetricColumn], room: float) -> list[Sequence[MetricColumn]]:
    """The columns in parts that a line has room for."""
    board = make_board(group.part, columns)
    made = _figures(group, board, columns)
    constant = sum(column.width("none") + _GAP for column in _constant_maps(board))
    return evenly(columns, [column.width(group.settings.interval) for column in made], room - constant)


def _caption(group: _Group, columns: Sequence[_Figures], board: PrintedTable) -> str:
    return (
        rf"{escape(group.task)} with {escape(group.model)}, $n$ = {escape(board.examples)}. "
        rf"{intervals_told(group.settings.interval)}{_daggers(columns, group.methods)}"
        rf"Methods by mean rank; controls below the line are not ranked."
    ).strip()


def _appendix(group: _Group) -> Iterator[str]:
    """All scalar metrics of each test, in tables that break across pages between methods, never before the controls."""
    for evaluation in dict.fromkeys(column.evaluation for column in scalar_columns(group.part)):
        rows = group.part[group.part["evaluation"] == evaluation]
        figures = rows[rows["value"].notna()]  # a metric that no method has a figure of has no column
        of_test = replace(group, part=rows)
        room = _ROOM["text"] - _label_width(group.methods, group.names)
        for place, chunk in enumerate(_chunks(of_test, scalar_columns(figures), room)):
            board = make_board(rows, chunk)
            made = _figures(of_test, board, chunk)
            body = _body([*made, *_constant_maps(board)], of_test.methods, group.names, group.settings.interval)
            label = f"{group.label}-{slug(evaluation)}{f'-{place + 1}' if place else ''}"
            yield from (
                "", r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}",
                rf"\begin{{longtable}}{{l{'r' * (len(chunk) + board.has_constant)}}}",
                rf"\caption{{{escape(evaluation.replace('_', ' '))}: {_caption(of_test, made, board)}}}\label{{{label}}}\\",
                *body.head, r"\endfirsthead", *body.head, r"\endhead", *_kept_together(body.rows), r"\end{longtable}",
                *_below_table(body.notes, _said(group.names, board)), r"\endgroup",
            )  # fmt: skip


def _kept_together(rows: Sequence[str]) -> list[str]:
    """Lines with no page break between them: all of a short table, else the controls and the last methods above them."""
    rules = [place for place, row in enumerate(rows) if row == r"\midrule"]
    first = 0 if len(rows) <= _UNBROKEN else (max(rules[-1] - 6, 0) if len(rules) > 1 else len(rows))
    last = len(rows) - 2  # before the last rule a break does no harm
    return [
        re.sub(r"\\\\$", r"\\\\*", row) if first <= place < last and row.endswith(_BREAK) else row
        for place, row in enumerate(rows)
    ]


def _over_tasks(groups: Sequence[_Group]) -> Iterator[str]:
    """A float for each metric, with a column for each task and model and one order of methods in all of them."""
    settings, names = groups[0].settings, groups[0].names
    columns = list(dict.fromkeys(column for group in groups for column in group.columns()))
    methods, told = _selected(_common_order(groups), settings)
    shown = [group.among(methods) for group in groups]
    two = settings.columns == "two"
    room = _ROOM["page" if two else "text"] - _label_width(methods, names)
    tables = []
    for column in columns:
        having = [group for group in shown if (group.part["evaluation"] == column.evaluation).any()]
        boards = [(group, make_board(group.part, [column])) for group in having]
        tables.append((column, boards, [_of_group(group, board, column) for group, board in boards]))
    legend = _daggers([one for *_, made in tables for one in made], methods)
    label = ""
    for column, boards, made in tables:
        counts = [escape(board.examples) or "--" for _, board in boards]
        widths = [one.width(settings.interval) for one in made]
        for place, chunk in enumerate(evenly(range(len(made)), widths, room)):
            own = [made[index] for index in chunk]
            body = _body(own, methods, names, settings.interval, [("$n$", [counts[index] for index in chunk])])
            yield from _float(
                caption=_caption_over_tasks(column, settings, f"{legend}{_ORDER}{told}", label),
                label=f"tab:{slug(column.code)}{f'-{place + 1}' if place else ''}",
                columns=f"l{'r' * len(own)}",
                lines=[*body.head, *body.rows],
                notes=body.notes,
                wide=two,
                remarks=_said_of_places([boards[index] for index in chunk]),
            )
            label = label or f"tab:{slug(column.code)}"


def _of_group(group: _Group, board: PrintedTable, column: MetricColumn) -> _Figures:
    (made,) = _figures(group, board, [column])
    return replace(made, head=group.model, above=group.task, higher_is_better=None)


def _said_of_places(boards: Sequence[tuple[_Group, PrintedTable]]) -> list[str]:
    """What must be known of each column's table, with its task and model where it is not said of all."""
    places: dict[str, list[str]] = {}
    for group, board in boards:
        for sentence in _said(group.names, board):
            places.setdefault(sentence, []).append(escape(f"{group.task} with {group.model}"))
    return [s if len(own) == len(boards) else f"{', '.join(own)}: {s}" for s, own in places.items()]


def _common_order(groups: Sequence[_Group]) -> list[str]:
    """Methods by their mean place in the orders of all groups that have them, controls last."""
    places: dict[str, list[int]] = {}
    for group in groups:
        for place, method in enumerate(group.methods):
            places.setdefault(method, []).append(place)
    return sorted(places, key=lambda m: (control_place(m), sum(places[m]) / len(places[m]), m))


def _caption_over_tasks(column: MetricColumn, settings: LatexSettings, legend: str, first: str) -> str:
    """What a table shows; how all are read where it is the first one, whose label is `first` in the others."""
    title = column.title or f"{column.evaluation} {column.metric}".replace("_", " ")
    title = title[:1].upper() + title[1:]
    direction = {True: " (higher is better)", False: " (lower is better)", None: ""}[column.higher_is_better]
    shown = rf"{escape(title)}{direction} on each data set, by model."
    if first:
        return rf"{shown} Intervals, marks and order as in Table~\ref{{{first}}}."
    return rf"{shown} {intervals_told(settings.interval)}{legend}"


def latex_files(
    cells: Sequence[NamedCell],
    table: pd.DataFrame,
    pairs: Mapping[tuple[str, str], Sequence[MethodPairs]],
    names: Names,
    settings: LatexSettings,
) -> Iterator[tuple[str, bytes]]:
    """Name and content of `leaderboard.tex`, the overview, and of `leaderboard-full.tex`, the appendix.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
        pairs: their pairs (`pairs.every_pair`).
        names: what methods, tasks and models are called.
        settings: what a person chose.

    Raises:
        UserError: the settings name a metric or a method that there is not.
    """
    groups = [
        _Group(
            names.task(task), names.model(model), f"tab:{slug(task)}-{slug(model)}", part,
            {(found.column.evaluation, found.column.metric): found for found in pairs[task, model]}, names, settings,
        )
        for task, model, _, part in groups_with_figures(cells, table)
    ]  # fmt: skip
    _check_choices(groups, settings)
    if settings.layout == "tasks":
        overview = list(_over_tasks(groups))
    else:
        overview = [line for group in groups for line in _overview(group)]
    yield "leaderboard.tex", _document([_OF_FLOATS], overview)
    yield "leaderboard-full.tex", _document([_OF_LONG_TABLES], [line for group in groups for line in _appendix(group)])


def _check_choices(groups: Sequence[_Group], settings: LatexSettings) -> None:
    """UserError for a method or a metric that no task and model has."""
    methods = {name for group in groups for method in group.methods for name in (method, without_detail(method))}
    ReportSettings(latex=settings).check_methods(methods)
    known: dict[str, list[str]] = {}
    for column in (column for group in groups for column in scalar_columns(group.part)):
        known.setdefault(column.evaluation, []).append(column.metric)
    ReportSettings(latex=settings).check_metrics(known)


def _document(needs: Sequence[str], lines: Sequence[str]) -> bytes:
    """The lines below what they need; a command for letters of other scripts where there are any."""
    scripts = [_OF_SCRIPTS] if any(rf"\{_OTHER}{{" in line for line in lines) else []
    return ("\n".join([*needs, *scripts, *lines]) + "\n").encode()


@dataclass(frozen=True)
class _Part:
    """A piece of a table that one float holds."""

    table: PrintedTable
    label: str
    place: int


def latex_analyses(tables: Sequence[tuple[str, PrintedTable]], settings: LatexSettings) -> str:
    """Every table, by its name, as one or several floats."""
    parts = [part for name, table in tables for part in _parts(name, table, settings)]
    return _document([_OF_FLOATS], [line for part in parts for line in _part_float(part, settings)]).decode()


def _widths(table: PrintedTable, form: str) -> tuple[float, list[float]]:
    """Letters of the labels of a table, with the column of n, and of each of its columns."""
    rows, _ = _noted(table.rows)
    texts = _of_words(rows)
    labels = [
        max((min(len(text), _LABEL) for text in (label, *(row.labels[place] for row in rows))), default=0)
        for place, label in enumerate(table.labels)
    ]
    columns: list[float] = []
    for place, heading in enumerate(table.columns):
        beside = [
            len(entry.words) + 3 if entry.value is not None and entry.words else 0
            for entry in (row.entries[place] for row in rows)
        ]
        own = [_letters(row.entries[place], form) + more for row, more in zip(rows, beside, strict=True)]
        most = min(max(own, default=0), _LABEL) if texts[place] else max(own, default=0)
        columns.append(max(most, *map(len, _wrapped(heading.name, _NAME))))
    return sum(labels) + _GAP * len(labels) + 4, columns


def _parts(name: str, table: PrintedTable, settings: LatexSettings) -> Iterator[_Part]:
    """The table cut into columns and lines that fit a float."""
    place = 0
    labels, widths = _widths(table, settings.interval)
    room = _ROOM["page" if settings.columns == "two" else "text"]
    for columns in evenly(range(len(table.columns)), widths, room - labels):
        whole = table.part(columns)
        for rows in _paged(whole.rows, _of_words(whole.rows), settings.interval):
            place += 1
            yield _Part(replace(whole, groups={"": rows}), f"tab:{slug(name)}", place)


def _paged(rows: Sequence[PrintedRow], texts: Sequence[bool], form: str) -> Iterator[tuple[PrintedRow, ...]]:
    """The lines in parts that are no higher than a page; `texts`: which columns hold words."""
    page: list[PrintedRow] = []
    lines = 0
    for row in rows:
        told = [entry.words for entry, is_text in zip(row.entries, texts, strict=True) if is_text]
        height = max(len(_wrapped(text, _LABEL)) for text in (*row.labels, *told))
        height += any(interval_of(entry, form) for entry in row.entries)
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
    """Which columns hold words and no figure: what stands there is what the table says; none is missing."""
    columns = zip(*(row.entries for row in rows), strict=True)
    return [
        all(entry.value is None for entry in column) and any(len(entry.words) > 1 for entry in column)
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

    def lines(row: PrintedRow) -> Iterator[str]:
        labels = [_stacked(text, _LABEL, "[t]{@{}l@{}}") for text in row.labels]
        values = [
            _stacked(entry.words, _LABEL, "[t]{@{}r@{}}") if is_text else _entry(entry)
            for entry, is_text in zip(row.entries, texts, strict=True)
        ]
        yield " & ".join([*labels, *values, *([escape(row.examples)] if counted else [])]) + r" \\"
        below = [_below(entry, interval) for entry in row.entries]
        if any(below):
            yield " & ".join([*([""] * len(labels)), *below, *([""] if counted else [])]) + r" \\"

    headings = [_stacked(heading.name, _NAME, "[b]{@{}r@{}}") for heading in table.columns]
    head = " & ".join([*map(escape, table.labels), *headings, *(["$n$"] if counted else [])]) + r" \\"
    return _float(
        caption=f"{escape(table.title)}{' (continued)' if part.place > 1 else ''}. {told}",
        label=f"{part.label}{f'-{part.place}' if part.place > 1 else ''}",
        columns=f"{'l' * len(table.labels)}{'r' * (len(table.columns) + counted)}",
        lines=[r"\toprule", head, r"\midrule", *(line for row in rows for line in lines(row)), r"\bottomrule"],
        notes=list(enumerate(notes, 1)),
        wide=settings.columns == "two" and _width_of(table, interval) > _ROOM["column"],
    )


def _width_of(table: PrintedTable, form: str) -> float:
    labels, columns = _widths(table, form)
    return labels + sum(width + _GAP for width in columns)


def _entry(entry: PrintedEntry) -> str:
    """The figure, and short words beside it."""
    if entry.value is None and not entry.words:
        return ""
    beside = f" ({escape(entry.words)})" if entry.value is not None and entry.words else ""
    return figure(entry) + beside
