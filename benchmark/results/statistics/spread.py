"""Intervals of statistics that the noise of examples moves to one side: correlations of importances, shares of variance."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from benchmark.results.statistics.bootstrap import Interval, Range
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
    resamples = np.asarray(resampled, dtype=np.float64)
    defined = resamples[np.isfinite(resamples)]
    no_interval = Interval(value, float("nan"), float("nan"), n)
    if n < 2 or not np.isfinite(value) or len(defined) < max(2, _DEFINED * len(resamples)):
        return no_interval
    low, high = bounds
    place = (2 * np.append(defined, value) - low - high) / (high - low)
    *drawn, at = np.arctanh(np.clip(place, -_SURE, _SURE))
    spread = float(np.std(drawn, ddof=1))
    if spread <= _NOTHING:
        return no_interval
    reach = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * spread
    ends = ((high - low) * np.tanh([at - reach, at + reach]) + low + high) / 2
    return Interval(value, min(float(ends[0]), value), max(float(ends[1]), value), n)
