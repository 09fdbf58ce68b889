"""Figures whose error has two sources: examples, and the seeds or draws under which the same examples were met again.

A figure of N examples under S seeds of a training (or K orders of heads) rests on y[s, i] = μ + a_s + b_i + e_si. An
interval over examples alone takes the seeds as given. Which one holds for other seeds, too, hangs on what is known
(`docs/seeds-and-examples.md` tables how often each is right):

- every seed has a value of every example, and the figure is their mean: `crossed_interval`, and `crossed_p` of differences;
- each seed has a figure with its interval, and no more is known: `mean_over_seeds`;
- the figure is any statistic with its own interval over examples, and there are draws beside it: `widened` by `of_orders`
  (the figure is the mean over the draws) or `of_resamples` (it is of one order, and others say what else that might have
  been), and `drawn_p` of differences;
- asked is how much either has in the values: `Crossed` has standard deviations of the effects a and b, without e;
  `variance_shares` has the shares of all three; `deviation_over_seeds` is that of the figures as they are, with e in it.

The first three add squares (Zou & Donner 2008): parts of an error, each times the quantile of its own degrees of freedom.
Seeds and examples have to be drawn independently of each other, and figures of seeds to be about normal, which a handful of
seeds cannot show. What a seed and an example have together, e, is counted once in `crossed_interval`, which alone can tell
it from b; twice in `widened`, and S + 1 times in `mean_over_seeds`, which are wider for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # Student's distribution: scipy.stats takes half a second to be imported

from benchmark.results.statistics.bootstrap import UNBOUNDED, Interval, Range, interval
from benchmark.results.statistics.proportions import LEVEL, Array
from benchmark.results.statistics.significance import sign_flip_p
from benchmark.results.statistics.spread import spread_interval

_ALPHA, _LEAST, _RESAMPLES = 0.05, 1e-12, 200


@dataclass(frozen=True)
class Crossed:
    """A mean over seeds and examples.

    Attributes:
        mean: with an interval that holds for other seeds and other examples; n counts examples.
        seeds: standard deviation between seeds, of the mean over all examples that there could be; NaN of one seed.
        examples: standard deviation between examples, of the mean over all seeds that there could be; of one seed that of
            the examples' values.
    """

    mean: Interval
    seeds: float
    examples: float


@dataclass(frozen=True)
class _Layout:
    """Mean squares of the two-way layout: of rows, of columns, and the rest."""

    rows: float
    columns: float
    rest: float
    shape: tuple[int, int]

    @staticmethod
    def of(values: Float[NDArray[np.float64], "R C"]) -> "_Layout":
        """Of at least two rows and two columns."""
        r, c = values.shape
        grand, of_row, of_column = values.mean(), values.mean(1), values.mean(0)
        rest = ((values - of_row[:, None] - of_column[None, :] + grand) ** 2).sum() / ((r - 1) * (c - 1))
        rows, columns = (
            float(times * ((means - grand) ** 2).sum() / (len(means) - 1))
            for means, times in ((of_row, c), (of_column, r))
        )
        return _Layout(rows, columns, float(rest), (r, c))

    @staticmethod
    def of_seeds(values: Float[NDArray[np.float64], "S N"]) -> "_Layout":
        """Of seeds in rows; where they agree, their mean square is exactly 0, which that of rounded means is not."""
        layout = _Layout.of(values)
        return layout if np.ptp(values.mean(1)) > 0 else replace(layout, rows=0.0)

    @property
    def components(self) -> tuple[float, float, float]:
        """Variances of the effects of rows and of columns, 0 where estimated below, and of the rest."""
        r, c = self.shape
        return max(0.0, self.rows - self.rest) / c, max(0.0, self.columns - self.rest) / r, self.rest

    def reach(self, alpha: float) -> float:
        """Half the width of the mean's interval at level 1 − α."""
        r, c = self.shape
        of_rows, of_columns = (float(stdtrit(size - 1, alpha / 2)) ** 2 for size in self.shape)
        return math.sqrt((of_rows * self.rows + of_columns * max(0.0, self.columns - self.rest)) / (r * c))


def crossed_interval(values: Float[NDArray[np.float64], "S N"], *, bounds: Range) -> Crossed:
    """The mean of y[s, i] = μ + a_s + b_i + e_si over S seeds and N examples.

    With the mean squares of the two-way layout, E MS_a = N σ²_a + σ²_e, E MS_b = S σ²_b + σ²_e, E MS_e = σ²_e, and

        Var ȳ = σ²_a / S + σ²_b / N + σ²_e / (S N) = E (MS_a + (MS_b − MS_e)) / (S N),

    the squares of both parts are added, each times its own quantile of Student's t, t_k with k degrees of freedom:

        ȳ ± √((t²_{S−1} MS_a + t²_{N−1} max(0, MS_b − MS_e)) / (S N)).

    The interval is widened to hold that of the examples' means over seeds (`interval`), and cut to the bounds.
    σ_a = √((MS_a − MS_e) / N) and σ_b = √((MS_b − MS_e) / S), 0 where that is below 0. Of one seed it is `interval`.

    Args:
        values: without NaN.
        bounds: least and largest possible value.

    Source: this project, by the rule of adding squares (Zou & Donner 2008), of which descriptions were read and not the
    paper; docs/seeds-and-examples.md tables how often it holds.
    """
    s, n = values.shape
    if n == 0:
        return Crossed(Interval(math.nan, math.nan, math.nan, 0), math.nan, math.nan)
    alone = interval(values.mean(0), bounds=bounds)
    if s < 2 or n < 2:
        return Crossed(alone, math.nan, float(values.mean(0).std(ddof=1)) if n > 1 else math.nan)
    layout = _Layout.of_seeds(values)
    seeds, examples, _ = map(math.sqrt, layout.components)
    reach = layout.reach(_ALPHA)
    low, high = max(bounds[0], alone.value - reach), min(bounds[1], alone.value + reach)
    return Crossed(Interval(alone.value, min(low, alone.low), max(high, alone.high), n, bounds), seeds, examples)


def crossed_p(differences: Float[NDArray[np.float64], "S N"]) -> float:
    """Two-sided p-value that the mean over seeds and examples is 0.

    The larger of the level at which the interval of `crossed_interval` ends at 0, and of the sign-flip test of the examples'
    means over seeds, which alone is given of one seed.
    """
    s, n = differences.shape
    if n == 0:
        return math.nan
    alone = float(np.asarray(sign_flip_p(differences.mean(0)[:, None])).flat[0])
    if s < 2 or n < 2:
        return alone
    layout, mean = _Layout.of_seeds(differences), abs(float(differences.mean()))
    if mean <= layout.reach(1.0):
        return 1.0
    if mean >= layout.reach(_LEAST):
        return max(alone, _LEAST)
    return max(alone, float(scipy.optimize.brentq(lambda alpha: layout.reach(alpha) - mean, _LEAST, 1.0)))


def mean_over_seeds(
    values: Float[NDArray[np.float64], " S"],
    lows: Float[NDArray[np.float64], " S"],
    highs: Float[NDArray[np.float64], " S"],
    n: int,
    bounds: Range = UNBOUNDED,
) -> Interval:
    """The mean of v_s with an interval that holds for other seeds and other examples, where examples' values are not known.

    Squares are added, the half-width of Student's interval over seeds and the mean squared half-widths over examples:

        low = v̄ − √(t² V / S + mean_s (v_s − low_s)²),    high = v̄ + √(t² V / S + mean_s (high_s − v_s)²),

    V the variance of the v_s and t the .975 quantile with S − 1 degrees of freedom. Seeds share their examples, whose part
    in the v_s is common and counts in whole; what an example and a seed have together counts S + 1 times, so that the
    interval is wider than `crossed_interval`, which knows each example. Of one seed it is the interval over examples; where
    a seed has none (NaN), it is Student's alone, over seeds, for these examples, and none where seeds agree.

    Args:
        values, lows, highs: figures and their intervals.
        n: examples.
        bounds: least and largest possible value, to which the interval is cut.

    Source: this project, by the rule of adding squares (Zou & Donner 2008), of which descriptions were read and not the
    paper; docs/seeds-and-examples.md tables how often it holds.
    """
    s, mean = len(values), float(values.mean())
    below, above = (float(np.mean(reach**2)) for reach in (values - lows, highs - values))
    if not np.isfinite([below, above]).all():
        below, above = 0.0, 0.0
        if np.ptp(values) == 0:
            return Interval(mean, math.nan, math.nan, n)
    least, most = bounds
    seeds = _quantile(s - 1) ** 2 * float(values.var(ddof=1)) / s if s > 1 else 0.0
    low, high = _ends(mean, below, above, seeds)
    return Interval(mean, max(low, min(least, mean)), min(high, max(most, mean)), n, bounds)


@dataclass(frozen=True)
class Source:
    """A part of a figure's error that is not its examples': a variance estimated with so many degrees of freedom."""

    variance: float
    degrees: int


def of_orders(values: Array) -> list[Source]:
    """What K draws of equal standing (orders, seeds) add to the error of the mean of values [n, K]; nothing where K is 1.

    s²(b) / K, with b_k the mean over examples under draw k.
    """
    return [Source(source.variance / values.shape[1], source.degrees) for source in of_resamples(values)]


def of_resamples(values: Array) -> list[Source]:
    """What the one order adds, s²(b), from the values [n, R] under R resampled orders; nothing where R is at most 1."""
    if (n_draws := values.shape[1]) < 2:
        return []
    return [Source(float(values.mean(axis=0).var(ddof=1)) if len(values) else math.nan, n_draws - 1)]


def widened(narrow: Interval, beside: Sequence[Source], bounds: Range = UNBOUNDED) -> Interval:
    """The interval over examples, made wider by other sources of error: each side is √(side² + Σ (t · s)²).

    s² is the variance of a source and t the quantile of Student's t with its degrees of freedom: the margins of independent
    parts of an error add up in squares (Zou & Donner 2008).

    Args:
        narrow: of any statistic, the draws taken as given.
        beside: the sources of error beside the examples.
        bounds: least and largest possible value, to which the interval is cut.
    """
    low, high = narrow.low, narrow.high
    if margins := [_quantile(source.degrees) ** 2 * source.variance for source in beside]:
        below, above = ((narrow.value - bound) ** 2 for bound in (low, high))
        low, high = _ends(narrow.value, below, above, sum(margins))
    low, high = np.clip([low, high], *bounds).tolist()
    return Interval(narrow.value, low, high, narrow.n, narrow.reach)


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
    student_p = float(2 * stdtr(degrees, -abs(float(differences.mean())) / math.sqrt(variance)))
    return student_p if math.isnan(student_p) else max(p, student_p)


def variance_shares(values: Float[NDArray[np.float64], "N P"], *, seed: int = 0) -> list[Interval]:
    """Shares of the variance of y[i, p] = μ + a_i + b_p + e_ip: of examples i, of seeds or pairs of seeds p, of the rest.

    With the mean squares of the two-way layout, σ²_a = (MS_a − MS_e) / P, σ²_b = (MS_b − MS_e) / N and σ²_e = MS_e; what is
    below 0 counts as 0. Each is divided by the sum of the three; NaN where nothing varies. Intervals (`spread_interval`) are
    over examples, of these seeds, and hold the shares of n examples.

    Args:
        values: of at least two examples and two seeds or pairs.
        seed: of the resampling.
    """
    n, shares = len(values), _shares(values)
    generator = np.random.default_rng(seed)
    resampled = np.stack([_shares(values[generator.integers(0, n, n)]) for _ in range(_RESAMPLES)])
    return [spread_interval(float(share), each, n, (0.0, 1.0)) for share, each in zip(shares, resampled.T, strict=True)]


def _shares(values: Float[NDArray[np.float64], "N P"]) -> Float[NDArray[np.float64], "3"]:
    components = np.array(_Layout.of(values).components)
    total = components.sum()
    return components / total if total > 0 else np.full(3, np.nan)


def deviation_over_seeds(values: Float[NDArray[np.float64], " S"]) -> Interval:
    """The standard deviation of the figures of S seeds as they are, with its interval for normal ones; n counts seeds.

    s √((S − 1) / χ²) at the quantiles .975 and .025 with S − 1 degrees of freedom. The figures hold the noise of their
    examples, which `Crossed.seeds` leaves out. NaN of one seed; no interval where seeds agree.
    """
    seeds = len(values)
    if seeds < 2 or np.ptp(values) == 0:
        return Interval(0.0 if seeds > 1 else math.nan, math.nan, math.nan, seeds)
    found = float(values.std(ddof=1))
    high, low = found * np.sqrt((seeds - 1) / scipy.stats.chi2.ppf([0.025, 0.975], seeds - 1))
    return Interval(found, float(low), float(high), seeds)


def _quantile(degrees: int) -> float:
    """Of Student's t, for a two-sided interval."""
    return float(stdtrit(degrees, (1 + LEVEL) / 2))


def _ends(value: float, below: float, above: float, margin: float) -> tuple[float, float]:
    """The ends of an interval whose squared sides over examples are made wider by the squared margin of another source."""
    return value - math.sqrt(below + margin), value + math.sqrt(above + margin)
