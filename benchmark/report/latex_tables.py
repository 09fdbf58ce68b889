"""The leaderboard for a paper: an overview that fits a column or a page, and all scalar metrics for an appendix."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import pandas as pd

from benchmark.errors import UserError, near
from benchmark.report.arrangement import is_control
from benchmark.report.cells import NamedCell
from benchmark.report.latex import ARROWS, escape, evenly, figure, fitted, intervals_told
from benchmark.report.leaderboard import (
    MetricColumn,
    groups_with_figures,
    headline_columns,
    make_board,
    scalar_columns,
)
from benchmark.report.pairs import MethodPairs
from benchmark.report.pretty import method_title, without_fingerprint
from benchmark.report.printed import PrintedRow, PrintedTable
from benchmark.results.statistics import ALPHA
from benchmark.results.wording import slug, span
from benchmark.settings.latex_settings import LatexSettings

_OF_COLUMN, _OF_PAGE, _OF_APPENDIX = 3, 6, 4  # metrics of a table without choice of ours, at a legible size
_OF_FLOAT = 30  # methods of a table that cannot break across pages
_LETTERS = 11  # of a heading's line
_PREAMBLE = "% needs \\usepackage{booktabs,graphicx}"
_TEST = (
    rf"two-sided test of paired differences over the same examples (sign flips; swaps for ratios of sums), "
    rf"Holm-corrected, {ALPHA * 100:g}\,\%"
)

Marks = Mapping[tuple[str, str, str], str]
"""Daggers by method, test and metric."""


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

    def name(self, method: str) -> str:
        """What a method is called."""
        return escape(self.settings.names.get(method) or method_title(method))


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


def _notes(board: PrintedTable) -> list[str]:
    """The footnotes below a table."""
    used = {entry.mark for row in board.rows for entry in row.entries}
    notes = [
        rf"\textsuperscript{{{place}}}~{escape(note)}" for place, note in enumerate(board.notes, 1) if place in used
    ]
    return [rf"\par\smallskip{{\raggedright\scriptsize {'; '.join(notes)}\par}}"] if notes else []


def _heading(column: MetricColumn) -> str:
    """Short title in lines, with its arrow."""
    name = column.short or column.title or f"{column.evaluation} {column.metric}"
    lines = textwrap.wrap(name.replace("_", " "), _LETTERS, break_long_words=False, break_on_hyphens=False)
    return rf"\shortstack[r]{{{(chr(92) * 2).join(map(escape, lines))}{ARROWS[column.higher_is_better]}}}"


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
    return rf"{group.name(method)} & {' & '.join(values)} \\"


def _most_marks(group: _Group, column: MetricColumn) -> int:
    """The most daggers that a figure of the column has."""
    own = (len(mark) for key, mark in group.marks.items() if key[1:] == (column.evaluation, column.metric))
    return max(own, default=0)


def _caption(group: _Group, board: PrintedTable) -> str:
    counted = span(entry.n for row in board.rows for entry in row.entries if entry.n)
    shown = intervals_told(group.settings.interval)
    daggers = {
        mark for row in board.rows for key, own in group.marks.items() if key[0] == row.labels[0] for mark in own
    }
    told = [r"$\dagger$: better than random scores"] * ("†" in daggers)
    told += [r"$\ddagger$: worse than the best method"] * ("‡" in daggers)
    tested = f"{'; '.join(told)} ({_TEST}). " if told else ""
    return (
        rf"{escape(group.task)} with {escape(without_fingerprint(group.model))}, $n$ = {escape(counted)}. {shown}"
        rf"Best figure of a method bold, second underlined, tested or not; methods by mean rank, controls below the line "
        rf"are not ranked. {tested}{_said(group, board)}"
    ).strip()


def _said(group: _Group, board: PrintedTable) -> str:
    """What must be known of the whole table beside the meaning of bold, with methods by what they are called."""
    named = {
        row.labels[0]: group.settings.names.get(row.labels[0]) or method_title(row.labels[0]) for row in board.rows
    }
    told = " ".join(board.below[1:] if board.below[:1] and board.below[0].startswith("Bold") else board.below)
    for method in sorted(named, key=len, reverse=True):
        called = named[method].replace("\\", r"\\")
        told = re.sub(rf"(?<![\w.]){re.escape(method)}(?= \()", called, told)
    return escape(told)


def _float(group: _Group, columns: Sequence[MetricColumn], *, wide: bool, place: int) -> list[str]:
    """A floating table that is shrunk where it is wider than its column (`wide`: than the page)."""
    methods = [str(method) for method in dict.fromkeys(group.part["method"])]
    real = [method for method in methods if not is_control(method)]
    chosen = group.settings.methods or [
        method for method in methods if is_control(method) or method in real[:_OF_FLOAT]
    ]
    cut = not group.settings.methods and len(real) > _OF_FLOAT
    told = f" The best {_OF_FLOAT} of {len(real)} methods; the appendix has all." if cut else ""
    rows = group.part[group.part["method"].isin(list(chosen))]
    board = make_board(rows, columns)
    width, star = (r"\textwidth", "*") if wide else (r"\columnwidth", "")
    label = f"{group.label}{f'-{place}' if place > 1 else ''}"
    return [
        "", rf"\begin{{table{star}}}", r"\centering", r"\footnotesize", r"\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{_caption(group, board)}{told}}}", rf"\label{{{label}}}", r"\medskip",
        rf"\sbox0{{\begin{{tabular}}{{l{'r' * (len(columns) + board.has_constant)}}}",
        *_lines(group, board, columns), r"\end{tabular}}%",
        fitted(width), *_notes(board), rf"\end{{table{star}}}",
    ]  # fmt: skip


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
    yield from _float(group, first, wide=False, place=1)
    others = columns if two and len(first) < len(columns) else columns[len(first) :]
    for place, chunk in enumerate(evenly(others, _OF_PAGE), 2):
        yield from _float(group, chunk, wide=two, place=place)


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
                first, *head, r"\endfirsthead", first, *head, r"\endhead", *body, r"\end{longtable}", *_notes(board),
                r"\endgroup",
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
    overview = [_PREAMBLE, *(line for group in groups for line in _overview(group))]
    yield "leaderboard.tex", ("\n".join(overview) + "\n").encode()
    needs = "% needs \\usepackage{booktabs,longtable}; in a two-column document after \\onecolumn"
    full = [needs, *(line for group in groups for line in _appendix(group))]
    yield "leaderboard-full.tex", ("\n".join(full) + "\n").encode()
