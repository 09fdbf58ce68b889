"""Statistics of column means that are no means of examples, by name, so that a stored figure can say which one it is."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def ratio(means: Array) -> Array:
    """Mean of the first column over that of the second."""
    found: Array = means[..., 0] / means[..., 1]
    return found


def f1_of_sums(means: Array) -> Array:
    """2 · matched / (selected + gold), from means of [matched, selected, gold]."""
    found: Array = 2 * means[..., 0] / (means[..., 1] + means[..., 2])
    return found


def f1_of_means(means: Array) -> Array:
    """Harmonic mean of mean precision and mean recall; 0 where both are 0."""
    total = means[..., 0] + means[..., 1]
    found: Array = np.where(total > 0, 2 * means[..., 0] * means[..., 1] / np.where(total > 0, total, 1.0), 0.0)
    return found


RATIOS: Mapping[str, Callable[[Array], Array]] = {one.__name__: one for one in (ratio, f1_of_sums, f1_of_means)}
"""The statistics that a report can compute again."""


def name_of(statistic: Callable[[Array], Array]) -> str | None:
    """The name under which `RATIOS` has a statistic, or None."""
    return next((name for name, known in RATIOS.items() if known is statistic), None)
