"""A figure of every seed of a training, each with its interval over the same examples, put together."""

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import stats

from benchmark.results.statistics.bootstrap import UNBOUNDED, Interval, Range

_LEVEL = 0.95


def mean_over_seeds(
    values: Float[NDArray[np.float64], " S"],
    lows: Float[NDArray[np.float64], " S"],
    highs: Float[NDArray[np.float64], " S"],
    n: int,
    bounds: Range = UNBOUNDED,
) -> Interval:
    """The mean of v_s with an interval that holds for other seeds and other examples, where examples' values are not known.

    Squares are added, the half-width of Student's interval over seeds and the mean squared half-widths over examples:

        low = v̄ − √(t² V / S + mean_s (v_s − low_s)²),    high = v̄ + √(t² V / S + mean_s (high_s − v_s)²),

    V the variance of the v_s and t the .975 quantile with S − 1 degrees of freedom. Seeds share their examples, whose part
    in the v_s is common and counts in whole; what an example and a seed have together counts twice, so that the interval is
    wider than `crossed_interval`, which knows each example. Of one seed it is the interval over examples; where a seed
    has none (NaN), it is Student's alone, over seeds, for these examples, and none where seeds agree.

    Args:
        values, lows, highs: figures and their intervals.
        n: examples.
        bounds: least and largest possible value, to which the interval is cut.

    Source: this project, by the rule of adding squares (Zou & Donner 2008), of which descriptions were read and not the
    paper; docs/statistics.md tables how often it holds.
    """
    s, mean = len(values), float(values.mean())
    examples = [float(np.mean(reach**2)) for reach in (values - lows, highs - values)]
    if not np.isfinite(examples).all():
        examples = [0.0, 0.0]
        if np.ptp(values) == 0:
            return Interval(mean, math.nan, math.nan, n)
    least, most = bounds
    t = float(stats.t.ppf((1 + _LEVEL) / 2, s - 1)) if s > 1 else 0.0
    seeds = t**2 * float(values.var(ddof=1)) / s if s > 1 else 0.0
    below, above = (math.sqrt(seeds + part) for part in examples)
    return Interval(mean, max(mean - below, min(least, mean)), min(mean + above, max(most, mean)), n, bounds)
