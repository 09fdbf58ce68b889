"""Texts, figures and tables as LaTeX (booktabs), to be read by `\\input`."""

from collections.abc import Iterator, Sequence

from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.results.wording import bounds, number

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}",  # after \\ a bracket or a star would be its argument
    "–": "--", "—": "---", "·": r"\textperiodcentered{}", "×": r"$\times$", "…": r"\dots{}",
    "≥": r"$\geq$", "≤": r"$\leq$", "τ": r"$\tau$", "α": r"$\alpha$", "β": r"$\beta$", "λ": r"$\lambda$",
    "γ": r"$\gamma$", "ε": r"$\epsilon$", "±": r"$\pm$", "∞": r"$\infty$", "−": "$-$",
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


def _entry(entry: PrintedEntry) -> str:
    """The figure, its interval in small type, and what is said of it."""
    mark = "" if entry.mark is None else rf"\textsuperscript{{{entry.mark}}}"
    if entry.value is None:
        return escape(entry.words) + mark
    value = as_math(number(entry.value))
    shown = {1: rf"$\mathbf{{{value}}}$", 2: rf"\underline{{${value}$}}"}.get(entry.rank or 0, f"${value}$")
    return " ".join(filter(None, [shown + mark, _interval(entry), f"({escape(entry.words)})" if entry.words else ""]))


def _interval(entry: PrintedEntry) -> str:
    ends = [as_math(end) for end in bounds(entry.low, entry.high).strip("[]").split(", ")]
    return rf"{{\scriptsize $[{', '.join(ends)}]$}}" if any(ends) else ""


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _group(table: PrintedTable) -> list[str]:
    """The line above the headings that names the group of them all; nothing where they are of several or of none."""
    first, last = len(table.labels) + 1, len(table.labels) + len(table.columns)
    groups = {heading.group for heading in table.columns}
    if len(groups) > 1 or not any(groups):
        return []
    named = rf"\multicolumn{{{len(table.columns)}}}{{c}}{{{escape(*groups)}}}"
    return [f"{' &' * len(table.labels)} {named} & \\\\", rf"\cmidrule(lr){{{first}-{last}}}"]


def tabular(table: PrintedTable) -> Iterator[str]:
    """The lines of a `tabular`; a rule stands between groups of lines."""
    yield rf"\begin{{tabular}}{{{'l' * len(table.labels)}{'r' * (len(table.columns) + table.counted)}}}"
    yield r"\toprule"
    yield from _group(table)

    def title(heading: Heading) -> str:
        return escape(heading.name) + ARROWS[heading.higher_is_better]

    def line(row: PrintedRow) -> str:
        count = [escape(row.examples)] if table.counted else []
        return _line([*map(escape, row.labels), *map(_entry, row.entries), *count])

    yield _line([*map(escape, table.labels), *map(title, table.columns), *(["$n$"] if table.counted else [])])
    for rows in filter(None, table.groups.values()):
        yield r"\midrule"
        yield from map(line, rows)
    yield r"\bottomrule"
    yield r"\end{tabular}"
