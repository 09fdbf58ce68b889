"""Means over values that are crossed: every seed of a training has a value of every example."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import stats

from benchmark.results.statistics.bootstrap import Interval, Range, interval
from benchmark.results.statistics.significance import sign_flip_p

_LEVEL = 0.95


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

    @property
    def error(self) -> float:
        """Standard error of the grand mean."""
        return math.sqrt(self._numerator / (self.shape[0] * self.shape[1]))

    @property
    def freedom(self) -> float:
        """Satterthwaite's degrees of freedom, at least 1."""
        s, n = (size - 1 for size in self.shape)
        parts = self.seeds**2 / s + self.examples**2 / n + self.rest**2 / (s * n)
        return max(1.0, self._numerator**2 / parts) if parts > 0 else float(s * n)

    @property
    def _numerator(self) -> float:
        return max(self.seeds + self.examples - self.rest, self.seeds)


def crossed_interval(values: Float[NDArray[np.float64], "S N"], *, bounds: Range) -> Crossed:
    """The mean of y[s, i] = μ + a_s + b_i + e_si over S seeds and N examples.

    With the mean squares of the two-way layout, where MS_a > MS_e,

        Var ȳ = σ²_a / S + σ²_b / N + σ²_e / (S N),  estimated by (MS_a + MS_b − MS_e) / (S N),

    and the degrees of freedom of Satterthwaite. The interval is widened to hold that of the examples' means over seeds
    (`interval`), which alone is given where seeds differ no more than chance makes them, and clipped to the bounds.
    σ_a = √((MS_a − MS_e) / N) and σ_b = √((MS_b − MS_e) / S), 0 where that is below 0.

    Args:
        values: without NaN.
        bounds: least and largest possible value.

    Source: Montgomery 2013, chapter 13 (two factors at random; Satterthwaite's approximation), from memory; the guards are
    ours, and docs/statistics.md tables how often it holds.
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
    if layout.seeds <= layout.rest:
        return Crossed(alone, seeds, examples)
    reach = float(stats.t.ppf((1 + _LEVEL) / 2, layout.freedom)) * layout.error
    low, high = max(bounds[0], alone.value - reach), min(bounds[1], alone.value + reach)
    return Crossed(Interval(alone.value, min(low, alone.low), max(high, alone.high), n), seeds, examples)


def crossed_p(differences: Float[NDArray[np.float64], "S N"]) -> float:
    """Two-sided p-value that the mean over seeds and examples is 0.

    The larger of Student's t with the error and the freedom of `crossed_interval`, and the sign-flip test of the examples'
    means over seeds; the latter alone of one seed, or where seeds differ no more than chance makes them.
    """
    s, n = differences.shape
    if n == 0:
        return math.nan
    alone = float(np.asarray(sign_flip_p(differences.mean(0)[:, None])).flat[0])
    if s < 2 or n < 2:
        return alone
    layout = _layout(differences)
    if layout.seeds <= layout.rest:
        return alone
    t = abs(float(differences.mean())) / layout.error
    return max(alone, float(2 * stats.t.sf(t, layout.freedom)))


def _layout(values: Float[NDArray[np.float64], "S N"]) -> _Layout:
    s, n = values.shape
    grand, of_seed, of_example = values.mean(), values.mean(1), values.mean(0)
    rest = ((values - of_seed[:, None] - of_example[None, :] + grand) ** 2).sum() / ((s - 1) * (n - 1))
    seeds = n * ((of_seed - grand) ** 2).sum() / (s - 1)
    examples = s * ((of_example - grand) ** 2).sum() / (n - 1)
    return _Layout(float(seeds), float(examples), float(rest), (s, n))
