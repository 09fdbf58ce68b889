"""Statistics of column means that are no means of examples. They have names, so that a stored figure can say which it is."""

from collections.abc import Callable, Mapping

import numpy as np

from benchmark.results.statistics.proportions import Array


def ratio(means: Array) -> Array:
    """Mean of the first column over that of the second; NaN where that is 0."""
    under = means[..., 1]
    quotients: Array = np.where(under != 0, means[..., 0] / np.where(under != 0, under, 1.0), np.nan)
    return quotients


def mean_of_ratios(means: Array) -> Array:
    """Mean of the ratios of the first half of the columns to the second."""
    over, under = np.split(means, 2, axis=-1)
    mean: Array = ratio(np.stack([over, under], axis=-1)).mean(axis=-1)
    return mean


def absolute_ratio(means: Array) -> Array:
    """Sum of the magnitudes of the means of all columns but the last over that of the last; NaN where that is 0."""
    return ratio(np.stack([np.abs(means[..., :-1]).sum(-1), np.abs(means[..., -1])], axis=-1))


def f1_of_sums(means: Array) -> Array:
    """2 · matched / (selected + gold), from means of [matched, selected, gold]; 0 where there is nothing to match."""
    total = means[..., 1] + means[..., 2]
    f1: Array = np.where(total > 0, 2 * means[..., 0] / np.where(total > 0, total, 1.0), 0.0)
    return f1


def f1_of_means(means: Array) -> Array:
    """Harmonic mean of mean precision and mean recall; 0 where both are 0."""
    total = means[..., 0] + means[..., 1]
    f1: Array = np.where(total > 0, 2 * means[..., 0] * means[..., 1] / np.where(total > 0, total, 1.0), 0.0)
    return f1


def f1_of_ratios(means: Array) -> Array:
    """The same where the means are ratios, from means of [precision sum, its count, recall sum, its count]."""
    parts = [np.nan_to_num(ratio(means[..., i : i + 2])) for i in (0, 2)]
    return f1_of_means(np.stack(parts, axis=-1))


RATIOS: Mapping[str, Callable[[Array], Array]] = {
    statistic.__name__: statistic
    for statistic in (ratio, mean_of_ratios, absolute_ratio, f1_of_sums, f1_of_means, f1_of_ratios)
}
"""The statistics that a report can compute again."""


def name_of(statistic: Callable[[Array], Array]) -> str | None:
    """The name under which `RATIOS` has a statistic, or None."""
    return next((name for name, candidate in RATIOS.items() if candidate is statistic), None)
