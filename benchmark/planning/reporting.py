"""What the report of a comparison will take, from reports of a pilot's rounds."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmark.planning.fitting import straight
from benchmark.planning.pilot import Pilot, Round
from benchmark.report.cells import NamedCell, named_cells
from benchmark.report.curve_figures import curve_files, curves
from benchmark.report.graphs import graph_files
from benchmark.report.image_figures import image_files
from benchmark.report.leaderboard import frame
from benchmark.report.naming import Names
from benchmark.report.page.document import comparison_page
from benchmark.report.pairs import every_pair
from benchmark.report.run_folders import Stored, read_stored
from benchmark.report.write import text_files
from benchmark.results.digests import digest
from benchmark.settings.latex_settings import LatexSettings

_APART = 4
"""How many times more examples the larger round must have to show how tables grow; else they are taken not to."""


def report_seconds(pilot: Pilot, tests: Mapping[str, str], latex: LatexSettings, n: int) -> tuple[float, int]:
    """Seconds and bytes of a report on `n` examples: tables by the size of the rounds, and a figure for each curve.

    Args:
        pilot: that was run.
        tests: name and identity of the comparison's tests.
        latex: how LaTeX tables look.
        n: the comparison's examples.
    """
    sizes = [each.data.facts.n for each in pilot.rounds]
    rounds = pilot.rounds if sizes[-1] >= _APART * sizes[0] else pilot.rounds[-1:]
    named, sizes = [_named(pilot, each, tests) for each in rounds], sizes[-len(rounds) :]
    measured = [_tables(cells, latex) for cells in named]
    texts = straight(sizes, [seconds for seconds, _ in measured], n)
    drawn, size = _figures(named[-1])
    return texts + drawn, round(straight(sizes, [float(size) for _, size in measured], n)) + size


def _named(pilot: Pilot, each: Round, tests: Mapping[str, str]) -> list[NamedCell]:
    """The round's cells as a report reads them; a method that was not tested has the figures of the one like it."""
    tested = {name: read_stored(each.cells[name].folder, tests) for name in dict.fromkeys(pilot.like.values())}
    return named_cells([_called(tested[kin], name, each.cells[name].folder) for name, kin in pilot.like.items()])


def _called(stored: Stored, name: str, folder: Path) -> Stored:
    """What a run folder holds, as that of another method in a folder of its own."""
    for page in stored.folder.glob("*.json"):
        if page.name != "record.json" and folder != stored.folder:
            shutil.copyfile(page, folder / page.name)
    method = replace(stored.record.method, name=name)
    record = replace(stored.record, hash=digest([stored.record.hash, name]), method=method)
    return replace(stored, folder=folder, record=record)


def _tables(cells: list[NamedCell], latex: LatexSettings) -> tuple[float, int]:
    start = time.perf_counter()
    table, names = frame(cells), Names.of(cells, latex.names)
    pairs = every_pair(cells, table)
    size = sum(len(content) for _, content in text_files(cells, table, pairs, latex))
    size += len(comparison_page(cells, table, pairs, {}, "", (), names).encode())
    return time.perf_counter() - start, size


def _figures(cells: list[NamedCell]) -> tuple[float, int]:
    """All graphs and images are drawn, and of the curves the overview and one, which stands for the others."""
    table = frame(cells)
    start = time.perf_counter()
    size = sum(len(content) for _, content in (*graph_files(cells), *image_files(cells, table, Names.of(cells))))
    seconds = time.perf_counter() - start
    found = [curve for curve in curves(cells, table) if not curve.flat]
    drawing, files = curve_files(cells, table), 2  # a PNG and a PDF
    for times in (1, len(found)):
        start = time.perf_counter()
        size += times * sum(len(content) for _, content in islice(drawing, files))
        seconds += times * (time.perf_counter() - start)
    return seconds, size
