"""Intervals of correlations of head importance, by resampling the examples that it is computed from."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.results.statistics import Interval, spread_interval
from benchmark.run.cell import Cell

_RESAMPLES = 200

Rank = Callable[[NDArray, NDArray], float]


def correlation(
    first: tuple[Cell, Float[Tensor, "N L H"]],
    second: tuple[Cell, Float[Tensor, "M L H"]],
    rank: Rank,
    *,
    together: bool,
    seed: int = 0,
) -> Interval:
    """`rank` of two head importances with its 95 % interval over calibration examples (`spread_interval`).

    Noise of the examples lowers a correlation: it is one of importances that are estimated from so many examples.

    Args:
        first: a cell and the head scores of its calibration examples.
        second: another one.
        rank: correlation of two flat importances [L·H].
        together: both are scores of the same examples in the same order, which are resampled as pairs.
        seed: of the resampling.

    Returns:
        The correlation, its interval (NaN where one side has a single example, or where one importance is constant in
        more than a tenth of the resamples), and the number of calibration examples (the smaller of the two).
    """
    (cell, scores), (other, others) = first, second

    def measure(rows: NDArray, other_rows: NDArray) -> float:
        return rank(
            cell.aggregate(scores[rows]).flatten().double().numpy(),
            other.aggregate(others[other_rows]).flatten().double().numpy(),
        )

    n, m = len(scores), len(others)
    value = measure(np.arange(n), np.arange(m))
    generator = np.random.default_rng(seed)
    resampled = []
    for _ in range(_RESAMPLES):
        rows = generator.integers(0, n, size=n)
        resampled.append(measure(rows, rows if together else generator.integers(0, m, size=m)))
    return spread_interval(value, resampled, min(n, m), (-1.0, 1.0))
