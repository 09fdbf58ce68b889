"""Is a test calibrated, and which methods beat random scores? (PROTOCOLS section 9)"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd

from benchmark.report.cells import Cell, control_order
from benchmark.report.leaderboard import Column, is_control
from benchmark.report.text import escape_markdown, number
from benchmark.statistics import (
    ALPHA,
    RESAMPLED,
    Interval,
    Source,
    drawn_p,
    holm,
    intervals,
    matrix,
    of_orders,
    of_resamples,
    sign_flip_p,
    widened,
)


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


Side = Cell | Sequence[Cell]
"""One side of a comparison: a method's cell, or those of several random methods whose mean is meant."""


@dataclass(frozen=True)
class Sample:
    """What is compared: a value per example, and the error that does not come from the examples.

    Attributes:
        values: one per example (index: uid): of one method, or the mean of several random ones, over all their draws.
        beside: what random orders of heads, or the calibration examples that an order came from, add to the error.
        draws: how many draws a value is the mean of.
    """

    values: "pd.Series[float]"
    beside: Sequence[Source] = ()
    draws: int = 1


def sample(cells: Sequence[Cell], column: Column) -> Sample | None:
    """The values of one method, or of several random ones together; None where the figure is no mean of such values."""
    tables, resampled = [], []
    for cell in cells:
        if per_example(cell, column) is None:
            continue
        evaluation = cell.evaluations[column.evaluation]
        uids, values = matrix(cell.scalar_rows[evaluation, column.metric])
        tables.append(pd.DataFrame(values, index=uids).dropna())
        resampled.append(cell.scalar_rows.get((evaluation, RESAMPLED + column.metric)))
    if not tables:
        return None
    table = pd.concat(tables, axis=1, join="inner")
    # scores of words are drawn anew for every example: nothing is common to the examples of one seed
    beside = of_orders(table.to_numpy()) if any(part.shape[1] > 1 for part in tables) else []
    if len(tables) == 1 and resampled[0] is not None:
        beside += of_resamples(matrix(resampled[0])[1])
    return Sample(table.mean(axis=1), beside, table.shape[1])


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


def _paired(differences: Mapping[str, np.ndarray], beside: Mapping[str, Sequence[Source]]) -> dict[str, Comparison]:
    """Comparisons from differences per example; those over equally many examples share resamples and sign flips."""
    found: dict[str, Comparison] = {}
    for n in sorted({len(values) for values in differences.values()}):
        names = [name for name, values in differences.items() if len(values) == n]
        matrix = np.stack([differences[name] for name in names], axis=1)
        for name, gain, p in zip(names, intervals(matrix), sign_flip_p(matrix), strict=True):
            own = drawn_p(differences[name], beside[name], float(p))
            found[name] = Comparison(widened(gain, beside[name]), own, paired=True)
    return found


def compare(pairs: Mapping[str, tuple[Side, Side]], column: Column) -> dict[str, Comparison]:
    """How much better the first side of each pair is than the second; pairs without two figures are left out.

    Args:
        pairs: comparison's name -> its two sides.
        column: the metric; the gain is positive where the first is better in the metric's direction.
    """
    sign = 1 if column.higher_is_better else -1
    found: dict[str, Comparison | None] = {}
    differences: dict[str, np.ndarray] = {}
    beside: dict[str, Sequence[Source]] = {}
    for name, sides in pairs.items():
        better, worse = ([side] if isinstance(side, Cell) else side for side in sides)
        figure, other = (
            next((f for cell in side if (f := figure_of(cell, column)) is not None), None) for side in (better, worse)
        )
        if figure is None or other is None:
            continue
        a, b = sample(better, column), sample(worse, column)
        if a is None or b is None or len(common := a.values.index.intersection(b.values.index)) < 2:
            found[name] = _unpaired(figure, other, sign)
        else:
            first, second = (side.values.loc[common].to_numpy(dtype=np.float64) for side in (a, b))
            differences[name] = sign * (first - second)
            beside[name] = (*a.beside, *b.beside)
    complete = _paired(differences, beside)
    complete |= {name: comparison for name, comparison in found.items() if comparison is not None}
    return {name: complete[name] for name in pairs if name in complete}


def is_random(cell: Cell) -> bool:
    """Whether a cell is a random control: `random`, or `random_3` with a seed of its own."""
    return control_order(cell.kind) == control_order("random")


def _gain(comparison: Comparison) -> str:
    gain = comparison.gain
    how = "" if comparison.paired else " (unpaired)"
    return f"{number(gain.value)} [{number(gain.low)}, {number(gain.high)}]{how}"


def calibration(cells: Sequence[Cell], column: Column) -> str:
    """Whether the metric ranks oracle above random above inverted, beyond the 95 % intervals of their differences."""
    controls = {name: [cell for cell in cells if cell.kind == name][:1] for name in ("oracle", "inverted")}
    controls["random"] = [cell for cell in cells if is_random(cell)]
    lacking = [
        name
        for name in ("oracle", "random", "inverted")
        if all(figure_of(cell, column) is None for cell in controls[name])
    ]
    if lacking:
        return f"calibration not assessed (no figure of {' and '.join(lacking)})"
    remarks = {cell.evaluation(column.evaluation).get("remark") for side in controls.values() for cell in side}
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
    draws: int = 1
    """Random draws whose mean is meant by random."""

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
        drawn = f" (random: mean of {self.draws} draws)" if self.draws > 1 else ""
        return groups + drawn + (f" (unpaired: {', '.join(self.unpaired)})" if self.unpaired else "")


def against_random(cells: Sequence[Cell], column: Column) -> AgainstRandom | None:
    """Every real method against the mean of all random orders and seeds, Holm-corrected over the methods.

    None where none can be compared.
    """
    random = [cell for cell in cells if is_random(cell)]
    real = [cell for cell in cells if not is_control(cell.method)]
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
        draws=1 if (mean := sample(random, column)) is None else mean.draws,
    )
