"""Where sign flips decide nothing: differences of skewed values against a constant.

Flips are exact where a difference d is as likely as −d. That is so of two methods whose values are alike, whatever their
distribution. It is not so of skewed values less a constant: their mean may be 0 and most of them lie on one side, and flips
then find a difference that there is not. What tells it is a long tail on the side that the verdict speaks against.

A verdict from n differences, one of m that are corrected together, is drawn where

    G ≤ .7 ln(n / (5 ∛m)),    G = −sign(d̄) · (sample skewness of d),

with m = 1 where the values of both sides vary alike. Where G is larger, it is drawn all the same if the mean of any
distribution on the range of d is known from so many values to lie on this side of 0 (`distribution_free_p`, times the number
of hypotheses that are corrected together, whatever m is). G is
infinite where all differences are equal and not 0: a rare other one may not have been seen.

Source: this project; docs/statistics.md tables how often a verdict is wrong, and how many right ones are lost.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from benchmark.results.statistics.bootstrap import UNBOUNDED, Range
from benchmark.results.statistics.significance import ALPHA

TOO_SKEWED = "not tested: too skewed"
"""What is said in place of a verdict."""

_SLOPE, _LEAST = 0.7, 5.0
_ALIKE = 0.5  # of the larger standard deviation
_NOTHING = 1e-12  # of the largest magnitude


def skewness_against(differences: ArrayLike) -> Float[NDArray[np.float64], " k"]:
    """G of each column of differences [n, k]: how far their long tail is on the other side of 0 than their mean.

    The sample skewness is the adjusted one, `√(n (n − 1)) / (n − 2) · Σ (d − d̄)³ / n / (Σ (d − d̄)² / n)^1.5`. G is infinite
    where all differences are equal and not 0, or where there are fewer than three; 0 where all are 0.
    """
    table = np.asarray(differences, dtype=np.float64)
    n, largest = len(table), np.abs(table).max(axis=0, initial=0.0)
    if n < 3:
        return np.where(largest > 0, np.inf, 0.0)
    constant = np.ptp(table, axis=0) <= _NOTHING * largest
    beside = np.where(constant, np.arange(n)[:, None], table)
    beside = beside - beside.mean(axis=0)
    second, third = (
        np.mean(beside**power, axis=0) for power in (2, 3)
    )  # scipy.stats takes half a second to be imported
    found = -np.sign(table.mean(axis=0)) * (n * (n - 1)) ** 0.5 / (n - 2) * third / second**1.5
    return np.where(constant, np.where(largest > 0, np.inf, 0.0), found)


def most_skewness(n: int, family: int) -> float:
    """`.7 ln(n / (5 ∛m))`: the largest G at which n differences decide one of m hypotheses."""
    return _SLOPE * float(np.log(n / (_LEAST * family ** (1 / 3)))) if n else -np.inf


def vary_alike(first: ArrayLike, second: ArrayLike) -> NDArray[np.bool_]:
    """Whether the standard deviation of each column [n, k] is at least half of that of the other side's."""
    one, other = (np.asarray(side, dtype=np.float64).std(axis=0) for side in (first, second))
    return np.asarray(np.minimum(one, other) >= _ALIKE * np.maximum(one, other))


def distribution_free_p(differences: ArrayLike, reach: Range = UNBOUNDED) -> Float[NDArray[np.float64], " k"]:
    """The level at which Anderson's bound of the mean ends at 0, for each column of differences [n, k] within `reach`.

    `2 exp(−2 n ε²)` with ε the share of the values, those farthest from the end of the range beyond 0, that has to be put to
    this end for the mean to be 0 (Anderson 1969; Massart 1990). It errs at no more than its level for any distribution.
    It is 1 where the range has no such end.
    """
    table = np.asarray(differences, dtype=np.float64)
    n, k = table.shape
    if not n:
        return np.ones(k)
    sign = np.where(table.mean(axis=0) < 0, -1.0, 1.0)
    end = np.where(sign > 0, reach[0], -reach[1])
    ordered = -np.sort(-sign * table, axis=0)
    gained = np.cumsum(ordered - end, axis=0) / n
    mean = np.maximum(ordered.mean(axis=0), 0.0)
    place = np.minimum((gained < mean).sum(axis=0), n - 1)
    column = np.arange(k)
    before = np.where(place > 0, gained[np.maximum(place - 1, 0), column], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = n * (mean - before) / (ordered[place, column] - end)
    share = (place + np.clip(np.nan_to_num(part), 0.0, 1.0)) / n
    return np.where(np.isfinite(end), np.minimum(1.0, 2 * np.exp(-2 * n * share**2)), 1.0)


def too_skewed(
    differences: ArrayLike, family: int, *, reach: Range = UNBOUNDED, alike: ArrayLike = False
) -> NDArray[np.bool_]:
    """Whether no verdict is drawn from each column of differences [n, k], one of `family` hypotheses.

    Args:
        differences: by example.
        family: hypotheses that are corrected together.
        reach: least and largest possible difference.
        alike: whether the values of both sides vary alike (`vary_alike`), for all columns or each; not of a constant.
    """
    table = np.asarray(differences, dtype=np.float64)
    most = np.where(alike, most_skewness(len(table), 1), most_skewness(len(table), family))
    skewed = skewness_against(table) > most
    return np.asarray(skewed & (distribution_free_p(table, reach) * family > ALPHA))
