"""Texts and figures as LaTeX, and what its tables share."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from benchmark.report.printed import PrintedEntry
from benchmark.results.wording import number

Column = TypeVar("Column")

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}",  # after \\ a bracket or a star would be its argument
    "–": "--", "—": "---", "·": r"\textperiodcentered{}", "×": r"$\times$", "…": r"\dots{}",
    "≥": r"$\geq$", "≤": r"$\leq$", "τ": r"$\tau$", "α": r"$\alpha$", "β": r"$\beta$", "λ": r"$\lambda$",
    "γ": r"$\gamma$", "η": r"$\eta$", "ρ": r"$\rho$", "²": r"$^2$", "→": r"$\to$",
    "ε": r"$\epsilon$", "±": r"$\pm$", "∞": r"$\infty$", "−": "$-$",
}  # fmt: skip
ARROWS = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; what pdfLaTeX has no glyph for becomes a question mark."""
    escaped = "".join(_SPECIAL.get(symbol, symbol) for symbol in " ".join(text.split()))
    return escaped.encode("latin-1", "replace").decode("latin-1")


def as_math(value: str) -> str:
    """A formatted number for math mode: 1.0e-05 as a power of ten."""
    value = value.replace("∞", r"\infty").replace("NaN", r"\mathrm{NaN}")
    digits, _, power = value.partition("e")
    return rf"{digits}{{\times}}10^{{{int(power)}}}" if power and power.lstrip("+-").isdigit() else value


def fitted(width: str) -> str:
    """The table in box 0, shrunk where it is wider than `\\columnwidth` or `\\textwidth`."""
    return rf"\ifdim\wd0>{width}\resizebox{{{width}}}{{!}}{{\usebox0}}\else\usebox0\fi"


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
