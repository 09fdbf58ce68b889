"""p-values of paired differences by flipping signs, Holm's correction, and how many examples can decide at all.

Under the null hypothesis that two methods are exchangeable on every example, the difference d_e of an example is as
likely as −d_e. So each of the 2^n ways to flip signs is as likely as the one observed, and

    p = share of flips s with |Σ_e s_e d_e| ≥ |Σ_e d_e|

is a valid p-value whatever the distribution, for any n (Fisher 1935, section 21; Hemerik & Goeman 2018 for the sampled
flips). A studentised statistic gives the same p: Σ d² is the same under every flip, so that |t| grows with |Σ s d|.
Differences that are centred on 0 but skewed are not exchangeable with their negatives; for them p is right in large
samples only (`docs/statistics.md` has how far off it is).
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from benchmark.results.statistics.proportions import Array

Name = TypeVar("Name", bound=Hashable)

ALPHA = 0.05
EXACT = 14  # examples up to which all flips are taken: 2^13, as flipping every sign changes no magnitude
_LEAST_FLIPS = 9_999
_FLIPS_PER_HYPOTHESIS = 100  # so that four flips as large as the observed one still leave a verdict after Holm
_CELLS = 2_000_000  # of the sign matrix held at once: 16 MB
_TOLERANCE = 1e-10  # of the sum of magnitudes: equal sums count as equal whatever the order in which they were added


def least_examples(family: int) -> int:
    """The least n at which n equal signs are significant among `family` hypotheses: 2^(1−n) · family ≤ α."""
    n = 1
    while 2.0 ** (1 - n) * family > ALPHA:
        n += 1
    return n


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Holm's step-down adjustment: p̃_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j)) over m hypotheses (Holm 1979)."""
    adjusted: dict[Name, float] = {}
    largest = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = largest
    return adjusted


def flips_for(family: int) -> int:
    """How many random flips a family of hypotheses needs, so that Holm's smallest level α / family can be resolved."""
    return max(_LEAST_FLIPS, _FLIPS_PER_HYPOTHESIS * family - 1)


def _signs(n: int, width: int, flips: int) -> Iterator[Array]:
    """Rows of signs [r, n], the identity first: all of them up to `EXACT`, else the identity and `flips` random ones."""
    chunk = max(1, _CELLS // max(n, width))
    if n <= EXACT:
        flipped = np.arange(2 ** max(n - 1, 0))[:, None] >> np.arange(n) & 1
        for start in range(0, len(flipped), chunk):
            yield np.asarray(1 - 2 * flipped[start : start + chunk], dtype=np.float64)
        return
    yield np.ones((1, n))
    generator = np.random.default_rng(0)
    for start in range(0, flips, chunk):
        rows = min(chunk, flips - start)
        drawn = np.frombuffer(generator.bytes(rows * -(-n // 8)), dtype=np.uint8).reshape(rows, -1)
        yield 1 - 2 * np.unpackbits(drawn, axis=1, count=n).astype(np.float64)


def pair_p(values: ArrayLike, pairs: Sequence[tuple[int, int]], *, flips: int | None = None) -> Array:
    """Two-sided p-value of no difference for pairs of columns, by sign flips of their differences.

    Args:
        values: [n, m], one row per example, one column per method.
        pairs: P pairs (i, j) of columns.
        flips: random flips, which all pairs share, by default enough for Holm's correction over the P pairs.

    Returns:
        [P]: 1 where all differences are 0, NaN where a value is NaN or n = 0; never below 2^(1−n) or 1 / (flips + 1).
    """
    table = np.asarray(values, dtype=np.float64)
    first, second = (np.array([pair[side] for pair in pairs], dtype=np.intp) for side in (0, 1))
    n = len(table)
    if n == 0 or not len(pairs):
        return np.full(len(pairs), np.nan)
    magnitude = np.abs(table).sum(axis=0)
    slack = _TOLERANCE * (magnitude[first] + magnitude[second])
    observed = np.abs((table[:, first] - table[:, second]).sum(axis=0)) - slack
    larger, total = np.zeros(len(pairs), dtype=np.int64), 0
    for signs in _signs(n, len(pairs), flips_for(len(pairs)) if flips is None else flips):
        sums = signs @ table
        larger += (np.abs(sums[:, first] - sums[:, second]) >= observed).sum(axis=0)
        total += len(signs)
    return np.where(np.isnan(observed), np.nan, larger / total)


def sign_flip_p(differences: ArrayLike, *, flips: int | None = None) -> Array:
    """Two-sided p-value of mean difference 0 for every column of `differences` [n, k], see `pair_p`."""
    table = np.asarray(differences, dtype=np.float64)
    k = table.shape[1]
    padded = np.column_stack([table, np.zeros(len(table))])
    return pair_p(padded, [(column, k) for column in range(k)], flips=flips)


def swap_p(
    values: ArrayLike,
    pairs: Sequence[tuple[int, int]],
    statistic: Callable[[Array], Array],
    *,
    flips: int | None = None,
) -> Array:
    """Two-sided p-value of no difference between a statistic of two methods, by swapping them on single examples.

    With ā and b̄ the column means after the swaps, T = statistic(ā) − statistic(b̄); p is the share of swaps at which
    |T| is at least the observed one. Ratios of sums have no value per example, but are exchangeable like this. The p-value
    is exact where the two methods' rows are exchangeable on every example. Where only the statistics are equal (one method
    precise, the other complete), it is right as far as the statistic is linear between the two (`docs/statistics.md`).

    Args:
        values: [n, m, k], k columns for each of n examples and m methods.
        pairs: P pairs (i, j) of methods.
        statistic: from column means [r, k] to the statistic [r].
        flips: random swaps, which all pairs share, by default enough for Holm's correction over the P pairs.

    Returns:
        [P], as `pair_p`.
    """
    table = np.asarray(values, dtype=np.float64)
    n, m, k = table.shape
    first, second = (np.array([pair[side] for pair in pairs], dtype=np.intp) for side in (0, 1))
    if n == 0 or not len(pairs):
        return np.full(len(pairs), np.nan)
    means = table.mean(axis=0)
    middle = (means[first] + means[second]) / 2

    def swapped(signs: Array) -> tuple[Array, Array]:
        """The statistic of the first and of the second method of each pair [r, P]."""
        sums = (signs @ table.reshape(n, m * k)).reshape(len(signs), m, k)
        moved = (sums[:, first] - sums[:, second]) / (2 * n)
        left, right = (statistic((middle + side * moved).reshape(-1, k)).reshape(moved.shape[:2]) for side in (1, -1))
        return left, right

    left, right = swapped(np.ones((1, n)))
    observed = (np.abs(left - right) - _TOLERANCE * (np.abs(left) + np.abs(right)))[0]
    larger, total = np.zeros(len(pairs), dtype=np.int64), 0
    for signs in _signs(n, len(pairs) * k, flips_for(len(pairs)) if flips is None else flips):
        left, right = swapped(signs)
        larger += (np.abs(left - right) >= observed).sum(axis=0)
        total += len(signs)
    return np.where(np.isnan(observed), np.nan, larger / total)
