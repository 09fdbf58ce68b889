"""Correlations of head importance without the noise of the examples that it is computed from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.randomness import generator
from benchmark.results.statistics import Interval, plain_spread_interval
from benchmark.results.statistics.bootstrap import UNBOUNDED

SPLITS = 20
"""How many times the examples are halved for the reliability of the importance itself."""

RESAMPLES = 200

Importance = Callable[[NDArray[np.int64]], Float[NDArray[np.float64], " K"]]
"""The importance of K heads from the examples of these numbers."""

Values = Float[NDArray[np.float64], " R"]


@dataclass(frozen=True)
class Measured:
    """The importance of heads in a task, first from all examples, then from each resample of them.

    Attributes:
        importance: of each head [R, K].
        reliability: `ρ = 2r / (1 + r)`, r the correlation of importances from two halves of the examples, a mean over
            halvings; of a resample that of its two halves. 0 where r is not positive.
        n: number of examples.
    """

    importance: Float[NDArray[np.float64], "R K"]
    reliability: Values
    n: int


def measure(importance: Importance, n: int, seed: int, name: str) -> Measured:
    """The importance from n examples and from resamples, whose halves are drawn from two halves of the examples.

    An example that stood in both halves would make them alike whatever the noise is.

    Args:
        importance: of the heads.
        n: number of examples; of fewer than four nothing is known of reliability.
        seed, name: of the halves and resamples; tasks differ in their names.

    Source: this project, with the Spearman-Brown formula; docs/statistics.md tables how often the intervals hold.
    """
    draw = generator(seed, "reliability", name)
    every = importance(np.arange(n))
    if n < 4:
        return Measured(every[None], np.full(1, np.nan), n)
    within = [_pearson(*map(importance, _halves(draw, n))) for _ in range(SPLITS)]
    found, reliabilities = [every], [_stepped_up(float(np.mean(within)))]
    for _ in range(RESAMPLES):
        rows = [draw.choice(half, size=len(half)) for half in _halves(draw, n)]
        found.append(importance(np.concatenate(rows)))
        reliabilities.append(_stepped_up(_pearson(*map(importance, rows))))
    return Measured(np.stack(found), np.array(reliabilities), n)


def correlations(first: Measured, second: Measured, *, corrected: bool) -> Values:
    """Pearson's r of two importances, of all examples and of each resample; `corrected` for noise `r / √(ρ₁ ρ₂)`.

    The latter estimates what r tends to as examples grow; it may exceed 1, and is NaN where a ρ is not positive.
    """
    r = np.array([_pearson(a, b) for a, b in zip(first.importance, second.importance, strict=True)])
    if not corrected:
        return r
    product = first.reliability * second.reliability
    return np.where(product > 0, r / np.sqrt(np.where(product > 0, product, 1.0)), np.nan)


def spread(values: Values, n: int, bounds: tuple[float, float] = UNBOUNDED) -> Interval:
    """The interval of values [θ, θ*...]."""
    return plain_spread_interval(float(values[0]), values[1:], n, bounds)


@dataclass(frozen=True)
class Grouped:
    """Mean correlations of the pairs that one grouping of tasks makes.

    Attributes:
        same, other: means over the pairs of tasks that are alike, and over those that they are compared with.
        difference: of the two.
        pairs: how many pairs there are of either kind.
    """

    same: Interval
    other: Interval
    difference: Interval
    pairs: tuple[int, int]


def grouped(
    measured: Mapping[str, Measured], alike: Callable[[str, str], bool | None], *, corrected: bool
) -> Grouped | None:
    """Mean correlations of pairs that are alike and of those that are not; examples are resampled for all pairs at once.

    Args:
        measured: by task.
        alike: whether two tasks are; None leaves the pair out.
        corrected: for noise.

    Returns:
        None without pairs of either kind. n of its intervals is the smallest number of examples.
    """
    kinds: dict[bool, list[Values]] = {True: [], False: []}
    for one, two in combinations(measured, 2):
        if (kind := alike(one, two)) is not None:
            kinds[kind].append(correlations(measured[one], measured[two], corrected=corrected))
    if not all(kinds.values()):
        return None
    same, other = (np.mean(kinds[kind], axis=0) for kind in (True, False))
    n = min(one.n for one in measured.values())
    pairs = len(kinds[True]), len(kinds[False])
    return Grouped(spread(same, n), spread(other, n), spread(same - other, n), pairs)


def _halves(draw: np.random.Generator, n: int) -> Sequence[NDArray[np.int64]]:
    """Two halves; of an odd number one example is left out."""
    order, half = draw.permutation(n), n // 2
    return order[:half], order[half : 2 * half]


def _stepped_up(r: float) -> float:
    """The correlation between two importances from all examples, from that between halves."""
    return 2 * r / (1 + r) if r > 0 else 0.0


def _pearson(a: Float[NDArray, " K"], b: Float[NDArray, " K"]) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / scale) if scale > 0 else float("nan")
