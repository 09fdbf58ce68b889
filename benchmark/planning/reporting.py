"""What the report of a comparison will take, from a report on the batches that were measured."""

import time
from collections.abc import Mapping, Sequence
from itertools import islice

from benchmark.report.cells import NamedCell, named_cells
from benchmark.report.curve_figures import curve_files, curves
from benchmark.report.graphs import graph_files
from benchmark.report.image_figures import image_files
from benchmark.report.leaderboard import frame
from benchmark.report.naming import Names
from benchmark.report.page.document import comparison_page
from benchmark.report.pairs import every_pair
from benchmark.report.run_folders import read_stored
from benchmark.report.write import text_files
from benchmark.run.cell import Cell
from benchmark.settings.report_settings import ReportSettings


def report_seconds(cells: Sequence[Cell], tests: Mapping[str, str], look: ReportSettings) -> tuple[float, int]:
    """Seconds and bytes of a report on finished cells: its tables are made, and of its curves the overview and one drawn.

    A report goes over figures and intervals, of which there are as many however many examples they stand for.

    Args:
        cells: that are finished.
        tests: name and identity of the comparison's tests.
        look: how it looks.
    """
    named = named_cells([read_stored(cell.folder, tests) for cell in cells])
    seconds, size = _tables(named, look)
    drawn, drawn_size = _figures(named, look)
    return seconds + drawn, size + drawn_size


def _tables(cells: list[NamedCell], look: ReportSettings) -> tuple[float, int]:
    start = time.perf_counter()
    table, names = frame(cells), Names.of(cells, look.names)
    pairs = every_pair(cells, table)
    size = sum(len(content) for _, content in text_files(cells, table, pairs, names, look.latex))
    size += len(comparison_page(cells, table, pairs, {}, "", (), names).encode())
    return time.perf_counter() - start, size


def _figures(cells: list[NamedCell], look: ReportSettings) -> tuple[float, int]:
    """All graphs and images are drawn, and of the curves the overview and one, which stands for the others."""
    table, names = frame(cells), Names.of(cells, look.names)
    start = time.perf_counter()
    size = sum(
        len(content)
        for _, content in (*graph_files(cells, names, look.figures), *image_files(cells, table, names, look.figures))
    )
    seconds = time.perf_counter() - start
    found = [curve for curve in curves(cells, table, names) if not curve.flat]
    drawing, files = curve_files(cells, table, names, look.figures), len(look.figures.format)
    for times in (1, len(found)):
        start = time.perf_counter()
        size += times * sum(len(content) for _, content in islice(drawing, files))
        seconds += times * (time.perf_counter() - start)
    return seconds, size
