"""Intervals of figures by resampling examples.

Everywhere the resampled unit is the example: one row of `values` belongs to one example, and a resample draws n
examples with replacement. The interval is the studentised one (Efron & Tibshirani 1993, section 12.5; Hall 1992): with
θ the statistic, σ its standard error, and θ*, σ* those of a resample,

    [θ − q_{.975} σ, θ − q_{.025} σ],    q the quantiles of t* = (θ* − θ) / σ*

at 95 %. Percentiles of θ* itself cover too little: .85 to .92 at n = 20 for a nominal .95.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from benchmark.results.statistics.proportions import LEVEL, Array, anderson_bounds, exact_bounds, paired_score, wilson

Statistic = Callable[[Array], Array]
"""Maps column means [r, k] of r resamples to the statistic [r]."""

Range = tuple[float, float]
"""Least and largest possible value."""

UNBOUNDED: Range = (-np.inf, np.inf)
RESAMPLES = 999
"""So that the quantiles .025 and .975 are values of the sample of t* (the 25th and the 975th)."""

_CELLS = 4_000_000  # of the weight matrix held at once: 32 MB
_NOTHING = 1e-12  # of the largest square: a smaller variance is rounding
_ROUNDING = 8 * np.finfo(np.float64).eps  # of the mean magnitude
_STEP = 1e-4  # of a column's standard deviation, for central differences


@dataclass(frozen=True)
class Interval:
    """A statistic with its interval over n examples; low = high = NaN where there is none, as where n < 2.

    `reach` is its least and its largest possible value, infinite where they are not known.
    """

    value: float
    low: float
    high: float
    n: int
    reach: Range = field(default=UNBOUNDED, compare=False, repr=False)


def _weights(n: int, seed: int, resamples: int) -> Iterator[Array]:
    """How often each of n examples is drawn [r, n], in chunks; they depend on these numbers only."""
    generator = np.random.default_rng(seed)
    chunk = max(1, min(resamples, _CELLS // n))
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        drawn = generator.integers(0, n, size=(rows, n))
        drawn += np.arange(rows)[:, None] * n
        yield np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def resampled_means(values: Array, seed: int = 0, resamples: int = RESAMPLES) -> Array:
    """Column means of bootstrap resamples [r, k]."""
    return np.concatenate([weights @ values / len(values) for weights in _weights(len(values), seed, resamples)])


def _studentised(shift: Array, variance: Array, scale: Array) -> Array:
    """t* = shift / σ*; ±∞ where a resample has no variance but another value, 0 where it has neither."""
    flat = variance <= _NOTHING * scale
    error = np.sqrt(np.where(flat, 1.0, variance))
    here = np.abs(shift) <= np.sqrt(_NOTHING * scale)
    return np.where(flat, np.where(here, 0.0, np.copysign(np.inf, shift)), shift / error)


def _studentised_ends(value: Array, error: Array, t: Array) -> tuple[Array, Array]:
    """Lower and upper end [k] from t* [r, k]; infinite where the quantile is."""
    count = len(t)
    rank = max(1, round((count + 1) * (1 - LEVEL) / 2))
    ordered = np.sort(t, axis=0)  # NaN last
    lowest, highest = ordered[rank - 1], ordered[count - rank]
    lost = np.isnan(ordered[-1])
    with np.errstate(invalid="ignore"):
        low, high = value - highest * error, value - lowest * error
    return np.where(lost, np.nan, low), np.where(lost, np.nan, high)


def _rounded(means: Array, table: Array) -> Array:
    """The means, 0 where they are no more than the rounding of a sum of terms that cancel."""
    return np.where(np.abs(means) <= _ROUNDING * np.abs(table).mean(axis=0), 0.0, means)


def _column_ranges(bounds: Range | Sequence[Range] | None, k: int) -> Array:
    """Bounds of each column [k, 2]."""
    table = np.asarray(UNBOUNDED if bounds is None else bounds, dtype=np.float64)
    return np.broadcast_to(table, (k, 2))


def _few_valued(table: Array, ranges: Array) -> tuple[Array, Array]:
    """Score intervals [k] of columns whose values are all 0 or c in [0, c], or −c, 0 or c in [−c, c]; NaN for others."""
    n, k = table.shape
    low, high = np.full((2, k), np.nan)
    least, most = ranges.T
    spread = np.where(np.isfinite(most - least), most - least, np.nan)
    bottom, top = (np.abs(table - end) <= _NOTHING * spread for end in (least, most))
    two = (bottom | top).all(axis=0) & (least == 0)
    three = (bottom | top | (table == 0)).all(axis=0) & (least == -most) & np.isfinite(spread)
    scores = wilson(top.mean(axis=0), n)
    paired_scores = paired_score(top.sum(axis=0, dtype=np.float64), bottom.sum(axis=0, dtype=np.float64), n)
    for columns, ends in ((two, scores), (three, paired_scores)):
        low[columns], high[columns] = (end[columns] * most[columns] for end in ends)
    return low, high


def intervals(values: ArrayLike, *, bounds: Range | Sequence[Range] | None = None) -> list[Interval]:
    """Mean and interval of every column of `values` [n, k]; the columns share their resamples.

    The interval is the studentised one within `bounds`, except in two cases. Where all values of a column are the ends of
    its range, it is Wilson's interval (0 and c) or Tango's (−c, 0 and c). Where so many resamples are constant that a
    quantile is infinite, as in constant samples, it is the exact bounds of `proportions.exact_bounds`. No end is beyond
    Anderson's bound, which holds for any sample. Those bounds need a range: a constant sample of an unbounded quantity has
    no interval, as nothing is known of what is rare.

    Args:
        values: one row per example.
        bounds: least and largest possible value, of all columns or of each.

    Returns:
        Column j equals `interval(values[:, j], ...)` up to rounding. NaN in a column makes its interval NaN.
    """
    table = np.asarray(values, dtype=np.float64)
    n, k = table.shape
    if n == 0:
        return [Interval(np.nan, np.nan, np.nan, 0) for _ in range(k)]
    means = _rounded(table.mean(axis=0), table)
    ranges = _column_ranges(bounds, k)
    if n == 1:
        columns = zip(means.tolist(), *ranges.T.tolist(), strict=True)
        return [Interval(mean, np.nan, np.nan, 1, (least, most)) for mean, least, most in columns]
    centred = table - means
    scale = (centred**2).max(axis=0) / n
    moments = resampled_means(np.concatenate([centred, centred**2], axis=1))
    shift, variance = moments[:, :k], (moments[:, k:] - moments[:, :k] ** 2) / n
    low, high = _studentised_ends(means, np.sqrt(table.var(axis=0) / n), _studentised(shift, variance, scale))
    constant = np.ptp(table, axis=0) <= _NOTHING * np.abs(table).max(axis=0)
    low, high = np.where(constant, -np.inf, low), np.where(constant, np.inf, high)
    for column in np.flatnonzero(np.isinf(low) | np.isinf(high)):
        bottom, top = float(ranges[column, 0]), float(ranges[column, 1])
        low[column], high[column] = exact_bounds(table[:, column], bottom, top)
    least, most = anderson_bounds(table, ranges[:, 0], ranges[:, 1])  # t* has no bound
    low, high = np.where(low < least, least, low), np.where(high > most, most, high)
    special = _few_valued(table, ranges)
    low, high = (np.where(np.isnan(score), end, score) for score, end in zip(special, (low, high), strict=True))
    ends = np.stack([means, low, high, *ranges.T], axis=1).tolist()
    return [_clipped(mean, a, b, n, (least, most)) for mean, a, b, least, most in ends]


def _clipped(value: float, low: float, high: float, n: int, bounds: Range) -> Interval:
    """The interval cut to the range and around its value; none where an end is not finite."""
    if not np.isfinite([low, high]).all():
        return Interval(value, np.nan, np.nan, n, bounds)
    return Interval(value, min(max(low, bounds[0]), value), max(min(high, bounds[1]), value), n, bounds)


def interval(
    values: ArrayLike,
    statistic: Statistic | None = None,
    *,
    bounds: Range | None = None,
    ranges: Sequence[Range] | None = None,
) -> Interval:
    """A statistic of the column means of `values` and its interval.

    The mean of one column is treated as in `intervals`. Of any other statistic f the variance of a sample, and of every
    resample, is the infinitesimal jackknife's: g' S g / n with g the gradient of f at the column means (by central
    differences) and S their covariance (Efron & Tibshirani 1993, section 21.3). Where a quantile of t* is infinite, f of
    the exact bounds of its columns stands in, which is right where f is monotone in each of them; it needs `ranges`.

    Args:
        values: [n] or [n, k], one row per example.
        statistic: maps column means [r, k] to the statistic [r], so that ratios of sums (micro-averaged F1) are
            bootstrapped by resampling examples. Default: the mean of the one column.
        bounds: least and largest possible value of the statistic.
        ranges: the same for every column.

    Returns:
        The statistic of the sample itself (not the mean of the resamples), its interval and n; value NaN where n = 0,
        low and high NaN where n < 2 or there is no interval. NaN in `values` makes the result NaN.

    Raises:
        ValueError: `values` has several columns and there is no `statistic`.
    """
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if statistic is None:
        if table.shape[1] != 1:
            raise ValueError(f"values of shape {table.shape} need a statistic")
        return intervals(table, bounds=bounds)[0]
    n = len(table)
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0)
    means = table.mean(axis=0, keepdims=True)
    value = statistic(means)
    if n == 1 or not np.isfinite(value[0]):
        return Interval(float(value[0]), np.nan, np.nan, n, bounds or UNBOUNDED)
    first, second = np.triu_indices(table.shape[1])
    centred = table - means
    products = centred[:, first] * centred[:, second]
    moments = resampled_means(np.concatenate([centred, products], axis=1))
    shift, squares = moments[:, : table.shape[1]], moments[:, table.shape[1] :]
    step = _STEP * table.std(axis=0)
    variance = _jackknife(statistic, means, products.mean(axis=0, keepdims=True), step) / n
    resampled = _jackknife(statistic, means + shift, squares - shift[:, first] * shift[:, second], step) / n
    t = _studentised(statistic(means + shift) - value, resampled, n * variance)
    low, high = (end[0] for end in _studentised_ends(value, np.sqrt(variance), t[:, None]))
    if np.isinf(low) or np.isinf(high) or variance[0] <= _NOTHING * value[0] ** 2:
        low, high = _range_over_corners(table, statistic, ranges)
    return _clipped(float(value[0]), float(low), float(high), n, bounds or UNBOUNDED)


def _jackknife(statistic: Statistic, means: Array, covariance: Array, step: Array) -> Array:
    """g' S g [r] of a statistic at column means [r, k], from the upper triangle of S [r, k (k + 1) / 2]."""
    k = means.shape[1]
    gradient = np.zeros_like(means)
    for column in np.flatnonzero(step > 0):
        aside = np.zeros(k)
        aside[column] = step[column]
        gradient[:, column] = (statistic(means + aside) - statistic(means - aside)) / (2 * step[column])
    first, second = np.triu_indices(k)
    twice = np.where(first == second, 1.0, 2.0)
    variance: Array = np.maximum((twice * gradient[:, first] * gradient[:, second] * covariance).sum(axis=1), 0.0)
    return variance


def _range_over_corners(table: Array, statistic: Statistic, ranges: Sequence[Range] | None) -> tuple[float, float]:
    """Least and largest value of the statistic over the corners of the box of its columns' exact bounds."""
    if ranges is None:
        return -np.inf, np.inf
    ends = [exact_bounds(column, low, high) for column, (low, high) in zip(table.T, ranges, strict=True)]
    at_corners = statistic(np.array(list(product(*ends))))
    return float(at_corners.min()), float(at_corners.max())
