"""Means over examples as lines of a table."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.analyses.measured import figure_line
from benchmark.results import statistics

SHARE, CORRELATION = (0.0, 1.0), (-1.0, 1.0)
CHANGE_OF_SHARE = (-1.0, 1.0)


def defined_mean(
    values: NDArray[Any], bounds: tuple[float, float], clusters: NDArray[Any] | None = None
) -> statistics.Interval:
    """The mean of the examples that have a value (no NaN), and its interval.

    With `clusters` examples that have an equal one are resampled together.
    """
    numbers = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(numbers)
    if clusters is None:
        return statistics.interval(numbers[known], bounds=bounds)
    return statistics.clustered_interval(numbers[known], clusters[known], bounds=bounds)


def share_undefined(values: NDArray[Any]) -> statistics.Interval:
    """The share of examples that have no value (NaN), and its interval."""
    return statistics.interval(np.isnan(values).astype(float), bounds=SHARE)


def mean_line(
    labels: Mapping[str, Any],
    metric: str,
    values: NDArray[Any],
    bounds: tuple[float, float],
    nothing: str,
    clusters: NDArray[Any] | None = None,
    key: str = "",
) -> dict[str, Any]:
    """The `defined_mean` as a line; where no example has a value, `nothing` says why."""
    figure = defined_mean(values, bounds, clusters)
    return figure_line(labels, metric, figure, "" if figure.n else nothing, bounds, key)


def correlation_lines(labels: Mapping[str, Any], with_what: str, taus: NDArray[Any]) -> list[dict[str, Any]]:
    """The mean of the τ_b [N] that are defined, and the share of examples in which τ_b is not (NaN)."""
    return [
        mean_line(labels, f"τ_b with {with_what}", taus, CORRELATION, "undefined in every example"),
        figure_line(labels, f"undefined with {with_what}", share_undefined(taus)),
    ]
