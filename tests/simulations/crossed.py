"""How often intervals over seeds and examples hold: `python -m tests.simulations.crossed`; `shares` prints those alone."""

import sys

import numpy as np
from scipy.stats import norm

from benchmark.results.statistics import crossed_interval, crossed_p, interval, mean_over_seeds, variance_shares

SEEDS, SIZES, BETWEEN, TRIALS = (2, 3, 5), (40, 400), (0.0, 0.1, 0.3, 1.0), 500
PAIRS, SHARE_SIZES, SHARE_BETWEEN, SHARE_TRIALS, TRUTHS = (3, 10), (10, 30, 100), (0.3, 1.0), 200, 200


def numbers(draw: np.random.Generator, s: int, n: int, between: float) -> tuple[np.ndarray, float]:
    """Values around 0; seeds differ by `between`, examples and the rest by 1."""
    return between * draw.normal(size=(s, 1)) + draw.normal(size=(1, n)) + draw.normal(size=(s, n)), 0.0


def answers(draw: np.random.Generator, s: int, n: int, between: float) -> tuple[np.ndarray, float]:
    """Right answers, where such a value is above −2, and how many there are over all seeds and examples."""
    values, _ = numbers(draw, s, n, between)
    return (values > -2).astype(float), float(norm.cdf(2 / np.sqrt(2 + between**2)))


def simulated(kind, bounds: tuple[float, float], s: int, n: int, between: float, trials: int = TRIALS) -> np.ndarray:
    """Coverage of `crossed_interval`, of `mean_over_seeds` and over examples alone, and how often p is below .05 [4]."""
    draw, found = np.random.default_rng([s, n, int(10 * between)]), []
    for _ in range(trials):
        values, truth = kind(draw, s, n, between)
        both, alone = crossed_interval(values, bounds=bounds).mean, interval(values.mean(0), bounds=bounds)
        each = [interval(of_seed, bounds=bounds) for of_seed in values]
        added = mean_over_seeds(*(np.array([getattr(one, end) for one in each]) for end in ("value", "low", "high")), n)
        p = crossed_p(values) if kind is numbers else np.nan
        found.append((*(one.low <= truth <= one.high for one in (both, added, alone)), p < 0.05))
    return np.mean(found, axis=0)


def shares(pairs: int, between: float, n: int, trials: int = SHARE_TRIALS) -> list[float]:
    """Coverage of the three intervals of `variance_shares`: of shares of n other examples, the pairs' effects kept."""
    generator, held = np.random.default_rng([pairs, n, int(10 * between)]), np.zeros(3)
    for _ in range(trials):
        effects = between * generator.normal(size=pairs)
        examples, rest = generator.normal(size=(TRUTHS + 1, n, 1)), generator.normal(size=(TRUTHS + 1, n, pairs))
        values = effects + examples + rest
        truth = np.mean([point_shares(one) for one in values[1:]], axis=0)
        found = variance_shares(values[0])
        held += [one.low <= true <= one.high for one, true in zip(found, truth, strict=True)]
    return (held / trials).tolist()


def point_shares(values: np.ndarray) -> np.ndarray:
    """The shares without their intervals, from the mean squares."""
    n, pairs = values.shape
    grand, rows, columns = values.mean(), values.mean(1, keepdims=True), values.mean(0, keepdims=True)
    rest = ((values - rows - columns + grand) ** 2).sum() / ((n - 1) * (pairs - 1))
    found = [values.mean(1).var(ddof=1) - rest / pairs, values.mean(0).var(ddof=1) - rest / n, rest]
    return np.maximum(found, 0) / np.maximum(found, 0).sum()


def main() -> None:
    """Print a line for each kind, number of seeds, number of examples and difference between seeds."""
    print("pairs between | examples, pairs, rest, at n = " + ", ".join(map(str, SHARE_SIZES)))
    for pairs in PAIRS:
        for between in SHARE_BETWEEN:
            found = [figure for n in SHARE_SIZES for figure in shares(pairs, between, n)]
            print("|", pairs, "|", between, "|", " | ".join(f"{figure:.3f}".removeprefix("0") for figure in found), "|")
    if "shares" in sys.argv:
        return
    print("kind seeds examples between | crossed, squares added, examples alone, p < .05")
    for kind, bounds in ((numbers, (-50.0, 50.0)), (answers, (0.0, 1.0))):
        for s in SEEDS:
            for n in SIZES:
                for between in BETWEEN:
                    figures = simulated(kind, bounds, s, n, between)
                    print(kind.__name__, s, n, between, "|", " ".join(f"{figure:.3f}" for figure in figures))


if __name__ == "__main__":
    main()
