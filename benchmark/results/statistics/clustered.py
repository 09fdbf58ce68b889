"""Intervals of means over values that come in clusters: questions about one passage are not independent."""

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike, NDArray

from benchmark.results.statistics.bootstrap import Interval, Range, interval
from benchmark.results.statistics.proportions import Array
from benchmark.results.statistics.ratios import ratio


def clustered_interval(
    values: Float[NDArray[np.float64], " N"], clusters: Shaped[NDArray, " N"], *, bounds: Range | None = None
) -> Interval:
    """The mean of all values, `Σ_c s_c / Σ_c n_c`, and its interval, for which clusters are drawn and not values.

    Args:
        values: without NaN.
        clusters: equal for values that belong together.
        bounds: least and largest possible value.

    Returns:
        Of clusters of one value each `interval(values)`. Else the studentised interval of the ratio of mean sum to mean
        size; where too many resamples do not vary, the ends of the interval of the clusters' means, widened to hold the
        value. n counts values.

    Source: this project; docs/statistics.md tables how often it holds.
    """
    sums, sizes = _summed(values, clusters)
    if (sizes == 1).all():
        return interval(values, bounds=bounds)
    found = interval(np.stack([sums, sizes], axis=1), ratio, bounds=bounds)
    if np.isfinite(found.low):
        return Interval(found.value, found.low, found.high, len(values), found.reach)
    means = interval(sums / sizes, bounds=bounds)
    return Interval(found.value, min(means.low, found.value), max(means.high, found.value), len(values), found.reach)


def clustered_difference(
    values: Float[NDArray[np.float64], " N"],
    first: NDArray[np.bool_],
    clusters: Shaped[NDArray, " N"],
    *,
    bounds: Range | None = None,
) -> Interval:
    """The mean of the values that are `first` less the mean of the others, clusters drawn as in `clustered_interval`.

    Args:
        values, clusters: likewise.
        first: the kind of each value; a cluster may have both.
        bounds: least and largest possible value of a mean.

    Returns:
        The studentised interval; where too many resamples do not vary or lack a kind, from those of the two means d = a − b,
        `[d − √((a − a₋)² + (b₊ − b)²), d + √((a₊ − a)² + (b − b₋)²)]`. NaN without values of either kind.

    Source: this project, after Newcombe's score interval of a difference; docs/statistics.md tables how often it holds.
    """
    parts = [part for kind in (first, ~first) for part in _summed(values, clusters, kind)]
    low, high = (-np.inf, np.inf) if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    found = interval(np.stack(parts, axis=1), _difference, bounds=(low, high))
    ends = found.low, found.high
    if np.isnan(ends).any() and first.any() and not first.all():
        a, b = (clustered_interval(values[kind], clusters[kind], bounds=bounds) for kind in (first, ~first))
        below, above = np.hypot(a.value - a.low, b.high - b.value), np.hypot(a.high - a.value, b.value - b.low)
        ends = max(found.value - below, low), min(found.value + above, high)
    return Interval(found.value, float(ends[0]), float(ends[1]), len(values), (low, high))


def _difference(means: Array) -> Array:
    return ratio(means[..., :2]) - ratio(means[..., 2:])


def _summed(
    values: ArrayLike, clusters: Shaped[NDArray, " N"], kept: NDArray[np.bool_] | None = None
) -> tuple[Array, Array]:
    """Of each cluster the sum of the values that are kept, and their number."""
    kept = np.ones(len(clusters), bool) if kept is None else kept
    names, numbers = np.unique(clusters, return_inverse=True)
    sums = np.bincount(numbers, weights=np.where(kept, values, 0.0), minlength=len(names))
    return sums.astype(float), np.bincount(numbers, weights=kept, minlength=len(names)).astype(float)
