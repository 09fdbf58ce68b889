"""Is a test calibrated, and which methods beat random scores? (PROTOCOLS section 9)"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd

from benchmark.report.cells import Cell
from benchmark.report.leaderboard import Column, is_control
from benchmark.report.text import escape_markdown, number
from benchmark.statistics import ALPHA, Interval, holm, intervals, sign_flip_p


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


def per_example(cell: Cell, column: Column) -> pd.Series | None:
    """The metric's value of each example (index: uid), or None where the figure is no mean of such values.

    A ratio of sums (micro-averaged F1) has no value per example; rows are trusted only where their mean is the figure.
    """
    figure = figure_of(cell, column)
    chosen = cell.scalar_rows.get((cell.evaluations.get(column.evaluation, ""), column.metric))
    if figure is None or chosen is None:
        return None
    values = chosen.groupby("uid", sort=True)["value"].mean().dropna()
    if len(values) != figure.n:
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


def _paired(differences: Mapping[str, np.ndarray]) -> dict[str, Comparison]:
    """Comparisons from differences per example; those over equally many examples share one bootstrap."""
    found: dict[str, Comparison] = {}
    for n in sorted({len(values) for values in differences.values()}):
        names = [name for name, values in differences.items() if len(values) == n]
        matrix = np.stack([differences[name] for name in names], axis=1)
        both = zip(names, intervals(matrix), sign_flip_p(matrix), strict=True)
        found |= {name: Comparison(gain, float(p), paired=True) for name, gain, p in both}
    return found


def compare(pairs: Mapping[str, tuple[Cell, Cell]], column: Column) -> dict[str, Comparison]:
    """How much better the first method of each pair is than the second; pairs without two figures are left out.

    Args:
        pairs: comparison's name -> the two cells.
        column: the metric; the gain is positive where the first is better in the metric's direction.
    """
    sign = 1 if column.higher_is_better else -1
    found: dict[str, Comparison | None] = {}
    differences: dict[str, np.ndarray] = {}
    for name, (better, worse) in pairs.items():
        figure, other = figure_of(better, column), figure_of(worse, column)
        if figure is None or other is None:
            continue
        a, b = per_example(better, column), per_example(worse, column)
        if a is None or b is None or len(common := a.index.intersection(b.index)) < 2:
            found[name] = _unpaired(figure, other, sign)
        else:
            first, second = (values.loc[common].to_numpy(dtype=np.float64) for values in (a, b))
            differences[name] = sign * (first - second)
    complete = _paired(differences) | {name: comparison for name, comparison in found.items() if comparison is not None}
    return {name: complete[name] for name in pairs if name in complete}


def _gain(comparison: Comparison) -> str:
    gain = comparison.gain
    how = "" if comparison.paired else " (unpaired)"
    return f"{number(gain.value)} [{number(gain.low)}, {number(gain.high)}]{how}"


def calibration(cells: Sequence[Cell], column: Column) -> str:
    """Whether the metric ranks oracle above random above inverted, beyond the 95 % intervals of their differences."""
    controls = {cell.kind: cell for cell in reversed(cells) if cell.kind in ("oracle", "random", "inverted")}
    lacking = [
        n for n in ("oracle", "random", "inverted") if n not in controls or figure_of(controls[n], column) is None
    ]
    if lacking:
        return f"calibration not assessed (no figure of {' and '.join(lacking)})"
    remarks = {controls[name].evaluation(column.evaluation).get("remark") for name in controls}
    if None not in remarks:
        return f"calibration does not apply ({'; '.join(sorted(escape_markdown(str(remark)) for remark in remarks))})"
    steps = (("oracle", "random"), ("random", "inverted"))
    found = compare({better: (controls[better], controls[worse]) for better, worse in steps}, column)
    if len(found) < len(steps):
        return "calibration not assessed (no intervals)"
    verdict = "calibrated" if all(comparison.gain.low > 0 for comparison in found.values()) else "**not calibrated**"
    parts = [
        f"{better} {'above' if found[better].gain.low > 0 else 'not above'} {worse}: {_gain(found[better])}"
        for better, worse in steps
    ]
    return f"{verdict} ({'; '.join(parts)})"


@dataclass(frozen=True)
class AgainstRandom:
    """The real methods by how they compare to the random control on one metric."""

    above: tuple[str, ...]
    undecided: tuple[str, ...]
    below: tuple[str, ...]
    unpaired: tuple[str, ...]

    @property
    def compared(self) -> int:
        """How many methods were compared: the hypotheses of Holm's correction."""
        return len(self.above) + len(self.undecided) + len(self.below)

    @property
    def sentence(self) -> str:
        """All four groups in words; empty ones are left out."""
        named = (
            ("above random", self.above),
            ("not distinguishable from random", self.undecided),
            ("below random", self.below),
        )
        groups = "; ".join(f"{verdict}: {', '.join(methods)}" for verdict, methods in named if methods)
        return groups + (f" (unpaired: {', '.join(self.unpaired)})" if self.unpaired else "")


def against_random(cells: Sequence[Cell], column: Column) -> AgainstRandom | None:
    """Every real method against the random control, Holm-corrected over them; None where none can be compared."""
    random = next((cell for cell in cells if cell.kind == "random"), None)
    real = [cell for cell in cells if not is_control(cell.method)]
    if random is None:
        return None
    comparisons = compare({cell.method: (cell, random) for cell in real}, column)
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
