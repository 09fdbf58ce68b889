"""Everything that a report consists of, written to a folder."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from benchmark import progress
from benchmark.errors import printable
from benchmark.report.analysis_tables import read_tables, table_files
from benchmark.report.cells import NamedCell
from benchmark.report.curve_figures import curve_files
from benchmark.report.graphs import graph_files
from benchmark.report.image_figures import image_files
from benchmark.report.interchange import leaderboard_json
from benchmark.report.latex import latex_files
from benchmark.report.leaderboard import (
    CSV_COLUMNS,
    CURVE_COLUMNS,
    frame,
)
from benchmark.report.markdown import markdown
from benchmark.report.naming import Names
from benchmark.report.page.document import comparison_page
from benchmark.report.pairs import MethodPairs, differences, every_pair
from benchmark.report.planned import PLANNED
from benchmark.report.printed import csv_bytes
from benchmark.report.unchanged import inputs, note, unchanged
from benchmark.results.cache import atomic_path
from benchmark.results.comparison_folders import COMMAND
from benchmark.results.tables import Table
from benchmark.settings.latex_settings import LatexSettings

_DESCRIPTIONS = {
    "leaderboard.md": "all tables, calibration of the tests, methods against random and against each other",
    "leaderboard.csv": "all figures with their intervals",
    "leaderboard.json": "the same with versions, hashes and settings, for other programs (schema in the package)",
    "differences.csv": "every method against every other: paired differences with p-values",
    "curves.csv": "all points of the curves",
    "cost.csv": "seconds, passes and memory of each method",
    "leaderboard.tex": "the headline figures as LaTeX tables for a paper (report.latex says how they look)",
    "leaderboard-full.tex": "all scalar figures as LaTeX tables for an appendix",
    "analyses.md": "tables of the analyses",
    "analyses.tex": "the same as LaTeX tables",
}
_COST = ("seconds", "forward_passes", "backward_passes", "peak_memory_bytes")


def _cost(cells: Sequence[NamedCell]) -> pd.DataFrame:
    """What each cell cost, as its record says."""
    rows = [
        {"task": cell.task, "model": cell.model, "method": cell.method, "n": cell.record.task.n}
        | {key: getattr(cell.record.cost, key) for key in _COST}
        for cell in cells
    ]
    return pd.DataFrame(rows)


def _files(
    cells: Sequence[NamedCell], tables: Sequence[Table], latex: LatexSettings, command: str, *, planned: bool
) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file of the report; equal cells and tables give equal bytes."""
    table, names = frame(cells), Names.of(cells, latex.names)
    pairs = every_pair(cells, table)
    yield from text_files(cells, table, pairs, latex)
    yield from (*curve_files(cells, table, names.method), *graph_files(cells), *table_files(tables, names, latex))
    yield from image_files(cells, table, names)
    links = {name: what for name, what in _DESCRIPTIONS.items() if tables or not name.startswith("analyses")}
    links |= PLANNED if planned else {}
    yield "index.html", comparison_page(cells, table, pairs, links, command, tables, names).encode()


def text_files(
    cells: Sequence[NamedCell],
    table: pd.DataFrame,
    pairs: Mapping[tuple[str, str], Sequence[MethodPairs]],
    latex: LatexSettings,
) -> Iterator[tuple[str, bytes]]:
    """The files without pictures, but the page."""
    scalars = table[table["x"].isna()]
    yield "leaderboard.json", leaderboard_json(cells, table)
    yield "leaderboard.csv", csv_bytes(scalars[list(CSV_COLUMNS)])
    yield "curves.csv", csv_bytes(table.loc[table["x"].notna(), list(CURVE_COLUMNS)])
    yield "cost.csv", csv_bytes(_cost(cells))
    yield "differences.csv", csv_bytes(differences(pairs))
    yield "leaderboard.md", markdown(cells, table, pairs).encode()
    yield from latex_files(cells, table, pairs, latex)


def _command(folder: Path) -> str:
    """The command that made a comparison's folder; empty where none is kept."""
    path = folder / COMMAND
    return printable(path.read_text(encoding="utf-8", errors="replace").strip()) if path.is_file() else ""


def write_report(cells: Sequence[NamedCell], folder: Path, latex: LatexSettings | None = None) -> list[Path]:
    """Tables (Markdown, CSV, LaTeX), one figure per curve (PNG, PDF), attribution graphs, and a page that shows it all.

    Nothing is computed but resampling: no model is loaded. The same cells give the same bytes, in whatever order
    they are given. Each file is put in place whole or not at all; everything is made before the first is written.

    Args:
        cells: what run folders hold (`benchmark.report.cells.load_cells`).
        folder: where the files go; it is made where it does not exist. Tables that analyses left there are taken in.
        latex: how the LaTeX tables look; what it calls methods, figures of analyses and the page call them too.

    Returns:
        The files of the report. Where they lie there already, made from the same, none is made again.

    Raises:
        UserError: a file of a cell is corrupt, or `latex` names a metric or method that there is not.
        OSError: the folder cannot be written.
    """
    tables, latex, command = read_tables(folder), latex or LatexSettings(), _command(folder)
    planned = all((folder / name).is_file() for name in PLANNED)
    made_from = inputs(
        cells, [table.to_json() for table in tables], asdict(latex), command, *([True] if planned else [])
    )
    if (there := unchanged(folder, made_from)) is not None:
        return there
    contents: dict[str, bytes] = {}
    with progress.step("making files", unit="files") as advance:
        for name, content in _files(cells, tables, latex, command, planned=planned):
            contents[name] = content
            advance(1)
    for name, content in contents.items():
        with atomic_path(folder / name) as temporary:
            temporary.write_bytes(content)
    note(folder, made_from, contents)
    return [folder / name for name in contents]
