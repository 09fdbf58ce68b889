"""The tables of analyses as Markdown, CSV, LaTeX and figures."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.report import latex, markdown
from benchmark.report.drawings import drawing_files
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.report.run_folders import read_cleaned, unreadable
from benchmark.report.spreadsheet import csv_bytes
from benchmark.results import bounded
from benchmark.results.digests import check_seal
from benchmark.results.tables import FIGURE_COLUMNS, Table
from benchmark.results.wording import escape_markdown as escape
from benchmark.results.wording import slug, unique_stems


def read_tables(folder: Path) -> list[Table]:
    """The tables that the analyses of a comparison left in its folder, by the name of the analysis; none is no error."""
    tables: list[Table] = []
    for path in sorted((folder / "analyses").glob("*.json")):
        content = read_cleaned(path, _tables)
        if not isinstance(content, list):
            raise unreadable(path, "no list of tables")
        try:
            tables += [Table.from_json(facts) for facts in content]
        except UserError as error:
            raise unreadable(path, str(error)) from error
    return tables


def _tables(content: bytes) -> Any:
    """The tables in a file that was sealed. ValueError where it is not what was written."""
    sealed = bounded.parse_json(content)
    check_seal(sealed)
    return sealed.get("tables")


def table_files(tables: Sequence[Table]) -> Iterator[tuple[str, bytes]]:
    """Name and content of `analyses.md`, `analyses.tex`, and of a CSV and a figure for each table."""
    if not tables:
        return
    shown = [table for table in tables if table.printed]
    yield "analyses.md", "\n".join(_markdown(shown)).encode()
    yield "analyses.tex", "\n".join(map(_latex, shown)).encode()
    stems = unique_stems(f"table-{slug(table.name)}" for table in tables)
    for table, stem in zip(tables, stems, strict=True):
        yield f"{stem}.csv", csv_bytes(table.rows[[*table.labels, *FIGURE_COLUMNS]])
        yield from drawing_files(table, stem)


def printed(table: Table) -> PrintedTable:
    """A table with a line per combination of its labels and a column per metric."""
    metrics = list(dict.fromkeys(map(str, table.rows["metric"])))
    rows = []
    for labels, part in table.rows.groupby(list(table.labels), sort=False, dropna=False):
        figures = {str(row["metric"]): _entry(row) for row in part.to_dict("records")}
        names = (f"{label:g}" if isinstance(label, float) else str(label) for label in labels)
        rows.append(PrintedRow(tuple(names), tuple(figures.get(metric, PrintedEntry()) for metric in metrics)))
    return PrintedTable(table.title, table.labels, tuple(map(Heading, metrics)), {"": tuple(rows)})


def _entry(row: Mapping[Hashable, Any]) -> PrintedEntry:
    count, words = int(row["n"]) or None, str(row["note"])
    if words and math.isnan(row["value"]):
        return PrintedEntry(n=count, words=words)
    return PrintedEntry(row["value"], row["low"], row["high"], count, words=words)


def _markdown(tables: Sequence[Table]) -> Iterator[str]:
    yield from ("# Analyses", "", "Values with 95 % intervals; n: examples (empty where a figure counts none).")
    for table in tables:
        yield from (f"\n## {escape(table.title)}\n", *markdown.table_lines(printed(table)))
        if table.sentences:
            yield from ("", *(f"- {escape(sentence)}" for sentence in table.sentences))
    yield ""


def _latex(table: Table) -> str:
    return "\n".join([f"% {' '.join(table.title.split())}", *latex.tabular(printed(table)), ""])
