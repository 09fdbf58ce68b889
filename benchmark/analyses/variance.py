"""Which of two crossed factors matters: shares of variance in a balanced layout with examples as blocks."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.results.statistics import Interval, Range, resampled_means, spread_interval

OF_MEANS = ("first", "second", "interaction")
SOURCES = (*OF_MEANS, "examples", "residual")


@dataclass(frozen=True)
class Decomposition:
    """Shares of variance with their bootstrap intervals over examples.

    Attributes:
        of_all: share of each of `SOURCES` in all variance; they sum to 1.
        of_means: share of each of `OF_MEANS` in the variance of the means of the combinations; they sum to 1.
        difference: `of_means["first"] − of_means["second"]`.
    """

    of_all: Mapping[str, Interval]
    of_means: Mapping[str, Interval]
    difference: Interval


def components(means: Float[NDArray, "R K"], shape: tuple[int, int]) -> Float[NDArray, "R 5"]:
    """Variance components in the order of `SOURCES`, each its sum of squares divided by the number of values.

    Args:
        means: over examples, of the E·F combinations, of an example's squared mean over combinations, and of its mean
            square over combinations (`columns`); R resamples.
        shape: levels of the first and of the second factor.
    """
    cells = means[:, :-2].reshape(-1, *shape)
    grand = cells.mean((1, 2), keepdims=True)
    first, second = cells.mean(2, keepdims=True) - grand, cells.mean(1, keepdims=True) - grand
    mixed = cells - grand - first - second
    of_means = [(part**2).mean((1, 2)) for part in (first, second, mixed)]
    square = grand[:, 0, 0] ** 2
    examples, total = means[:, -2] - square, means[:, -1] - square
    return np.stack([*of_means, examples, total - sum(of_means) - examples], axis=1)


def columns(values: Float[NDArray, "N E F"]) -> Float[NDArray, "N K"]:
    """What `components` takes the means of; centred, which changes no component and keeps digits."""
    centred = (values - values.mean()).reshape(len(values), -1)
    return np.column_stack([centred, centred.mean(1) ** 2, (centred**2).mean(1)])


def decompose(values: Float[NDArray, "N E F"], *, seed: int = 0, resamples: int = 1000) -> Decomposition:
    """Shares η² of the sums of squares of `y[i, e, f]`: example i, level e of the first and f of the second factor.

    With ȳ the means over the indices that are dots, the balanced two-way layout of which every example is a block:

        SS_first = N·F Σ_e (ȳ_e − ȳ)²         SS_interaction = N Σ_ef (ȳ_ef − ȳ_e − ȳ_f + ȳ)²
        SS_second = N·E Σ_f (ȳ_f − ȳ)²        SS_examples = E·F Σ_i (ȳ_i − ȳ)²
        SS_total = Σ_ief (y_ief − ȳ)²         SS_residual = SS_total − the four others (combination × example)

    `of_all`: η² = SS / SS_total. `of_means`: SS / (SS_first + SS_second + SS_interaction), the variance of the E·F means
    over examples. Shares describe these levels and examples and are not corrected for chance: with few examples the
    noise of the means adds to the interaction most of all. NaN where there is no variance.

    The intervals (`spread_interval`) are over examples, whose E·F values are resampled together, and hold the shares of n
    examples.

    Source: Fisher 1925, chapter VII; Montgomery 2013, sections 5.3 and 5.6 (two factors, blocking in a factorial
    design).
    """
    table, shape = columns(values), (values.shape[1], values.shape[2])
    estimate = components(table.mean(0, keepdims=True), shape)
    resampled = components(resampled_means(table, seed, resamples), shape)
    of_all, of_means = (
        np.concatenate([_shares(estimate[:, :k]), _shares(resampled[:, :k])]) for k in (len(SOURCES), len(OF_MEANS))
    )

    def measured(shares: NDArray, bounds: Range = (0.0, 1.0)) -> Interval:
        return spread_interval(float(shares[0]), shares[1:], len(values), bounds)

    return Decomposition(
        of_all={name: measured(of_all[:, place]) for place, name in enumerate(SOURCES)},
        of_means={name: measured(of_means[:, place]) for place, name in enumerate(OF_MEANS)},
        difference=measured(of_means[:, 0] - of_means[:, 1], (-1.0, 1.0)),
    )


def _shares(parts: Float[NDArray, "R K"]) -> Float[NDArray, "R K"]:
    total = parts.sum(1, keepdims=True)
    answer: NDArray = np.divide(parts, total, out=np.full_like(parts, np.nan), where=total > 1e-24)
    return answer
