"""The tables of analyses as Markdown, CSV, LaTeX and figures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.errors import UserError
from benchmark.report import latex
from benchmark.report.drawings import drawing_files
from benchmark.report.run_folders import read_cleaned, unreadable
from benchmark.report.spreadsheet import csv_bytes
from benchmark.results import bounded
from benchmark.results.digests import check_seal
from benchmark.results.tables import FIGURE_COLUMNS, Table
from benchmark.results.wording import bounds, number, slug, unique_stems
from benchmark.results.wording import escape_markdown as escape


def read_tables(folder: Path) -> list[Table]:
    """The tables that the analyses of a comparison left in its folder, by the name of the analysis; none is no error."""
    found = []
    for path in sorted((folder / "analyses").glob("*.json")):
        content = read_cleaned(path, _tables)
        if not isinstance(content, list):
            raise unreadable(path, "no list of tables")
        try:
            found += [Table.from_json(facts) for facts in content]
        except UserError as error:
            raise unreadable(path, str(error)) from error
    return found


def _tables(content: bytes) -> Any:
    """The tables in a file that was sealed; a bare list is version 0.2.0's. ValueError where it is not what was written."""
    found = bounded.parse_json(content)
    if isinstance(found, dict):
        check_seal(found)
        return found["tables"]
    return found


def table_files(tables: Sequence[Table]) -> Iterator[tuple[str, bytes]]:
    """Name and content of `analyses.md`, `analyses.tex`, and of a CSV and a figure for each table."""
    if not tables:
        return
    printed = [table for table in tables if table.printed]
    yield "analyses.md", "\n".join(_markdown(printed)).encode()
    yield "analyses.tex", "\n".join(_latex(printed)).encode()
    stems = unique_stems(f"table-{slug(table.name)}" for table in tables)
    for table, stem in zip(tables, stems, strict=True):
        yield f"{stem}.csv", csv_bytes(table.rows[[*table.labels, *FIGURE_COLUMNS]])
        for kind, content in drawing_files(table):
            yield f"{stem}.{kind}", content


def _lines(table: Table) -> Iterator[tuple[tuple[str, ...], dict[str, pd.Series], str]]:
    """The printed lines: labels, the figure of each metric, and how many examples they count."""
    names = list(table.labels)
    for labels, part in table.rows.groupby(names, sort=False, dropna=False):
        counts = sorted({int(n) for n in part["n"] if n})
        shown = "" if not counts else str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        figures = {str(row["metric"]): row for _, row in part.iterrows()}
        yield tuple(_label(value) for value in labels), figures, shown


def _label(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _metrics(table: Table) -> list[str]:
    return list(dict.fromkeys(str(metric) for metric in table.rows["metric"]))


def _markdown(tables: Sequence[Table]) -> Iterator[str]:
    yield "# Analyses"
    yield ""
    yield "Values with 95 % intervals; n: examples (empty where a figure counts none)."
    for table in tables:
        yield f"\n## {escape(table.title)}\n"
        yield from table_lines(table)
        if table.sentences:
            yield ""
            yield from (f"- {escape(sentence)}" for sentence in table.sentences)
    yield ""


def table_lines(table: Table) -> Iterator[str]:
    """A table as Markdown: its labels, a column per metric, and how many examples a line counts."""
    metrics = _metrics(table)
    yield "| " + " | ".join(map(escape, [*table.labels, *metrics, "n"])) + " |"
    yield "|" + " --- |" * len(table.labels) + " ---: |" * (len(metrics) + 1)
    for labels, figures, count in _lines(table):
        entries = [_plain(figures[metric]) if metric in figures else "" for metric in metrics]
        yield "| " + " | ".join([*map(escape, labels), *entries, count]) + " |"


def _plain(figure: pd.Series) -> str:
    if figure["note"] and pd.isna(figure["value"]):
        return escape(str(figure["note"]))
    text = f"{number(float(figure['value']))} {bounds(float(figure['low']), float(figure['high']))}".rstrip()
    return f"{text} ({escape(str(figure['note']))})" if figure["note"] else text


def _latex(tables: Sequence[Table]) -> Iterator[str]:
    for table in tables:
        metrics = _metrics(table)
        yield f"% {' '.join(table.title.split())}"
        yield rf"\begin{{tabular}}{{{'l' * len(table.labels)}{'r' * (len(metrics) + 1)}}}"
        yield r"\toprule"
        yield " & ".join(map(latex.escape, [*table.labels, *metrics, "n"])) + r" \\"
        yield r"\midrule"
        for labels, figures, count in _lines(table):
            entries = [_typeset(figures[metric]) if metric in figures else "" for metric in metrics]
            yield " & ".join([*map(latex.escape, labels), *entries, latex.escape(count)]) + r" \\"
        yield r"\bottomrule"
        yield r"\end{tabular}"
        yield ""


def _typeset(figure: pd.Series) -> str:
    if figure["note"] and pd.isna(figure["value"]):
        return latex.escape(str(figure["note"]))
    text = (
        f"{latex.value(float(figure['value']))} {latex.interval(float(figure['low']), float(figure['high']))}".rstrip()
    )
    return f"{text} ({latex.escape(str(figure['note']))})" if figure["note"] else text
