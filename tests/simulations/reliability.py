"""How often the intervals of corrected correlations hold what they estimate: `python -m tests.simulations.reliability`."""

from collections.abc import Mapping

import numpy as np

from benchmark.analyses.reliability import Measured, correlations, grouped, measure, spread

SIZES, NOISES, TRIALS = (10, 20, 50, 100), (1.0, 3.0, 6.0), 200
HEADS, SAME, OTHER = 72, 0.8, 0.3
TYPES = {"one": 0, "two": 0, "three": 1, "four": 1}
"""Four tasks of two types: importances correlate by `SAME` within a type, by `OTHER` between types."""


def importances(draw: np.random.Generator) -> Mapping[str, np.ndarray]:
    """The importance of each head in each task, as it would be of endless examples."""
    common, of_type = draw.standard_normal(HEADS), draw.standard_normal((2, HEADS))
    parts = np.sqrt([OTHER, SAME - OTHER, 1 - SAME])
    return {name: parts @ [common, of_type[kind], draw.standard_normal(HEADS)] for name, kind in TYPES.items()}


def alike(one: str, two: str) -> bool:
    """Whether two tasks are of one type."""
    return TYPES[one] == TYPES[two]


def of_truth(truth: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """The correlation of the first two tasks, and how much larger it is within types."""
    exact = {name: Measured(values[None], np.ones(1), 100) for name, values in truth.items()}
    found = grouped(exact, alike, corrected=True)
    return float(correlations(exact["one"], exact["two"], corrected=False)[0]), found.difference.value


def trial(draw: np.random.Generator, n: int, noise: float) -> np.ndarray:
    """Of the pair and the difference: the estimate, the uncorrected one, the truth, the ends of the interval [2, 5]."""
    truth = importances(draw)
    examples = {name: values + noise * draw.standard_normal((n, HEADS)) for name, values in truth.items()}
    seed = int(draw.integers(2**31))
    measured = {
        name: measure(lambda rows, scores=scores: scores[rows].mean(0), n, seed, name)
        for name, scores in examples.items()
    }
    pair = measured["one"], measured["two"]
    figures = (spread(correlations(*pair, corrected=True), n), grouped(measured, alike, corrected=True).difference)
    raw = correlations(*pair, corrected=False)[0], grouped(measured, alike, corrected=False).difference.value
    rows = zip(figures, raw, of_truth(truth), strict=True)
    return np.array([(one.value, plain, exact, one.low, one.high) for one, plain, exact in rows])


def simulated(n: int, noise: float, trials: int = TRIALS) -> dict[str, np.ndarray]:
    """Of the pair and the difference: coverage where there is an interval, how often there is one, and medians."""
    draw = np.random.default_rng(n)
    found = np.array([trial(draw, n, noise) for _ in range(trials)])
    value, raw, truth, low, high = np.moveaxis(found, -1, 0)
    given = np.isfinite(low)
    held = (low <= truth) & (truth <= high)
    return {
        "coverage": np.where(given.any(0), held.sum(0) / np.maximum(given.sum(0), 1), np.nan),
        "given": given.mean(0),
        "corrected": np.nanmedian(value, 0),
        "uncorrected": np.median(raw, 0),
        "truth": truth.mean(0),
    }


if __name__ == "__main__":
    names = ("coverage", "given", "corrected", "uncorrected", "truth")
    print("| noise | examples | figure | " + " | ".join(names) + " |")
    print("| ---: | ---: | --- |" + " ---: |" * len(names))
    for noise in NOISES:
        for n in SIZES:
            found = simulated(n, noise)
            for row, figure in enumerate(("r of one type", "difference of types")):
                cells = " | ".join(f"{found[name][row]:.2f}".replace("nan", "–") for name in names)
                print(f"| {noise:g} | {n} | {figure} | {cells} |", flush=True)
