"""How often a family without any difference gets a verdict: `python -m tests.simulations.errors` prints the tables."""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from benchmark.results.statistics import f1_of_means, f1_of_sums, pair_p, swap_p
from tests.simulations.samples import accuracy_area, counts, matches

METHODS = 39
SIZES = (5, 12, 20, 40, 100)
ALPHA = 0.05

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _areas(generator, shape):
    """Accuracy curves of methods on the same examples, whose difficulty they share."""
    return accuracy_area(generator, shape, shift=2 * generator.normal(size=(*shape[:-1], 1)))


def _skewed(generator, shape):
    """The control shares nothing with the methods, whose values are exponential: differences are centred, not symmetric."""
    values = generator.exponential(size=shape) - 1
    values[..., 0] = 0
    return values


NULL: Mapping[str, Draw] = {
    "area under accuracy": _areas,
    "normal": lambda generator, shape: generator.normal(size=shape),
    "heavy tails (t, 2 degrees)": lambda generator, shape: generator.standard_t(2, shape),
    "skewed (exponential less its mean)": _skewed,
}
"""Values [n, ..., methods] of methods that are equally good; the first is the control."""


def bootstrap_p(values: np.ndarray, pairs: list[tuple[int, int]], resamples: int = 4999) -> np.ndarray:
    """p-values of the percentile bootstrap, for comparison: 2 min(#{d* ≤ 0} + 1, #{d* ≥ 0} + 1) / (r + 1)."""
    n = len(values)
    weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)
    means = weights @ values / n
    first, second = np.array(pairs).T
    moved = means[:, first] - means[:, second]
    tail = np.minimum((moved <= 1e-12).sum(axis=0), (moved >= -1e-12).sum(axis=0))
    return np.minimum(1.0, 2 * (tail + 1) / (resamples + 1))


def control_errors(draw: Draw, n: int, trials: int, *, flips: int | None = None, bootstrap: bool = False) -> float:
    """Share of trials in which Holm finds any of 39 methods different from their one control.

    Under the complete null Holm rejects somewhere where the smallest p-value times the family is below 5 %.
    """
    values = draw(np.random.default_rng(n), (n, trials, METHODS + 1)).reshape(n, -1)
    pairs = [
        (trial * (METHODS + 1) + method, trial * (METHODS + 1))
        for trial in range(trials)
        for method in range(1, METHODS + 1)
    ]
    p = bootstrap_p(values, pairs) if bootstrap else pair_p(values, pairs, flips=flips)
    return float(np.mean(p.reshape(trials, METHODS).min(axis=1) * METHODS < ALPHA))


def pair_errors(draw: Draw, n: int, trials: int, *, methods: int = 8, flips: int | None = None) -> float:
    """The same for all pairs of methods."""
    values = draw(np.random.default_rng(n), (n, trials, methods + 1))[..., 1:].reshape(n, -1)
    own = list(combinations(range(methods), 2))
    pairs = [(trial * methods + i, trial * methods + j) for trial in range(trials) for i, j in own]
    p = pair_p(values, pairs, flips=flips).reshape(trials, len(own))
    return float(np.mean(p.min(axis=1) * len(own) < ALPHA))


def _even(n_trials: int, n: int, generator) -> np.ndarray:
    """A precise and a complete method of the same F1: 14 % of few spans match, or 10 % of many, in [n, 2 trials, 2]."""
    gold = generator.integers(1, 8, (n, n_trials))
    found = []
    for low, high, share in ((2, 8, 0.14746), (8, 30, 0.12)):
        predicted = generator.integers(low, high, (n, n_trials))
        matched = np.minimum(generator.binomial(predicted, share), gold)
        found.append(np.stack([matched / predicted, matched / gold], axis=-1))
    return np.stack(found, axis=2).reshape(n, 2 * n_trials, 2)


def _equal(draw) -> Callable:
    def drawn(n_trials, n, generator):
        rows = draw(generator, 2 * n_trials * n)
        return rows.reshape(n, 2 * n_trials, -1)

    return drawn


RATIO_NULL = {
    "F1 of sums, exchangeable": (_equal(counts), f1_of_sums),
    "F1 of means .14, exchangeable": (_equal(matches(0.1)), f1_of_means),
    "F1 of means .016, exchangeable": (_equal(matches(0.01)), f1_of_means),
    "F1 of means, a precise and a complete method": (_even, f1_of_means),
}


def ratio_errors(name: str, n: int, trials: int, flips: int = 999) -> float:
    """Share of trials with p ≤ 5 % where two methods have the same F1."""
    draw, statistic = RATIO_NULL[name]
    values = draw(trials, n, np.random.default_rng(n))
    p = swap_p(values, [(2 * trial, 2 * trial + 1) for trial in range(trials)], statistic, flips=flips)
    return float(np.mean(p <= ALPHA))


def _row(name: str, test: str, found: list[float]) -> str:
    return f"| {name} | {test} | " + " | ".join(f"{one:.3f}".removeprefix("0") for one in found) + " |"


def main(kinds: Sequence[str] = (), trials: int = 1000) -> None:
    """Print the table, of some kinds of differences only where they are named."""
    print("| differences | test | " + " | ".join(f"n = {n}" for n in SIZES) + " |")
    print("| --- | --- " + "| ---: " * len(SIZES) + "|")
    for name, draw in NULL.items():
        if kinds and name not in kinds:
            continue
        found = [control_errors(draw, n, trials, flips=3999) for n in SIZES]
        print(_row(name, f"{METHODS} against a control, sign flips", found), flush=True)
        found = [control_errors(draw, n, trials // 4, bootstrap=True) for n in SIZES]
        print(_row(name, "the same, percentile bootstrap", found), flush=True)
        found = [pair_errors(draw, n, trials, flips=3999) for n in SIZES]
        print(_row(name, "28 pairs of 8 methods, sign flips", found), flush=True)
    for name in RATIO_NULL:
        if not kinds or name in kinds:
            found = [ratio_errors(name, n, 2 * trials) for n in SIZES]
            print(_row(name, "one pair, swaps", found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
