"""Distributions of what an example has: a metric's value, or a method's difference to another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchmark.results.statistics import f1_of_means, f1_of_sums

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

UNIT, SIGNED, UNBOUNDED, POSITIVE = (0.0, 1.0), (-1.0, 1.0), (-np.inf, np.inf), (0.0, np.inf)
STAGES = 9  # of a perturbation curve: 10 % to 90 %


@dataclass(frozen=True)
class Sample:
    """A distribution: how it is drawn, its mean, and the bounds of the metric it stands for."""

    draw: Draw
    mean: float
    bounds: tuple[float, float]


def proportion(p: float) -> Sample:
    return Sample(lambda generator, shape: (generator.random(shape) < p).astype(float), p, UNIT)


def three_valued(more: float, less: float) -> Sample:
    """1 with probability `more`, −1 with probability `less`, else 0: a difference of two 0/1 values."""

    def draw(generator, shape):
        drawn = generator.random(shape)
        return (drawn < more).astype(float) - (drawn > 1 - less)

    return Sample(draw, more - less, SIGNED)


def mostly_zero(share: float, low: float) -> Sample:
    """Uniform between `low` and 1 with probability `share`, else 0."""

    def draw(generator, shape):
        return (generator.random(shape) < share) * generator.uniform(low, 1, shape)

    return Sample(draw, share * (1 + low) / 2, UNIT if low >= 0 else SIGNED)


def accuracy_area(generator, shape, shift=0.0):
    """Mean height of an accuracy curve (steps of 1/16): each example fails from a stage of its own on, with exceptions."""
    stage = generator.normal(5 + shift, 3, shape)[..., None]
    right = (np.arange(STAGES) < stage) ^ (generator.random((*shape, STAGES)) < 0.1)
    return np.trapezoid(right.astype(float), axis=-1) / (STAGES - 1)


def _area_mean():
    """E of `accuracy_area`: probability of success at each stage, .8 Φ((5 − k) / 3) + .1, weighed by the trapezoid."""
    success = [0.8 * NormalDist().cdf((5 - k) / 3) + 0.1 for k in range(STAGES)]
    return float(np.trapezoid(success) / (STAGES - 1))


SAMPLES: Mapping[str, Sample] = {
    "proportion .5": proportion(0.5),
    "proportion .9": proportion(0.9),
    "proportion .97": proportion(0.97),
    "normal": Sample(lambda generator, shape: generator.normal(size=shape), 0.0, UNBOUNDED),
    "lognormal": Sample(lambda generator, shape: generator.lognormal(size=shape), float(np.exp(0.5)), POSITIVE),
    "beta(.3, 3)": Sample(lambda generator, shape: generator.beta(0.3, 3, shape), 0.3 / 3.3, UNIT),
    "area under accuracy": Sample(accuracy_area, _area_mean(), UNIT),
    "difference of two areas": Sample(
        lambda generator, shape: accuracy_area(generator, shape) - accuracy_area(generator, shape), 0.0, SIGNED
    ),
    "1 / 0 / −1 at .3 / .5 / .2": three_valued(0.3, 0.2),
    "1 / 0 / −1 at .1 / .85 / .05": three_valued(0.1, 0.05),
    "1 / 0 / −1 at .03 / .97 / 0": three_valued(0.03, 0.0),
    "0 in 80 %, else uniform": mostly_zero(0.2, 0.0),
    "0 in 95 %, else uniform": mostly_zero(0.05, 0.0),
    "0 in 95 %, else from −.5 to 1": mostly_zero(0.05, -0.5),
    "Student's t, 3 degrees": Sample(lambda generator, shape: generator.standard_t(3, shape), 0.0, UNBOUNDED),
}


@dataclass(frozen=True)
class Ratio:
    """A figure that is no mean of examples: rows of an example [n, k], the statistic, its bounds, those of columns."""

    draw: Callable[[np.random.Generator, int], np.ndarray]
    statistic: Callable[[np.ndarray], np.ndarray]
    bounds: tuple[float, float]
    ranges: tuple[tuple[float, float], ...] | None = None

    @property
    def value(self) -> float:
        """The statistic of the population, from a large sample."""
        return float(self.statistic(self.draw(np.random.default_rng(99), 400_000).mean(axis=0, keepdims=True))[0])


def counts(generator, n):
    """Hits, selected words and words of the rationale."""
    gold = generator.integers(3, 60, n)
    hits = generator.binomial(gold, generator.beta(2, 5, n))
    return np.stack([hits, gold, gold], axis=1).astype(float)


def matches(share: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Precision and recall of spans, of which a share matches."""

    def draw(generator, n):
        predicted, gold = generator.integers(2, 20, n), generator.integers(1, 8, n)
        matched = np.minimum(generator.binomial(predicted, share), gold)
        return np.stack([matched / predicted, matched / gold], axis=1)

    return draw


RATIOS: Mapping[str, Ratio] = {
    "F1 of sums": Ratio(counts, f1_of_sums, UNIT),
    "F1 of means, .14": Ratio(matches(0.1), f1_of_means, UNIT, (UNIT, UNIT)),
    "F1 of means, .016": Ratio(matches(0.01), f1_of_means, UNIT, (UNIT, UNIT)),
}
