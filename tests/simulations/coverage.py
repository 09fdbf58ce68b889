"""How often an interval holds the true value: `python -m tests.simulations.coverage` prints the tables of the docs."""

import sys
from collections.abc import Callable, Sequence

import numpy as np

from benchmark.results.statistics import Interval, interval, intervals, resampled_means
from tests.simulations.samples import RATIOS, SAMPLES, Ratio, Sample

SIZES = (5, 12, 20, 60, 200)
TRIALS, RATIO_TRIALS = 4000, 1000


def ours(sample: Sample, values: np.ndarray) -> list[Interval]:
    """The interval of every column."""
    return intervals(values, bounds=sample.bounds)


def percentile(sample: Sample, values: np.ndarray) -> list[Interval]:
    """The percentile interval of every column, for comparison."""
    n = len(values)
    generator = np.random.default_rng(0)
    weights = generator.multinomial(n, np.full(n, 1 / n), size=999)
    low, high = np.quantile(weights @ values / n, [0.025, 0.975], axis=0)
    return [Interval(v, a, b, n) for v, a, b in zip(values.mean(axis=0), low, high, strict=True)]


def covered(found: Sequence[Interval], truth: float) -> tuple[float, float]:
    """Share of intervals that hold the truth, none counting as a miss, and their median width."""
    low, high = np.array([(one.low, one.high) for one in found]).T
    held = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
    return float(held.mean()), float(np.nanmedian(high - low))


def coverage(
    sample: Sample, n: int, trials: int = TRIALS, how: Callable[[Sample, np.ndarray], list[Interval]] = ours
) -> tuple[float, float]:
    """Coverage and median width at n examples; columns share their resamples, each is one trial."""
    values = sample.draw(np.random.default_rng(n), (n, trials))
    return covered(how(sample, values), sample.mean)


def ratio_coverage(
    ratio: Ratio, n: int, trials: int = RATIO_TRIALS, *, studentised: bool = True
) -> tuple[float, float]:
    """The same for a statistic of several columns."""
    generator, found = np.random.default_rng(n), []
    for _ in range(trials):
        values = ratio.draw(generator, n)
        if studentised:
            found.append(interval(values, ratio.statistic, bounds=ratio.bounds, ranges=ratio.ranges))
        else:
            low, high = np.quantile(ratio.statistic(resampled_means(values, 0, 999)), [0.025, 0.975])
            found.append(Interval(float("nan"), float(low), float(high), n))
    return covered(found, ratio.value)


def _short(number: float) -> str:
    return f"{number:.3f}".removeprefix("0")


def table(kinds: Sequence[str]) -> list[str]:
    """Markdown: coverage (median width) of ours, and the percentile interval's below it."""
    lines = [
        "| values | interval | " + " | ".join(f"n = {n}" for n in SIZES) + " |",
        "| --- " * 2 + "| ---: " * 5 + "|",
    ]
    for name in kinds:
        for label in ("here", "percentile"):
            entries = []
            for n in SIZES:
                if name in SAMPLES:
                    found = coverage(SAMPLES[name], n, how=ours if label == "here" else percentile)
                else:
                    found = ratio_coverage(RATIOS[name], n, studentised=label == "here")
                entries.append(f"{_short(found[0])} ({found[1]:.2f})")
            lines.append(f"| {name if label == 'here' else ''} | {label} | " + " | ".join(entries) + " |")
    return lines


if __name__ == "__main__":
    print("\n".join(table(sys.argv[1:] or [*SAMPLES, *RATIOS])))
