"""What is asked of a test, as functions of its figures V [N M] (more is better): pure numpy (docs/protocols.md, section 14).

Notation: N examples, M methods, P pairs of methods, R resamples of the examples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import scipy
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage

from benchmark.analyses.reliability import measure
from benchmark.randomness import generator
from benchmark.results.statistics import ALPHA, Interval, interval, plain_spread_interval

Figures = Float[NDArray[np.float64], "N M"]
OfExamples = Float[NDArray[np.float64], " N"]
OfResamples = Float[NDArray[np.float64], " R"]

SHARE, CORRELATION = (0.0, 1.0), (-1.0, 1.0)

NEVER = 1e5
"""So many examples are said to be none: the difference is not one that more examples would show."""

_POWER, _RELIABLE = 0.8, 0.9
_RESAMPLES = 200
_OF_NONE = 3  # the 95 % upper limit of a number of which none was seen
_EQUAL = 1e-9
_ROUNDING = 1e-12  # of the variance of all figures


def separation(better: OfExamples, worse: OfExamples) -> Interval:
    """Diagnosticity `D = mean_i ([a_i > b_i] + ½ [a_i = b_i])`: how often a test prefers the better of two explanations.

    ½ where it cannot tell them apart. Examples without a figure of either are left out.

    Source: Chan et al. 2022, with ties as halves.
    """
    known = ~(np.isnan(better) | np.isnan(worse))
    difference = better[known] - worse[known]
    wins = np.where(np.abs(difference) <= _EQUAL, 0.5, (difference > 0).astype(float))
    return interval(wins, bounds=SHARE)


@dataclass(frozen=True)
class Layout:
    """The two-way layout of examples and methods: `V_im = μ + a_i + b_m + e_im`.

    Attributes:
        of_methods: variance σ²_m of the b_m, 0 where its estimate is below.
        of_errors: variance σ²_e of the e_im.
        n: examples.
    """

    of_methods: float
    of_errors: float
    n: int

    @property
    def reliability(self) -> float:
        """`R = σ²_m / (σ²_m + σ²_e / n)`: the share of the variance of the methods' means that is not error; NaN where 0."""
        whole = self.of_methods + self.of_errors / self.n
        return self.of_methods / whole if whole > 0 else float("nan")

    @property
    def examples_for_reliable(self) -> float:
        """How many examples give R = .9: `9 σ²_e / σ²_m`; infinite where methods do not differ."""
        return _RELIABLE / (1 - _RELIABLE) * self.of_errors / self.of_methods if self.of_methods > 0 else float("inf")


def layout(values: Figures) -> Layout:
    """Its variances from mean squares."""
    n, m = values.shape
    of_methods, of_examples = values.mean(0), values.mean(1)
    residual = values - of_examples[:, None] - of_methods + values.mean()
    errors = float((residual**2).sum() / ((n - 1) * (m - 1))) if n > 1 and m > 1 else float("nan")
    methods = n * float(of_methods.var(ddof=1)) if m > 1 else float("nan")
    found = np.array([(methods - errors) / n, errors])
    of_methods, of_errors = np.where(found > _ROUNDING * values.var(), found, 0.0)
    return Layout(float(of_methods), float(of_errors), n)


def halves(values: Figures, seed: int, name: str) -> Interval:
    """Does one half of the examples order the methods as the other does? `ρ = 2r / (1 + r)`, r Spearman's correlation.

    r is that of the methods' means over two halves, a mean over 20 halvings; ρ, by Spearman and Brown, is what two samples
    of this size would have. 0 where r is not positive.
    """
    found = measure(lambda rows: scipy.stats.rankdata(values[rows].mean(0)), len(values), seed, name)
    return spread_of(found.reliability, found.n, SHARE)


def spread_of(values: OfResamples, n: int, bounds: tuple[float, float]) -> Interval:
    """The interval `θ ± t_{n−1} sd(θ*)` of values [θ, θ*...] within the bounds.

    Where no resample differs, the order being the same in all of them, at most 3 / R of the resamples would with a
    probability of .95, each by no more than what is possible: the interval is as wide as that.
    """
    value, resampled = float(values[0]), values[1:]
    found = plain_spread_interval(value, resampled, n, bounds)
    if np.isfinite(found.low) or not len(resampled) or not (np.abs(resampled - value) <= _EQUAL).all():
        return found
    reach = _OF_NONE / len(resampled) * (bounds[1] - bounds[0])
    return Interval(value, max(bounds[0], value - reach), min(bounds[1], value + reach), n, bounds)


def examples_needed(first: OfExamples, second: OfExamples, comparisons: int) -> float:
    """How many examples tell two methods apart with a power of .8: `((z_{1−α/2C} + z_.8) · sd(d) / mean(d))²`.

    d is the paired difference and C the number of comparisons that it is corrected for; infinite where the mean is 0.
    """
    difference = first - second
    mean, deviation = float(difference.mean()), float(difference.std(ddof=1))
    if abs(mean) <= _EQUAL:
        return float("inf")
    z = scipy.stats.norm.ppf(1 - ALPHA / comparisons / 2) + scipy.stats.norm.ppf(_POWER)
    return float(np.ceil((z * deviation / mean) ** 2))


def examples_to_rank(values: Figures) -> tuple[float, float]:
    """`examples_needed` for the best method against the second, and the median over methods that are neighbours in rank."""
    order = np.argsort(-values.mean(0), kind="stable")
    pairs = values.shape[1] * (values.shape[1] - 1) // 2
    needed = [examples_needed(values[:, a], values[:, b], pairs) for a, b in pairwise(order)]
    return needed[0], float(np.median(needed))


def order_agreement(first: Figures, second: Figures, seed: int, name: str) -> Interval:
    """Kendall's τ_b of the methods' means in two tests; examples are resampled, the same for both.

    The interval is `τ ± t_{n−1} sd(τ*)` within [−1, 1]: of few methods τ_b takes few values, and in Fisher's z the last of
    them lies at infinity.
    """
    return spread_of(_tau_b(*resampled_means([first, second], seed, name)), len(first), CORRELATION)


def resampled_means(tables: Sequence[Figures], seed: int, name: str) -> list[Float[NDArray[np.float64], "R M"]]:
    """The means over the examples and over 200 resamples of them, which are the same for all tables; the first is of all."""
    n, draw = len(tables[0]), generator(seed, "order agreement", name)
    counts = np.vstack([np.ones((1, n)), draw.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)])
    return [counts @ table / n for table in tables]


def _tau_b(first: Float[NDArray[np.float64], "R M"], second: Float[NDArray[np.float64], "R M"]) -> OfResamples:
    """Kendall's τ_b of every row of one table with the same row of the other; NaN where a row is constant."""
    signs = []
    for table in (first, second):
        difference = _differences(table)
        signs.append(np.where(np.abs(difference) <= _EQUAL, 0.0, np.sign(difference)))
    norm = np.sqrt((signs[0] ** 2).sum(1) * (signs[1] ** 2).sum(1))
    taus: OfResamples = np.divide((signs[0] * signs[1]).sum(1), norm, out=np.full(len(norm), np.nan), where=norm > 0)
    return taus


@dataclass(frozen=True)
class Join:
    """Two groups of tests that average linkage puts together.

    Attributes:
        members: numbers of the tests that are one group from here on, in order.
        tau: mean τ_b between the tests of the two groups.
        support: share of the resamples in which these tests are a group, too.
    """

    members: tuple[int, ...]
    tau: Interval
    support: float


def joins(tables: Sequence[Figures], seed: int) -> list[Join]:
    """The tree of tests by average linkage of `1 − τ_b` (methods' means), nearest first; at least two tests.

    A resample in which a test has no order counts as one without any group.
    """
    means, numbers = resampled_means(tables, seed, "tree"), list(combinations(range(len(tables)), 2))
    taus = np.stack([_tau_b(means[a], means[b]) for a, b in numbers], axis=1)
    if np.isnan(taus[0]).any():
        return []
    found, *others = ([] if np.isnan(row).any() else _groups(1 - row, len(tables)) for row in taus)
    groups = [{frozenset(first + second) for first, second in other} for other in others]
    told = []
    for first, second in found:
        between = [
            place
            for place, (a, b) in enumerate(numbers)
            if (a in first and b in second) or (a in second and b in first)
        ]
        tau = spread_of(taus[:, between].mean(1), len(tables[0]), CORRELATION)
        members = tuple(sorted(first + second))
        told.append(Join(members, tau, float(np.mean([frozenset(members) in other for other in groups]))))
    return told


_Members = tuple[int, ...]


def _groups(distances: Float[NDArray[np.float64], " P"], count: int) -> list[tuple[_Members, _Members]]:
    """The two groups that every join of a tree of `count` things puts together."""
    members: list[_Members] = [(number,) for number in range(count)]
    found = []
    for first, second, *_ in linkage(np.clip(distances, 0, None), method="average"):
        found.append((members[int(first)], members[int(second)]))
        members.append(tuple(sorted(found[-1][0] + found[-1][1])))
    return found


def _differences(table: Float[NDArray[np.float64], "R M"]) -> Float[NDArray[np.float64], "R P"]:
    """Of every two columns, row by row."""
    left, right = np.triu_indices(table.shape[1], k=1)
    difference: NDArray[np.float64] = table[:, left] - table[:, right]
    return difference


def concordance(test: Figures, truth: Figures) -> Interval:
    """Of two explanations of one example, how often is that better in the test which is closer to the truth?

    Mean over examples of the share of pairs of methods with `(V_im − V_im') (T_im − T_im') > 0`; pairs that are equal in the
    test count ½. Pairs that are equal in the truth have no better one and are left out, as are examples of such pairs alone.
    """
    better, closer = _differences(test), _differences(truth)
    asked = np.abs(closer) > _EQUAL
    agrees = np.where(np.abs(better) <= _EQUAL, 0.5, (np.sign(better) == np.sign(closer)).astype(float))
    known = asked.any(1)
    shares = (agrees * asked).sum(1)[known] / asked.sum(1)[known]
    return interval(shares, bounds=SHARE)


def ties(values: Figures) -> Interval:
    """Share of the pairs of methods that the test cannot tell apart in an example, mean over examples."""
    return interval((np.abs(_differences(values)) <= _EQUAL).mean(1), bounds=SHARE)
