"""The tables of analyses as Markdown, CSV, LaTeX and figures."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.errors import UserError
from benchmark.report import markdown
from benchmark.report.drawings import drawing_files
from benchmark.report.latex import latex_analyses
from benchmark.report.naming import OURS, Names
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable, csv_bytes
from benchmark.report.run_folders import read_cleaned, unreadable
from benchmark.results import bounded
from benchmark.results.digests import check_seal
from benchmark.results.statistics import ALPHA
from benchmark.results.tables import FIGURE_COLUMNS, FORECAST, Table, is_p_value, is_too_wide
from benchmark.results.wording import escape_markdown as escape
from benchmark.results.wording import number, slug, unique_stems
from benchmark.settings.report_settings import AS_GIVEN, ReportSettings

LEAST_TOLD = 0.0001
"""p-values below it are printed as that: where they come from an interval, the tail so far out is no measurement."""

OF_PROBABILITIES = "p: a probability, which has no interval."
OF_FORECASTS = "Numbers of examples that would be enough are forecasts, which have no interval."
OF_WIDE = (
    "n too small: the 95 % interval spans more than half of what is possible, so that there is no result to show; the "
    "table's CSV has the figure."
)


def read_tables(folder: Path) -> list[Table]:
    """The tables that the analyses of a comparison left in its folder, by the name of the analysis; none is no error.

    Before them stand those that say what the others come to.
    """
    tables: list[Table] = []
    for path in sorted((folder / "analyses").glob("*.json")):
        content = read_cleaned(path, _tables)
        if not isinstance(content, list):
            raise unreadable(path, "no list of tables")
        try:
            tables += [Table.from_json(facts) for facts in content]
        except UserError as error:
            raise unreadable(path, str(error)) from error
    return sorted(tables, key=lambda table: not table.first)


def _tables(content: bytes) -> Any:
    """The tables in a file that was sealed. ValueError where it is not what was written."""
    sealed = bounded.parse_json(content)
    check_seal(sealed)
    return sealed.get("tables")


def table_files(
    tables: Sequence[Table], names: Names = OURS, settings: ReportSettings = AS_GIVEN
) -> Iterator[tuple[str, bytes]]:
    """Name and content of `analyses.md`, `analyses.tex`, and of a CSV, which keeps code names, and a figure for each table.

    Args:
        tables: of the analyses.
        names: what people read in place of code names.
        settings: how LaTeX tables and figures look.
    """
    if not tables:
        return
    shown = [names.worded(table) for table in tables if table.printed]
    yield "analyses.md", "\n".join(_markdown(shown, names)).encode()
    yield (
        "analyses.tex",
        latex_analyses([(table.name, printed(table, names)) for table in shown], settings.latex).encode(),
    )
    stems = unique_stems(f"table-{slug(table.name)}" for table in tables)
    for table, stem in zip(tables, stems, strict=True):
        yield f"{stem}.csv", csv_bytes(table.rows[[*table.labels, *FIGURE_COLUMNS]])
        yield from drawing_files(table, stem, names, settings.figures)


def printed(table: Table, names: Names = OURS) -> PrintedTable:
    """A table with a line per combination of its labels and a column per metric, in words."""
    all_rows = table.rows.to_dict("records")
    metrics = list(dict.fromkeys(str(row["metric"]) for row in all_rows))
    lines = dict[tuple[Any, ...], list[Mapping[Hashable, Any]]]()
    for row in all_rows:
        labels = (row[column] for column in table.labels)
        lines.setdefault(tuple(None if pd.isna(label) else label for label in labels), []).append(row)
    rows = []
    for part in lines.values():
        figures = {str(row["metric"]): _entry(row) for row in part}
        told = (names.label(column, part[0][column]) for column in table.labels)
        rows.append(PrintedRow(tuple(told), tuple(figures.get(metric, PrintedEntry()) for metric in metrics)))
    headings = [(names.heading(table, metric), metric) for metric in metrics]
    columns = tuple(Heading(name, code=metric if name != metric else "") for name, metric in headings)
    told_once = {OF_PROBABILITIES: _is_probability, OF_FORECASTS: _is_forecast, OF_WIDE: _is_wide}
    below = tuple(told for told, concerned in told_once.items() if any(map(concerned, all_rows)))
    return PrintedTable(table.title, table.labels, columns, {"": tuple(rows)}, below=below)


def _is_probability(row: Mapping[Hashable, Any]) -> bool:
    """A p-value with a note on why it has no interval, which is said once below the table."""
    return is_p_value(row) and bool(row["note"]) and not math.isnan(row["value"])


def _is_wide(row: Mapping[Hashable, Any]) -> bool:
    """A figure whose interval is too wide; one without any says in its own words that n is 1."""
    return is_too_wide(row) and row["n"] > 1


def _is_forecast(row: Mapping[Hashable, Any]) -> bool:
    return str(row["note"]) == FORECAST


def _entry(row: Mapping[Hashable, Any]) -> PrintedEntry:
    count, words = int(row["n"]) or None, str(row["note"])
    if _is_forecast(row):
        return PrintedEntry(words=f"{row['value']:,.0f}")
    if _is_probability(row):
        if (p := row["value"]) < LEAST_TOLD:
            return PrintedEntry(n=count, words=f"< {LEAST_TOLD}")
        hides_side = p != ALPHA and number(p) == number(ALPHA)  # of .0497 nobody could say that it lies below .05
        return PrintedEntry(n=count, words=f"{p:.4f}") if hides_side else PrintedEntry(p, n=count)
    if is_too_wide(row) or (words and math.isnan(row["value"])):
        return PrintedEntry(n=count, words=words)
    return PrintedEntry(row["value"], row["low"], row["high"], count, words=words)


def _markdown(tables: Sequence[Table], names: Names) -> Iterator[str]:
    yield from ("# Analyses", "", "Values with 95 % intervals; n: examples (empty where a figure counts none).")
    if coded := [f"{title} is `{code}`" for code, title in names.methods.items() if title.casefold() != code]:
        yield from ("", f"In settings and CSV files {', '.join(coded)}.")
    for table in tables:
        yield from (f"\n## {escape(table.title)}\n", *markdown.table_lines(printed(table, names)))
        if table.sentences:
            yield from ("", *(f"- {escape(sentence)}" for sentence in table.sentences))
    yield ""
