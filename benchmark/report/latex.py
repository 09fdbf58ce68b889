"""The leaderboard's headline metrics as LaTeX tables (booktabs), to be read by `\\input`."""

from collections.abc import Sequence

import pandas as pd

from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import Board, Column, Entry, Row, groups, headline_columns, make_board
from benchmark.results.wording import bounds, number, slug

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}",  # after \\ a bracket or a star would be its argument
    "–": "--", "—": "---", "·": r"\textperiodcentered{}", "×": r"$\times$", "…": r"\dots{}",
    "≥": r"$\geq$", "≤": r"$\leq$", "τ": r"$\tau$", "α": r"$\alpha$", "β": r"$\beta$", "λ": r"$\lambda$", "−": "$-$",
}  # fmt: skip
_ARROWS = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}
_WIDTH = 4  # metrics with intervals that fit the text width of a page


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; what pdfLaTeX has no glyph for becomes a question mark."""
    known = "".join(_SPECIAL.get(symbol, symbol) for symbol in " ".join(text.split()))
    return known.encode("latin-1", "replace").decode("latin-1")


def _math(value: str) -> str:
    """A formatted number for math mode: 1.0e-05 as a power of ten."""
    value = value.replace("∞", r"\infty").replace("NaN", r"\mathrm{NaN}")
    digits, _, power = value.partition("e")
    return rf"{digits}{{\times}}10^{{{int(power)}}}" if power and power.lstrip("+-").isdigit() else value


def _entry(entry: Entry) -> str:
    if entry.note is not None:
        return rf"--\textsuperscript{{{entry.note}}}"
    value = _math(number(entry.value))
    shown = {1: rf"$\mathbf{{{value}}}$", 2: rf"\underline{{${value}$}}"}.get(entry.rank or 0, f"${value}$")
    mark = "" if entry.remark is None else rf"\textsuperscript{{{entry.remark}}}"
    return f"{shown}{mark} {interval(entry.low, entry.high)}".rstrip()


def interval(low: float, high: float) -> str:
    """An interval in small type; nothing where there is none."""
    found = bounds(low, high)
    if not found:
        return ""
    ends = (_math(end) for end in found.strip("[]").split(", "))
    return rf"{{\scriptsize $[{', '.join(ends)}]$}}"


def value(amount: float) -> str:
    """A number in math mode."""
    return f"${_math(number(amount))}$"


def _row(row: Row) -> str:
    return " & ".join([escape(row.method), *map(_entry, row.entries), row.examples.replace("–", "--")]) + r" \\"


def _title(column: Column) -> str:
    return escape(column.metric) + _ARROWS[column.higher_is_better]


def _tabular(board: Board, evaluation: str) -> list[str]:
    width = len(board.columns)
    lines = [rf"\begin{{tabular}}{{l{'r' * (width + 1)}}}", r"\toprule"]
    lines += [rf" & \multicolumn{{{width}}}{{c}}{{{escape(evaluation)}}} & \\", rf"\cmidrule(lr){{2-{width + 1}}}"]
    lines += [" & ".join(["method", *map(_title, board.columns), "$n$"]) + r" \\", r"\midrule"]
    lines += [_row(row) for row in board.methods]
    if board.methods and board.controls:
        lines.append(r"\midrule")
    return [*lines, *(_row(row) for row in board.controls), r"\bottomrule", r"\end{tabular}"]


def _table(board: Board, evaluation: str, label: str) -> list[str]:
    caption = (
        f"{escape(f'{evaluation} on {board.task} with {board.model}')}, "
        r"with 95\,\% intervals over $n$ examples. "
        r"Best method bold, second underlined; controls, below the line, are not ranked."
    )
    lines = [r"\begin{table}", r"\centering", r"\small", rf"\caption{{{caption}}}", rf"\label{{{label}}}"]
    lines += [r"\medskip", "", *_tabular(board, evaluation)]
    for place, note in enumerate(board.notes, 1):
        lines += [
            r"\par\smallskip\footnotesize" if place == 1 else r"\par",
            rf"\textsuperscript{{{place}}}~{escape(note)}",
        ]
    return [*lines, r"\end{table}"]


def latex(cells: Sequence[NamedCell], table: pd.DataFrame) -> str:
    """One table per task, model and test (split where a test has more than four headline metrics).

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
    """
    lines = ["% needs \\usepackage{booktabs}"]
    for task, model, _ in groups(cells):
        part = table[(table["task"] == task) & (table["model"] == model)]
        columns = headline_columns(part)
        for evaluation in dict.fromkeys(column.evaluation for column in columns):
            own = [column for column in columns if column.evaluation == evaluation]
            tested = part[part["evaluation"] == evaluation]
            for start in range(0, len(own), _WIDTH):
                name = f"tab:{slug(task)}-{slug(model)}-{slug(evaluation)}" + (
                    f"-{start // _WIDTH + 1}" if start else ""
                )
                lines += ["", *_table(make_board(tested, own[start : start + _WIDTH]), evaluation, name)]
    return "\n".join(lines) + "\n"
