"""Means over examples that also hang on something drawn: random orders of heads, or the examples that an order came from.

A figure of head pruning is a mean over n examples under one order of the heads. Its error has two crossed sources, the
examples and the order, and an interval over examples alone takes the order as given. Two kinds of draws show the second:

- *orders*: K random orders of equal standing. The figure is the mean over examples and orders; of its error, s²(b) / K
  comes from the orders, b_k being the mean over examples under order k.
- *resamples*: R orders from bootstrap resamples of the examples that the one order of the figure came from. The figure is
  that of the one order; of its error, s²(b) comes from that order.

Either is estimated with K − 1 (R − 1) degrees of freedom. It holds 1/n of the interaction of example and order, which the
examples' part holds too: counted twice, it errs on the safe side. `docs/draws.md` has the simulations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from benchmark.results.statistics.bootstrap import Interval
from benchmark.results.statistics.proportions import LEVEL, Array

RESAMPLED = "resampled "
"""Rows of the metric m under resampled orders bear the name of m after this."""


@dataclass(frozen=True)
class Source:
    """A part of a mean's error that is not its examples': a variance estimated with so many degrees of freedom."""

    variance: float
    degrees: int


def matrix(rows: pd.DataFrame) -> tuple[tuple[str, ...], Array]:
    """Examples in order, and values [n, K] by example and draw, from rows `uid, value[, draw]` of one metric and x."""
    row, uids = pd.factorize(rows["uid"].to_numpy(dtype=object), sort=True)
    draw, draws = pd.factorize(rows["draw"] if "draw" in rows else np.zeros(len(rows), dtype=int), sort=True)
    if len(np.unique(place := row * len(draws) + draw)) < len(place):
        raise ValueError("an example has two values in one draw")
    values = np.full((len(uids), len(draws)), np.nan)
    values[row, draw] = rows["value"].to_numpy(dtype=np.float64)
    return tuple(map(str, uids)), values


def of_orders(values: Array) -> list[Source]:
    """What K orders of equal standing add to the error of the mean of values [n, K]; nothing where K is 1."""
    return [Source(source.variance / values.shape[1], source.degrees) for source in of_resamples(values)]


def of_resamples(values: Array) -> list[Source]:
    """What the one order adds, from the values [n, R] under R resampled orders; nothing where R is at most 1."""
    if (n_draws := values.shape[1]) < 2:
        return []
    return [Source(float(values.mean(axis=0).var(ddof=1)) if len(values) else math.nan, n_draws - 1)]


def sources(rows: pd.DataFrame, resampled: pd.DataFrame | None) -> list[Source]:
    """What both kinds of draws add, from the rows of a metric at one x and those of its resampled orders."""
    parts = of_orders(matrix(rows)[1])
    return parts if resampled is None or resampled.empty else [*parts, *of_resamples(matrix(resampled)[1])]


def widened(narrow: Interval, beside: Sequence[Source]) -> Interval:
    """The interval over examples, made wider by other sources of error: each side is √(side² + Σ (t · s)²).

    s² is the variance of a source and t the quantile of Student's t with its degrees of freedom: the margins of independent
    parts of an error add up in squares (Zou & Donner 2008).
    """
    margins = [stats.t.ppf((1 + LEVEL) / 2, source.degrees) ** 2 * source.variance for source in beside]
    if not margins:
        return narrow
    low, high = (math.sqrt((narrow.value - bound) ** 2 + sum(margins)) for bound in (narrow.low, narrow.high))
    return Interval(narrow.value, narrow.value - low, narrow.value + high, narrow.n, narrow.reach)


def drawn_p(differences: Array, beside: Sequence[Source], p: float) -> float:
    """Two-sided p-value of mean difference 0 where the differences also hang on draws.

    Student's t of d̄ / √V with V = s²(d) / n + Σ s², and Satterthwaite's degrees of freedom V² / Σ (part² / its degrees);
    but never below `p`, which takes the draws as given (`sign_flip_p`), and that alone where there are none.

    Args:
        differences: [n], one per example, means over the draws.
        beside: the sources of error beside the examples.
        p: of the same differences, draws taken as given.
    """
    n = len(differences)
    if not beside or n < 2:
        return p
    parts = [Source(float(differences.var(ddof=1)) / n, n - 1), *beside]
    variance = sum(part.variance for part in parts)
    if variance == 0:
        return p
    degrees = variance**2 / sum(part.variance**2 / part.degrees for part in parts)
    student_p = float(2 * stats.t.sf(abs(float(differences.mean())) / math.sqrt(variance), degrees))
    return student_p if math.isnan(student_p) else max(p, student_p)
