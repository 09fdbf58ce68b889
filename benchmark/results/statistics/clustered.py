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
        return Interval(found.value, found.low, found.high, len(values))
    means = interval(sums / sizes, bounds=bounds)
    return Interval(found.value, min(means.low, found.value), max(means.high, found.value), len(values))


def clustered_difference(
    values: Float[NDArray[np.float64], " N"],
    first: NDArray[np.bool_],
    clusters: Shaped[NDArray, " N"],
    *,
    bounds: Range | None = None,
) -> Interval:
    """The mean of the values that are `first` less the mean of the others, with an interval likewise; NaN without either."""
    parts = [part for kind in (first, ~first) for part in _summed(values, clusters, kind)]
    found = interval(np.stack(parts, axis=1), _difference, bounds=bounds)
    return Interval(found.value, found.low, found.high, len(values))


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
