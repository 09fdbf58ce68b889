"""Means over examples as lines of a table."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.analyses.measured import figure_line
from benchmark.results import statistics

SHARE = (0.0, 1.0)


def mean_line(
    labels: Mapping[str, Any], metric: str, values: NDArray[Any], bounds: tuple[float, float], nothing: str
) -> dict[str, Any]:
    """The mean of the examples that have a value, with its interval, as a line; where none has, `nothing` says why."""
    numbers = np.asarray(values, dtype=np.float64)
    figure = statistics.interval(numbers[~np.isnan(numbers)], bounds=bounds)
    return figure_line(labels, metric, figure, "" if figure.n else nothing)
