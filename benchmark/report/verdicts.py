"""Is a test calibrated, and which methods beat random scores? (PROTOCOLS section 9)"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd

from benchmark.report.cells import Cell
from benchmark.report.leaderboard import Column, is_control
from benchmark.report.text import number
from benchmark.statistics import Interval, paired_difference

ALPHA = 0.05
_RESAMPLES = 4999  # the smallest p-value, 2/5000, stays significant after Holm's correction over 100 methods
_CHUNK = 4_000_000


@dataclass(frozen=True)
class Comparison:
    """How much better one method is than another on a metric.

    Attributes:
        gain: difference in the direction of better (positive: the first is better), with its 95 % interval.
        p: two-sided p-value of no difference.
        paired: whether examples were resampled as pairs; otherwise the two figures' intervals were combined, which is
            conservative, since both methods saw the same examples.
    """

    gain: Interval
    p: float
    paired: bool


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment: p̃_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j)) over m hypotheses (Holm 1979)."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = largest
    return adjusted


def bootstrap_p(difference: np.ndarray, seed: int = 0) -> float:
    """Two-sided p-value of mean difference 0: 2 min(#{d* ≤ 0} + 1, #{d* ≥ 0} + 1) / (r + 1), at most 1.

    d* are the means of r = 4999 resamples of the examples (Davison & Hinkley 1997, section 4.2, for the added 1). It
    agrees with the percentile interval: p < 0.05 where the 95 % interval leaves out 0.

    Args:
        difference: [n], one paired difference per example.
        seed: of the resampling.
    """
    n = len(difference)
    generator = np.random.default_rng(seed)
    below = above = 0
    chunk = max(1, _CHUNK // n)
    for start in range(0, _RESAMPLES, chunk):
        drawn = generator.integers(0, n, size=(min(chunk, _RESAMPLES - start), n))
        means = difference[drawn].mean(axis=1)
        below, above = below + int((means <= 0).sum()), above + int((means >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (_RESAMPLES + 1))


def per_example(cell: Cell, column: Column) -> pd.Series | None:
    """The metric's value of each example (index: uid), or None where the figure is no mean of such values.

    A ratio of sums (micro-averaged F1) has no value per example; rows are trusted only where their mean is the figure.
    """
    rows = cell.rows
    name = cell.evaluations.get(column.evaluation)
    chosen = rows[(rows["evaluation"] == name) & (rows["metric"] == column.metric) & rows["x"].isna()]
    values = chosen.groupby("uid", sort=True)["value"].mean().dropna()
    figure = figure_of(cell, column)
    if figure is None or values.empty or len(values) != figure.n:
        return None
    return values if math.isclose(float(values.mean()), figure.value, rel_tol=1e-4, abs_tol=1e-6) else None


def figure_of(cell: Cell, column: Column) -> Interval | None:
    """The cell's figure for a scalar metric, or None where there is none or it is not finite."""
    for figure in cell.evaluation(column.evaluation).get("figures") or ():
        if figure["metric"] == column.metric and figure.get("x") is None and figure.get("value") is not None:
            low, high = (math.nan if figure.get(key) is None else float(figure[key]) for key in ("low", "high"))
            found = Interval(float(figure["value"]), low, high, int(figure["n"]))
            return found if math.isfinite(found.value) else None
    return None


def _unpaired(better: Interval, worse: Interval, sign: int) -> Comparison | None:
    """Difference of two figures as if independent and normal, from the widths of their intervals."""
    z = NormalDist().inv_cdf(0.975)
    error = math.hypot(better.high - better.low, worse.high - worse.low) / (2 * z)
    if not math.isfinite(error):
        return None
    gain = sign * (better.value - worse.value)
    tail = 1 - NormalDist().cdf(abs(gain) / error) if error > 0 else (0.5 if gain == 0 else 0.0)
    interval = Interval(gain, gain - z * error, gain + z * error, min(better.n, worse.n))
    return Comparison(interval, min(1.0, 2 * tail), paired=False)


def compare(better: Cell, worse: Cell, column: Column) -> Comparison | None:
    """How much better the first method is than the second; None where either lacks a figure with an interval."""
    figures = figure_of(better, column), figure_of(worse, column)
    if figures[0] is None or figures[1] is None:
        return None
    sign = 1 if column.higher_is_better else -1
    a, b = per_example(better, column), per_example(worse, column)
    if a is None or b is None or len(common := a.index.intersection(b.index)) < 2:
        return _unpaired(*figures, sign)
    first, second = (sign * values.loc[common].to_numpy(dtype=np.float64) for values in (a, b))
    return Comparison(paired_difference(first, second), bootstrap_p(first - second), paired=True)


def _gain(comparison: Comparison) -> str:
    gain = comparison.gain
    how = "" if comparison.paired else " (unpaired)"
    return f"{number(gain.value)} [{number(gain.low)}, {number(gain.high)}]{how}"


def calibration(cells: Sequence[Cell], column: Column) -> str:
    """Whether the metric ranks oracle above random above inverted, beyond the 95 % intervals of their differences."""
    controls = {cell.kind: cell for cell in reversed(cells) if cell.kind in ("oracle", "random", "inverted")}
    parts: list[str] = []
    verdicts: list[bool] = []
    for better, worse in (("oracle", "random"), ("random", "inverted")):
        pair = controls.get(better), controls.get(worse)
        comparison = None if pair[0] is None or pair[1] is None else compare(pair[0], pair[1], column)
        if comparison is None:
            lacking = [name for name, cell in zip((better, worse), pair, strict=True) if cell is None or figure_of(cell, column) is None]
            return f"calibration not assessed ({' and '.join(lacking)}: no figure)" if lacking else "calibration not assessed (no intervals)"
        verdicts.append(comparison.gain.low > 0)
        parts.append(f"{better} {'above' if verdicts[-1] else 'not above'} {worse}: {_gain(comparison)}")
    return f"{'calibrated' if all(verdicts) else '**not calibrated**'} ({'; '.join(parts)})"


@dataclass(frozen=True)
class AgainstRandom:
    """The real methods by how they compare to the random control on one metric."""

    above: tuple[str, ...]
    undecided: tuple[str, ...]
    below: tuple[str, ...]
    unpaired: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """All four groups in words; empty ones are left out."""
        named = (("above random", self.above), ("not distinguishable from random", self.undecided), ("below random", self.below))
        groups = "; ".join(f"{verdict}: {', '.join(methods)}" for verdict, methods in named if methods)
        return groups + (f" (unpaired: {', '.join(self.unpaired)})" if self.unpaired else "")


def against_random(cells: Sequence[Cell], column: Column) -> AgainstRandom | None:
    """Every real method against the random control, Holm-corrected over the methods; None where nothing can be compared."""
    random = next((cell for cell in cells if cell.kind == "random"), None)
    real = [cell for cell in cells if not is_control(cell.method)]
    if random is None:
        return None
    found = {cell.method: compare(cell, random, column) for cell in real}
    comparisons = {method: comparison for method, comparison in found.items() if comparison is not None}
    if not comparisons:
        return None
    adjusted = holm({method: comparison.p for method, comparison in comparisons.items()})
    beyond = {method: comparison for method, comparison in comparisons.items() if adjusted[method] < ALPHA}
    return AgainstRandom(
        above=tuple(method for method, comparison in beyond.items() if comparison.gain.value > 0),
        undecided=tuple(method for method in comparisons if method not in beyond),
        below=tuple(method for method, comparison in beyond.items() if comparison.gain.value < 0),
        unpaired=tuple(method for method, comparison in comparisons.items() if not comparison.paired),
    )
