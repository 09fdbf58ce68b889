"""Intervals of statistics that the noise of examples moves to one side: correlations of importances, shares of variance."""

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from benchmark.results.statistics.bootstrap import UNBOUNDED, Interval, Range
from benchmark.results.statistics.proportions import LEVEL, Array

_DEFINED = 0.9  # share of resamples in which the statistic must be defined for an interval
_SURE = 1 - 1e-9  # of the way to an end, where z is infinite
_NOTHING = 1e-9  # standard deviation of z


def spread_interval(value: float, resampled: Sequence[float] | Array, n: int, bounds: Range) -> Interval:
    """`z⁻¹(z(θ) ± t_{n−1} sd(z(θ*)))` with `z(θ) = artanh((2θ − a − b) / (b − a))` for θ in [a, b].

    For a correlation in [−1, 1] z is Fisher's; for a share in [0, 1] it is half the log-odds. Noise moves such a statistic θ
    (a correlation towards 0), and its resamples θ* once more. Percentiles of θ* may therefore lie beside θ, and only their
    spread is used. What the interval holds is the statistic *of n examples*, its mean over samples of this size, and not
    what it tends to as n grows; `docs/statistics.md` tables how often.

    Args:
        value: θ.
        resampled: θ* of resamples of the examples, NaN where it is not defined.
        n: number of examples, the smaller where two samples are resampled.
        bounds: a and b.

    Returns:
        The interval; none where n < 2, where θ or more than a tenth of θ* are not defined, or where θ* do not vary.
    """
    low, high = bounds
    place = (2 * np.append(np.asarray(resampled, dtype=np.float64), value) - low - high) / (high - low)
    *drawn, at = np.arctanh(np.clip(np.where(np.isfinite(place), place, np.nan), -_SURE, _SURE))
    reach = _reach(at, np.array(drawn), n)
    ends = ((high - low) * np.tanh([at - reach, at + reach]) + low + high) / 2
    return Interval(value, float(np.minimum(ends[0], value)), float(np.maximum(ends[1], value)), n, bounds)


def plain_spread_interval(
    value: float, resampled: Sequence[float] | Array, n: int, bounds: Range = UNBOUNDED
) -> Interval:
    """`θ ± t_{n−1} sd(θ*)` within the bounds: the same of a statistic that noise does not move.

    Args:
        value, resampled, n: as of `spread_interval`, and no interval in the same cases.
        bounds: least and largest possible value.
    """
    reach = _reach(value, np.asarray(resampled, dtype=np.float64), n)
    return Interval(
        value, float(np.maximum(value - reach, bounds[0])), float(np.minimum(value + reach, bounds[1])), n, bounds
    )


def _reach(value: float, resamples: Array, n: int) -> float:
    """`t_{n−1} sd(θ*)`; NaN where there is no interval."""
    defined = resamples[np.isfinite(resamples)]
    if n < 2 or not np.isfinite(value) or len(defined) < max(2, _DEFINED * len(resamples)):
        return float("nan")
    spread = float(np.std(defined, ddof=1))
    return float(stdtrit(n - 1, (1 + LEVEL) / 2)) * spread if spread > _NOTHING else float("nan")
