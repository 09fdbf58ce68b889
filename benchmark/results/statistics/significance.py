"""p-values of paired differences by flipping signs, Holm's correction, and how many examples can decide at all.

Under the null hypothesis that two methods are exchangeable on every example, the difference d_e of an example is as
likely as −d_e. So each of the 2^n ways to flip signs is as likely as the one observed, and

    p = share of flips s with |Σ_e s_e d_e| ≥ |Σ_e d_e|

is a valid p-value whatever the distribution, for any n (Fisher 1935, section 21; Hemerik & Goeman 2018 for the sampled
flips). A studentised statistic gives the same p: Σ d² is the same under every flip, so that |t| grows with |Σ s d|.
Differences that are centred on 0 but skewed are not exchangeable with their negatives; for them p is right in large
samples only (`docs/statistics.md` has how far off it is), and `skewness.py` says where no verdict is drawn from it.

A large family needs many flips, 100 for every hypothesis. A hypothesis against which more than a hundred of the first 9,999
flips are as large as the observed one keeps its p-value from these: of h such flips among l, p = h / l is valid whether one
stops where h is reached or goes on (Besag & Clifford 1991). All flips are counted for the others, and for all hypotheses of
families of at most 100.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmark.results.statistics.proportions import Array

Name = TypeVar("Name", bound=Hashable)

ALPHA = 0.05
EXACT = 14  # examples up to which all flips are taken: 2^13, as flipping every sign changes no magnitude
_LEAST_FLIPS = 9_999
_FLIPS_PER_HYPOTHESIS = 100  # so that four flips as large as the observed one still leave a verdict after Holm
_FIRST = _LEAST_FLIPS + 1  # after so many, the observed one among them, it is seen which pairs are done
_DONE = 101  # flips as large as the observed one, which is among them, beyond which a pair is done
_CELLS = 2_000_000  # of the sign matrix held at once: 16 MB
_BLOCKS = (10_000, 1_000, 100, 10, 1)  # flips that are held at once; each divides `_FIRST`
_CACHED, _SCREENED = 65_536, 131_072  # differences that are compared at once, in 64 and in 8 bits
_STEPS = 63  # of a sum in 8 bits, so that a difference of two fits too
_ROOM = 1.25  # for sums that are larger than those of the first flips
_COARSE = 8  # steps; where the observed difference has fewer, 8 bits tell hardly any flip apart from it
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
        flips: random flips, which all pairs share, by default enough for Holm's correction over the P pairs. A pair of which
            more than a hundred of the first 9,999 are as large as the observed one is done with these.

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
    signs = _signs(n, len(pairs), flips_for(len(pairs)) if flips is None else flips)
    if np.isfinite(table).all():
        table = table - table.mean(axis=1, keepdims=True)  # what all columns share is no part of a difference
    found = _p_values((table.T @ drawn.T for drawn in signs), table.shape[1], _Pairs(first, second, observed))
    return np.where(np.isnan(observed), np.nan, found)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of columns of the sums, and the difference that a flip has to reach, each [P]."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    observed: Array

    def __getitem__(self, kept: NDArray[np.bool_]) -> "_Pairs":
        return _Pairs(self.first[kept], self.second[kept], self.observed[kept])

    def parts(self, size: int) -> list[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        """A column, at most `size` others to which it is compared, and the places of these pairs; in turn all pairs."""
        one, other = self.first, self.second
        if len(np.unique(one)) > len(np.unique(other)):
            one, other = other, one
        order = np.argsort(one, kind="stable")
        runs = np.split(order, np.flatnonzero(np.diff(one[order])) + 1)
        cut = [run[start : start + size] for run in runs for start in range(0, len(run), size)]
        return [(int(one[places[0]]), other[places], places) for places in cut]


def _p_values(sums: Iterator[Array], columns: int, pairs: _Pairs) -> Array:
    """Share of flips whose sums [m, r], which come in parts, differ by at least the observed difference, for each pair."""
    larger, total = np.zeros(len(pairs.first), dtype=np.int64), np.zeros(len(pairs.first), dtype=np.int64)
    left, seen = np.ones(len(larger), dtype=bool), 0
    count: Callable[[Array], NDArray[np.int64]] = partial(_larger, pairs=pairs)
    for block in _regrouped(sums, next(size for size in _BLOCKS if size * columns <= _CELLS or size == 1)):
        larger[left] += count(block)
        total[left] += block.shape[1]
        seen += block.shape[1]
        if seen == _FIRST:
            left = larger <= _DONE
            if not left.any():
                break
            count = _Screened(pairs[left], block[:, 1:])  # the observed sums are larger where methods differ
    return np.asarray(larger / total, dtype=np.float64)


def _regrouped(parts: Iterator[Array], size: int) -> Iterator[Array]:
    """The columns of all parts [m, r], `size` at a time; the last ones may be fewer."""
    held: list[Array] = []
    count = 0
    for part in parts:
        held.append(part)
        count += part.shape[1]
        if count >= size:
            joined = np.concatenate(held, axis=1) if len(held) > 1 else part
            whole = count // size * size
            yield from (joined[:, start : start + size] for start in range(0, whole, size))
            held, count = [joined[:, whole:]], count - whole
    if count:
        yield np.concatenate(held, axis=1)


def _larger(sums: Array, pairs: _Pairs) -> NDArray[np.int64]:
    """How many flips of the sums [m, r] differ by at least the observed difference, for each pair."""
    larger = np.zeros(len(pairs.first), dtype=np.int64)
    for one, others, places in pairs.parts(max(1, _CACHED // sums.shape[1])):
        moved = sums[others] - sums[one]
        np.abs(moved, out=moved)
        larger[places] = (moved >= pairs.observed[places, None]).sum(axis=1)
    return larger


class _Screened:
    """`_larger` of pairs that few flips reach: those that do not by their sums in 8 bits are not looked at again.

    In steps of 1 / scale, to which sums are rounded, a difference of two sums is off by one step at most.
    """

    def __init__(self, pairs: _Pairs, like: Array) -> None:
        """Pairs, and sums [m, r] of other flips, from which the size of a step is taken."""
        self._scale = _STEPS / max(_ROOM * float(np.abs(like).max(initial=0.0)), float(np.finfo(np.float64).tiny))
        least = np.ceil(pairs.observed * self._scale - 1.001)
        self._all, self._coarse = pairs, ~(least >= _COARSE)
        self._reachable = (least >= _COARSE) & (least <= 2 * _STEPS)
        self._fine = pairs[self._reachable]
        steps = least[self._reachable].astype(np.int8)[:, None]
        self._parts = [(*part, steps[part[2]]) for part in self._fine.parts(max(1, _SCREENED // like.shape[1]))]

    def __call__(self, sums: Array) -> NDArray[np.int64]:
        if not max(float(sums.max()), -float(sums.min())) * self._scale <= _STEPS:
            return _larger(sums, self._all)
        steps = np.rint(sums * self._scale).astype(np.int8)
        fine = np.zeros(len(self._fine.first), dtype=np.int64)
        for one, others, places, at_least in self._parts:
            moved = steps[others]
            moved -= steps[one]
            np.abs(moved, out=moved)
            near = (moved >= at_least).ravel().nonzero()[0]
            if len(near):
                row, flip = np.divmod(near, sums.shape[1])
                reached = np.abs(sums[others[row], flip] - sums[one, flip]) >= self._fine.observed[places[row]]
                fine[places] = np.bincount(row[reached], minlength=len(places))
        larger = np.zeros(len(self._all.first), dtype=np.int64)
        larger[self._reachable] = fine
        if self._coarse.any():
            larger[self._coarse] = _larger(sums, self._all[self._coarse])
        return larger


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
