"""Rows of tests that were done under several draws, such as orders of heads, as what draws add to a figure's error.

Two kinds of draws: *orders* of equal standing, over which the figure is a mean, and *resamples*, orders from bootstrap
resamples of the examples that the one order of the figure came from (`two_sources.of_orders`, `of_resamples`).
"""

import numpy as np
import pandas as pd

from benchmark.results.statistics.proportions import Array
from benchmark.results.statistics.two_sources import Source, of_orders, of_resamples

RESAMPLED = "resampled "
"""Rows of the metric m under resampled orders bear the name of m after this."""


def matrix(rows: pd.DataFrame) -> tuple[tuple[str, ...], Array]:
    """Examples in order, and values [n, K] by example and draw, from rows `uid, value[, draw]` of one metric and x."""
    row, uids = pd.factorize(rows["uid"].to_numpy(dtype=object), sort=True)
    draw, draws = pd.factorize(rows["draw"] if "draw" in rows else np.zeros(len(rows), dtype=int), sort=True)
    if len(np.unique(place := row * len(draws) + draw)) < len(place):
        raise ValueError("an example has two values in one draw")
    values = np.full((len(uids), len(draws)), np.nan)
    values[row, draw] = rows["value"].to_numpy(dtype=np.float64)
    return tuple(map(str, uids)), values


def sources(rows: pd.DataFrame, resampled: pd.DataFrame | None) -> list[Source]:
    """What both kinds of draws add, from the rows of a metric at one x and those of its resampled orders."""
    parts = of_orders(matrix(rows)[1])
    return parts if resampled is None or resampled.empty else [*parts, *of_resamples(matrix(resampled)[1])]
