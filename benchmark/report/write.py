"""Everything that a report consists of, written to a folder; what lies there already is not drawn twice."""

import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark import progress
from benchmark.errors import Corrupt, Missing, printable
from benchmark.report.analysis_tables import read_tables, table_files
from benchmark.report.arrangement import ORDER, is_control, ordered_tests, repeats
from benchmark.report.cells import NamedCell
from benchmark.report.curve_figures import curve_files
from benchmark.report.graphs import graph_files
from benchmark.report.image_figures import image_files
from benchmark.report.latex import latex_files
from benchmark.report.leaderboard import CSV_COLUMNS, CURVE_COLUMNS, TIES, frame, groups
from benchmark.report.markdown import markdown
from benchmark.report.naming import Names, with_titles
from benchmark.report.page.document import comparison_page
from benchmark.report.pairs import MethodPairs, differences, every_pair
from benchmark.report.planned import PLANNED
from benchmark.report.printed import csv_bytes
from benchmark.report.sweeps import sweep_tables
from benchmark.results import store
from benchmark.results.comparison_folders import COMMAND
from benchmark.results.digests import digest, sealed
from benchmark.results.record import EvaluationRecord
from benchmark.results.tables import Table
from benchmark.settings.report_settings import AS_GIVEN, LatexSettings, ReportSettings

VERSION = 1
"""Of `leaderboard.json`: raised where a reader of an earlier one would misread the file."""

SCHEMA = Path(__file__).with_name("leaderboard.schema.json")
"""JSON Schema (draft 2020-12) of that file."""

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

_NOTE = Path("drawn", "report.json")
"""Written last: a digest of all that the report was made from, and the SHA-256 of each of its files.

A report that a kill left half-written, a file that was changed or removed, other inputs and other code all differ from it.
"""

_PACKAGE = Path(__file__).parents[1]
_DRAWING = (
    "matplotlib", "numpy", "pandas", "scipy", "pillow", "contourpy", "kiwisolver", "fonttools", "jinja2", "networkx",
)  # fmt: skip
_READ = ("heatmap.json", "graphs.json")
"""Files of a run folder that a report reads after its record and rows."""


def _cost(cells: Sequence[NamedCell]) -> pd.DataFrame:
    """What each cell cost, as its record says."""
    rows = [
        {"task": cell.task, "model": cell.model, "method": cell.method, "n": cell.record.task.n}
        | {key: getattr(cell.record.cost, key) for key in _COST}
        for cell in cells
    ]
    return pd.DataFrame(rows)


def _files(
    cells: Sequence[NamedCell], tables: Sequence[Table], settings: ReportSettings, command: str, *, planned: bool
) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file of the report; equal cells and tables give equal bytes."""
    given, cells = cells, with_titles(cells, settings.names.metrics)
    table, names = frame(cells, tables if settings.trust else ()), Names.of(cells, settings.names)
    tables = [*tables, *sweep_tables(cells, table, names)]
    pairs = every_pair(cells, table)
    yield from text_files(given, table, pairs, names, settings.latex)
    yield from curve_files(cells, table, names, settings.figures)
    yield from (*graph_files(cells, names, settings.figures), *table_files(tables, names, settings))
    yield from image_files(cells, table, names, settings.figures)
    links = {name: what for name, what in _DESCRIPTIONS.items() if tables or not name.startswith("analyses")}
    links |= PLANNED if planned else {}
    yield "index.html", comparison_page(cells, table, pairs, links, command, tables, names).encode()


def text_files(
    cells: Sequence[NamedCell],
    table: pd.DataFrame,
    pairs: Mapping[tuple[str, str], Sequence[MethodPairs]],
    names: Names,
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
    yield from latex_files(cells, table, pairs, names, latex)


def leaderboard_json(cells: Sequence[NamedCell], table: pd.DataFrame) -> bytes:
    """All scalar figures with what they rest on, for other programs, as `SCHEMA` says; numbers not finite are null.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
    """
    content = {"version": VERSION, "order": ORDER, "comparisons": [_compared(*group, table) for group in groups(cells)]}
    return store.json_bytes(content)


def _compared(task: str, model: str, members: Sequence[NamedCell], table: pd.DataFrame) -> dict[str, Any]:
    """One task and model: the tests, and the methods from best to worst."""
    rows = table[(table["task"] == task) & (table["model"] == model) & table["x"].isna() & (table["metric"] != "")]
    by_method: dict[str, list[Mapping[Any, Any]]] = {}
    for row in rows.to_dict("records"):
        by_method.setdefault(str(row["method"]), []).append(row)
    named = {cell.method: cell for cell in members}
    order = dict.fromkeys(table.loc[(table["task"] == task) & (table["model"] == model), "method"])
    record, repeated = members[0].record, repeats(members)
    return {
        "task": {"shown": task, **asdict(record.task)},
        "model": {"shown": model, **asdict(record.model)},
        "tests": {name: _test(test, repeated.get(name)) for name, test in ordered_tests(members).items()},
        "methods": [_method(named[str(method)], by_method.get(str(method), [])) for method in order],
    }


def _test(test: EvaluationRecord, repeated: str | None) -> dict[str, Any]:
    metrics = {name: metric for name, metric in test.metrics.items() if metric.x is None}
    told = ("higher_is_better", "headline", "title", "short", "meaning")
    return {
        "name": test.name,
        "kind": test.about.kind,
        "title": test.about.title,
        "version": test.version,
        "digest": test.digest,
        "statistics": test.statistics,
        "target": test.target,
        "repeats": repeated,
        "metrics": {
            name: {key: getattr(metric, key) for key in told}
            | {"bounds": [None if math.isinf(end) else end for end in metric.bounds]}
            for name, metric in metrics.items()
        },
    }


def _method(cell: NamedCell, rows: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
    record = cell.record
    return {
        "shown": cell.method,
        "name": record.method.name,
        "version": record.method.version,
        "control": is_control(cell.method),
        "hash": record.hash,
        "git_commit": record.git_commit,
        "versions": dict(record.versions),
        "cost": asdict(record.cost),
        "figures": [
            {"test": row["evaluation"]}
            | {key: row[key] for key in ("metric", "value", "low", "high", "n", "dash", "remark", *TIES)}
            for row in rows
        ],
    }


def _command(folder: Path) -> str:
    """The command that made a comparison's folder; empty where none is kept."""
    path = folder / COMMAND
    return printable(path.read_text(encoding="utf-8", errors="replace").strip()) if path.is_file() else ""


def write_report(cells: Sequence[NamedCell], folder: Path, settings: ReportSettings = AS_GIVEN) -> list[Path]:
    """Tables (Markdown, CSV, LaTeX), one figure per curve (PNG, PDF), attribution graphs, and a page that shows it all.

    Nothing is computed but resampling: no model is loaded. The same cells give the same bytes, in whatever order
    they are given. Each file is put in place whole or not at all; everything is made before the first is written.

    Args:
        cells: what run folders hold (`benchmark.report.cells.load_cells`).
        folder: where the files go; it is made where it does not exist. Tables that analyses left there are taken in.
        settings: how it looks, and what things are called.

    Returns:
        The files of the report. Where they lie there already, made from the same, none is made again.

    Raises:
        UserError: a file of a cell is corrupt, or `settings` name a metric or method that there is not.
        OSError: the folder cannot be written.
    """
    tables, command = read_tables(folder), _command(folder)
    planned = all((folder / name).is_file() for name in PLANNED)
    _check_names(cells, settings)
    made_from = _inputs(
        cells, [table.to_json() for table in tables], asdict(settings), command, *([True] if planned else [])
    )
    if (there := _unchanged(folder, made_from)) is not None:
        return there
    contents: dict[str, bytes] = {}
    with progress.step("making files", unit="files") as advance:
        for name, content in _files(cells, tables, settings, command, planned=planned):
            contents[name] = content
            advance(1)
    for name, content in contents.items():
        store.write_bytes(folder / name, content)
    _note(folder, made_from, contents)
    return [folder / name for name in contents]


def _check_names(cells: Sequence[NamedCell], settings: ReportSettings) -> None:
    """UserError for names of methods or metrics that there are not; tasks and models may be those of other reports."""
    settings.check_methods({name for cell in cells for name in (cell.method, cell.kind)})
    known: dict[str, set[str]] = {}
    for cell in cells:
        for test in cell.record.evaluations.values():
            known.setdefault(test.name, set()).update(test.metrics)
    settings.check_names(known)


def _inputs(cells: Sequence[NamedCell], *others: Any) -> str:
    """Digest of what a report is made from: the cells, these further values, the code, and the packages that draw."""
    return digest([[_of_cell(cell) for cell in cells], *others, _code(), _versions()])


def _unchanged(folder: Path, made_from: str) -> list[Path] | None:
    """The files of the report in `folder`; None where it was made from anything else, or is not all there as written."""
    if not (folder / _NOTE).is_file():
        return None
    try:
        said = store.read_sealed(folder / _NOTE)
    except (Corrupt, Missing):
        return None
    files: Mapping[str, str] = said["files"]
    whole = said["inputs"] == made_from and all(_is(folder / name, known) for name, known in files.items())
    return [folder / name for name in files] if whole else None


def _note(folder: Path, made_from: str, contents: Mapping[str, bytes]) -> None:
    """Say of which inputs the report in `folder` was made; all of its files lie there already."""
    files = {name: sha256(content).hexdigest() for name, content in contents.items()}
    store.write_json(folder / _NOTE, sealed({"inputs": made_from, "files": files}))


def _is(path: Path, known: str) -> bool:
    return path.is_file() and store.hash_of(path) == known


def _of_cell(cell: NamedCell) -> list[Any]:
    """What a report reads of a cell. Rows are those of its record, which was compared with them when they were read."""
    folder = cell.stored.folder
    read = {name: store.hash_of(folder / name) for name in _READ if (folder / name).is_file()}
    tests = [list(cell.evaluations.items()), list(cell.record.evaluations)]  # in their order
    return [cell.task, cell.model, cell.method, str(folder), cell.record.to_json(), tests, read]


@cache
def _code() -> str:
    """Digest of the package: of its modules, templates and scripts."""
    paths = sorted(path for path in _PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest([[path.relative_to(_PACKAGE).as_posix(), store.hash_of(path)] for path in paths])


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _DRAWING:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
