"""Figures that finished cells hold, for analyses that put those of several cells or tests together."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from benchmark.results import store
from benchmark.results.tables import line
from benchmark.run.cell import Cell

NAN = float("nan")


def tested(cell: Cell, tests: Mapping[str, str]) -> tuple[Mapping[str, Any], pd.DataFrame]:
    """Record and rows of a finished cell, with the tests of these names and identities."""
    return store.of_comparison(store.read_record(cell.folder), store.read_rows(cell.folder), tests)


def figures(record: Mapping[str, Any], evaluation: str) -> Iterator[dict[str, Any]]:
    """The figures of one evaluation: `metric`, `x`, `value`, `low`, `high`, `n`; null read as NaN."""
    for figure in record["evaluations"].get(evaluation, {}).get("figures", ()):
        yield {key: NAN if value is None else value for key, value in figure.items()}


def scalar(record: Mapping[str, Any], evaluation: str, metric: str) -> dict[str, Any] | None:
    """The figure of a scalar metric, or None."""
    found = (f for f in figures(record, evaluation) if f["metric"] == metric and f["x"] != f["x"])
    return next(found, None)


def shown(labels: Mapping[str, Any], name: str, figure: Mapping[str, Any]) -> dict[str, Any]:
    """A figure as a line of a table."""
    return line(labels, name, *(figure[key] for key in ("value", "low", "high", "n")))
