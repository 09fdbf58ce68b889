"""How often `spread_interval` holds a correlation or a share of n examples: `python -m tests.simulations.spreads`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from benchmark.analyses.variance import columns, components, decompose
from benchmark.results.statistics import Interval, spread_interval

CORRELATION_SIZES, SHARE_SIZES = (10, 20, 100), (10, 30, 100)
TRIALS, RESAMPLES, TRUTHS = 400, 200, 200
SHARES = ("first", "interaction", "residual", "first among combinations", "difference")


def pearson(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    a, b = (part - part.mean(-1, keepdims=True) for part in (a, b))
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def spearman(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    return pearson(rankdata(a, axis=-1), rankdata(b, axis=-1))


@dataclass(frozen=True)
class Heads:
    """Scores of heads on examples of two tasks: importances that correlate, and examples around them.

    Attributes:
        heads: how many.
        noise: standard deviation of an example, that of importances being 1 (before `exp`, where skewed).
        skewed: all scores are positive and most are small, as those of attribution are.
    """

    heads: int
    noise: float
    skewed: bool

    def means(self, generator: np.random.Generator) -> np.ndarray:
        """Importances of both tasks [2, H]."""
        one, other = generator.standard_normal((2, self.heads))
        both = np.stack([one, 0.8 * one + 0.6 * other])
        return np.exp(both) if self.skewed else both

    def draw(self, generator: np.random.Generator, means: np.ndarray, *shape: int) -> np.ndarray:
        """Scores of examples [2, ..., H]."""
        around = self.noise * generator.standard_normal((2, *shape, self.heads))
        place = means.reshape(2, *(1 for _ in shape), self.heads)
        return place * np.exp(around - self.noise**2 / 2) if self.skewed else place + around


HEADS = {
    "16 heads, noise 1": Heads(16, 1.0, skewed=False),
    "72 heads, noise 1": Heads(72, 1.0, skewed=False),
    "72 heads, noise 3": Heads(72, 3.0, skewed=False),
    "72 heads, skewed": Heads(72, 1.5, skewed=True),
}


def correlations(heads: Heads, n: int, rank: Callable[..., np.ndarray], trials: int = TRIALS) -> tuple[float, float]:
    """Coverage of spread_interval, and of percentiles for comparison."""
    generator = np.random.default_rng(n)
    held = np.zeros(2)
    for _ in range(trials):
        means = heads.means(generator)
        truth = rank(*heads.draw(generator, means, TRUTHS, n).mean(2)).mean()
        one, two = heads.draw(generator, means, n)
        weights = generator.multinomial(n, np.full(n, 1 / n), size=(2, RESAMPLES)) / n
        again = rank(weights[0] @ one, weights[1] @ two)
        found = spread_interval(float(rank(one.mean(0), two.mean(0))), again, n, (-1.0, 1.0))
        low, high = np.quantile(again, [0.025, 0.975])
        held += [found.low <= truth <= found.high, low <= truth <= high]
    return float(held[0] / trials), float(held[1] / trials)


LAYOUTS = {
    "factors as large as noise": (1.0, 1.0, 0.5),
    "factors below noise": (0.2, 0.1, 0.1),
}
"""Standard deviations of first factor, second factor and interaction; examples and noise have 1, and share two factors."""


def shares(deviations: tuple[float, float, float], n: int, trials: int = TRIALS) -> dict[str, float]:
    """Coverage of the shares of `decompose` in `SHARES`, 10 × 6 levels."""
    generator, held = np.random.default_rng(n), np.zeros(len(SHARES))
    first, second, mixed = deviations
    for _ in range(trials):
        fixed = (
            first * generator.standard_normal((10, 1))
            + second * generator.standard_normal(6)
            + mixed * generator.standard_normal((10, 6))
        )
        loadings = generator.standard_normal((2, 10, 6))

        def draw(fixed: np.ndarray = fixed, loadings: np.ndarray = loadings) -> np.ndarray:
            own = generator.standard_normal((n, 1, 1)) + generator.standard_normal((n, 10, 6))
            return fixed + own + np.tensordot(generator.standard_normal((n, 2)), loadings, 1)

        truth = np.mean([values_of(draw()) for _ in range(40)], axis=0)
        found = np.array([(one.low, one.high) for one in intervals_of(draw())])
        held += (found[:, 0] <= truth) & (truth <= found[:, 1])
    return dict(zip(SHARES, (held / trials).tolist(), strict=True))


def values_of(layout: np.ndarray) -> np.ndarray:
    """`SHARES` of one layout."""
    parts = components(columns(layout).mean(0, keepdims=True), (10, 6))[0]
    of_all, of_means = parts / parts.sum(), parts[:3] / parts[:3].sum()
    return np.array([of_all[0], of_all[2], of_all[4], of_means[0], of_means[0] - of_means[1]])


def intervals_of(layout: np.ndarray) -> list[Interval]:
    """The same as `decompose` shows them."""
    found = decompose(layout, resamples=RESAMPLES)
    of_all = [found.of_all[name] for name in ("first", "interaction", "residual")]
    return [*of_all, found.of_means["first"], found.difference]


def _short(number: float) -> str:
    return f"{number:.2f}".removeprefix("0")


def main() -> None:
    """Print both tables."""
    print("| importances | correlation | " + " | ".join(f"n = {n}" for n in CORRELATION_SIZES) + " |")
    print("| --- | --- " + "| ---: " * len(CORRELATION_SIZES) + "|")
    for label, heads in HEADS.items():
        for name, rank in (("Pearson", pearson), ("Spearman", spearman)):
            entries = [correlations(heads, n, rank) for n in CORRELATION_SIZES]
            print(f"| {label} | {name} | " + " | ".join(f"{_short(a)} ({_short(b)})" for a, b in entries) + " |")
    print()
    print("| layout | share | " + " | ".join(f"n = {n}" for n in SHARE_SIZES) + " |")
    print("| --- | --- " + "| ---: " * len(SHARE_SIZES) + "|")
    for label, deviations in LAYOUTS.items():
        found = [shares(deviations, n) for n in SHARE_SIZES]
        for name in SHARES:
            print(f"| {label} | {name} | " + " | ".join(_short(one[name]) for one in found) + " |")


if __name__ == "__main__":
    main()
