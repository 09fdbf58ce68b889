"""Figures that finished cells hold, for analyses that put those of several cells or tests together."""

from collections.abc import Mapping
from typing import Any

from benchmark.results import store
from benchmark.results.record import Figure, Record
from benchmark.results.rows import StoredRows
from benchmark.results.statistics import Interval, Range
from benchmark.results.tables import line, no_interval
from benchmark.run.cell import Cell


def tested(cell: Cell, tests: Mapping[str, str]) -> tuple[Record, StoredRows]:
    """Record and rows of a finished cell, with the tests of these names and identities."""
    return store.of_comparison(*store.read_cell(cell.folder), tests)


def figures(record: Record, evaluation: str, metric: str) -> list[Figure]:
    """The figures of one metric of a test; none where the test was not run."""
    tests = record.evaluations
    return [figure for figure in tests[evaluation].figures if figure.metric == metric] if evaluation in tests else []


def figure_line(
    labels: Mapping[str, Any],
    name: str,
    figure: Figure | Interval,
    note: str = "",
    bounds: Range | None = None,
    key: str = "",
) -> dict[str, Any]:
    """A figure with its interval as a line of a table (`line`); `bounds` are the interval's own where none are given.

    Where it has no interval, the note says why.
    """
    note = note or no_interval(figure.value, figure.low, figure.high, figure.n)
    reach = figure.reach if bounds is None and isinstance(figure, Interval) else bounds
    return line(labels, name, figure.value, figure.low, figure.high, figure.n, note, reach, key)
