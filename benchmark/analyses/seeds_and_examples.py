"""Means over trained seeds and examples as lines of a table, and how much either has in them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.analyses.measured import figure_line
from benchmark.results.statistics import Range, crossed_interval
from benchmark.results.tables import line

SEEDS, EXAMPLES = "SD between seeds", "SD between examples"

SeedValues = Float[NDArray[np.float64], "S N"]
"""A value of each example under each seed."""


def crossed_lines(
    labels: Mapping[str, Any], metric: str, values: SeedValues, bounds: Range, nothing: str = ""
) -> list[dict[str, Any]]:
    """The mean with an interval for other seeds and examples; where no example has a value, `nothing` says why."""
    found = crossed_interval(values, bounds=bounds).mean
    return [figure_line(labels, metric, found, "" if found.n else nothing)]


def spread_lines(labels: Mapping[str, Any], values: SeedValues, bounds: Range) -> list[dict[str, Any]]:
    """Standard deviations: between seeds, of means over all examples, and between examples, of means over all seeds."""
    found, (s, n) = crossed_interval(values, bounds=bounds), values.shape
    lines = []
    for name, spread in ((SEEDS, found.seeds), (EXAMPLES, found.examples)):
        short = "needs two seeds" if s < 2 else "needs two examples"
        note = f"no interval: of {s} seed{'s' * (s > 1)} and {n} examples" if np.isfinite(spread) else short
        lines.append(line(labels, name, spread, n=n, note=note))
    return lines


def of_seeds(seeds: int) -> str:
    """What intervals over so many seeds hold for, as a sentence."""
    if seeds == 1:
        return "One seed of the training; intervals are over examples, of this seed."
    return f"{seeds} seeds of the training; intervals hold for other seeds and other examples at once."
