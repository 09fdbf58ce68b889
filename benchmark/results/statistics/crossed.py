"""Means over values that are crossed: every seed of a training has a value of every example."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import optimize, stats

from benchmark.results.statistics.bootstrap import Interval, Range, interval
from benchmark.results.statistics.significance import sign_flip_p

_ALPHA, _LEAST = 0.05, 1e-12


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
    """Mean squares of the two-way layout: of seeds, of examples, and the rest."""

    seeds: float
    examples: float
    rest: float
    shape: tuple[int, int]

    def reach(self, alpha: float) -> float:
        """Half the width of the mean's interval at level 1 − α."""
        s, n = self.shape
        of_seeds, of_examples = (float(stats.t.isf(alpha / 2, size - 1)) ** 2 for size in self.shape)
        return math.sqrt((of_seeds * self.seeds + of_examples * max(0.0, self.examples - self.rest)) / (s * n))


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
    paper; docs/statistics.md tables how often it holds.
    """
    s, n = values.shape
    if n == 0:
        return Crossed(Interval(math.nan, math.nan, math.nan, 0), math.nan, math.nan)
    alone = interval(values.mean(0), bounds=bounds)
    if s < 2 or n < 2:
        return Crossed(alone, math.nan, float(values.mean(0).std(ddof=1)) if n > 1 else math.nan)
    layout = _layout(values)
    seeds, examples = (
        math.sqrt(max(0.0, (part - layout.rest) / count)) for part, count in ((layout.seeds, n), (layout.examples, s))
    )
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
    layout, mean = _layout(differences), abs(float(differences.mean()))
    if mean <= layout.reach(1.0):
        return 1.0
    if mean >= layout.reach(_LEAST):
        return max(alone, _LEAST)
    return max(alone, float(optimize.brentq(lambda alpha: layout.reach(alpha) - mean, _LEAST, 1.0)))


def _layout(values: Float[NDArray[np.float64], "S N"]) -> _Layout:
    s, n = values.shape
    grand, of_seed, of_example = values.mean(), values.mean(1), values.mean(0)
    rest = ((values - of_seed[:, None] - of_example[None, :] + grand) ** 2).sum() / ((s - 1) * (n - 1))
    seeds = n * ((of_seed - grand) ** 2).sum() / (s - 1) if np.ptp(of_seed) > 0 else 0.0
    examples = s * ((of_example - grand) ** 2).sum() / (n - 1)
    return _Layout(float(seeds), float(examples), float(rest), (s, n))
