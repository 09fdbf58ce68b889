"""Bootstrap intervals over examples (numpy only).

Everywhere the resampled unit is the example: one row of `values` belongs to one example, and a resample draws n
examples with replacement. The percentile interval at level γ is [q_{(1-γ)/2}, q_{(1+γ)/2}] of the resampled statistics
(Efron & Tibshirani 1993, chapter 13).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""Maps column means [r, k] of r resamples to the statistic [r]."""

_CELLS = 4_000_000  # of the weight matrix held at once: 32 MB


@dataclass(frozen=True)
class Interval:
    """A statistic with its percentile bootstrap interval over n examples; low = high = NaN where n < 2."""

    value: float
    low: float
    high: float
    n: int


def _resampled_means(values: Array, seed: int, resamples: int) -> Iterator[Array]:
    """Column means of bootstrap resamples in chunks [r, k]; they depend on the seed, n and `resamples` only."""
    n = len(values)
    generator = np.random.default_rng(seed)
    chunk = max(1, min(resamples, _CELLS // n))
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        drawn = generator.integers(0, n, size=(rows, n))
        drawn += np.arange(rows)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        yield counts.astype(np.float64) @ values / n


def _quantiles(replicates: Array, level: float) -> Array:
    """Lower and upper percentile [2, ...] of the replicates [r, ...]."""
    tail = (1 - level) / 2
    return np.quantile(replicates, [tail, 1 - tail], axis=0)


def intervals(values: ArrayLike, *, seed: int = 0, resamples: int = 1000, level: float = 0.95) -> list[Interval]:
    """Mean and bootstrap interval of every column of `values` [n, k]; the columns share their resamples.

    Column j of the answer equals `interval(values[:, j], seed=seed, ...)` up to rounding. NaN in a column makes its
    interval NaN.
    """
    table = np.asarray(values, dtype=np.float64)
    n = len(table)
    if n == 0:
        return [Interval(float("nan"), float("nan"), float("nan"), 0) for _ in range(table.shape[1])]
    means = table.mean(axis=0)
    bounds = np.full((2, table.shape[1]), np.nan)
    if n > 1:
        bounds = _quantiles(np.concatenate(list(_resampled_means(table, seed, resamples))), level)
    return [Interval(float(m), float(low), float(high), n) for m, low, high in zip(means, *bounds, strict=True)]


def interval(
    values: ArrayLike,
    statistic: Statistic | None = None,
    *,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """A statistic of the column means of `values` and its percentile bootstrap interval.

    Args:
        values: [n] or [n, k], one row per example.
        statistic: maps column means [r, k] to the statistic [r], so that ratios of sums (micro-averaged F1) are
            bootstrapped by resampling examples. Default: the mean of the one column.
        seed: of the resampling; equal seeds give equal intervals.
        resamples: bootstrap resamples.
        level: coverage, between 0 and 1.

    Returns:
        The statistic of the sample itself (not the mean of the resamples), its interval and n; value NaN where n = 0,
        low and high NaN where n < 2. NaN in `values` makes the result NaN.

    Raises:
        ValueError: `values` has several columns and there is no `statistic`.
    """
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if statistic is None:
        if table.shape[1] != 1:
            raise ValueError(f"values of shape {table.shape} need a statistic")
        return intervals(table, seed=seed, resamples=resamples, level=level)[0]
    n = len(table)
    if n == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    value = float(statistic(table.mean(axis=0, keepdims=True))[0])
    if n < 2:
        return Interval(value, float("nan"), float("nan"), n)
    replicates = np.concatenate([statistic(means) for means in _resampled_means(table, seed, resamples)])
    low, high = _quantiles(replicates, level)
    return Interval(value, float(low), float(high), n)


def paired_difference(
    a: ArrayLike, b: ArrayLike, *, seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> Interval:
    """Mean of a − b over the same examples and its bootstrap interval (examples are resampled as pairs).

    Args:
        a: [n], one value per example.
        b: [n], the values of the same examples in the same order.
        seed: of the resampling.
        resamples: bootstrap resamples.
        level: coverage.

    Raises:
        ValueError: `a` and `b` differ in shape.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"paired values differ in shape: {first.shape} and {second.shape}")
    return interval(first - second, seed=seed, resamples=resamples, level=level)
