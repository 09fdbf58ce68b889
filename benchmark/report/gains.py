"""How much better one method is than another on the same examples. Nothing is ever compared unpaired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.report.leaderboard import MetricColumn
from benchmark.report.samples import Sample, Side, cells_of, figure_of, range_of, sample
from benchmark.results.statistics import (
    ALPHA,
    Interval,
    Range,
    distribution_free_p,
    drawn_p,
    flips_for,
    interval,
    intervals,
    most_skewness,
    pair_p,
    skewness_against,
    swap_p,
    vary_alike,
    widened,
)
from benchmark.results.wording import bounds, number


@dataclass(frozen=True)
class Gain:
    """How much better one method is than another on a metric.

    Attributes:
        gain: difference in the direction of better (positive: the first is better), with its 95 % interval.
        p: two-sided p-value of no difference: sign flips, or for ratios of sums swaps of the two methods; where random
            orders or calibration examples add to the error, never below that of Student's t with them (`drawn_p`).
        skewness: how far the long tail of the differences speaks against them (`skewness_against`); −∞ of swaps.
        sure: p-value whatever their distribution is (`distribution_free_p`).
        alike: whether the values of both sides vary alike.
        left_out: examples that one of the two figures counts and the other does not; the gain leaves them out.
    """

    gain: Interval
    p: float
    left_out: int = 0
    skewness: float = -np.inf
    sure: float = 1.0
    alike: bool = True

    def too_skewed(self, family: int) -> bool:
        """Whether sign flips decide nothing here, as one of `family` hypotheses (docs/statistics.md)."""
        most = most_skewness(self.gain.n, 1 if self.alike else family)
        return self.skewness > most and self.sure * family > ALPHA

    @property
    def remark(self) -> str:
        """What is left out, or nothing."""
        return f"without {self.left_out} examples that only one has" if self.left_out else ""

    @property
    def words(self) -> str:
        """The gain, its interval, and what is left out."""
        shown = f"{number(self.gain.value)} {bounds(self.gain.low, self.gain.high)}".rstrip()
        return f"{shown} ({self.remark})" if self.remark else shown


def gains_of(pairs: Mapping[str, tuple[Side, Side]], column: MetricColumn) -> dict[str, Gain | None]:
    """How much better the first side of each pair is than the second.

    Args:
        pairs: comparison's name -> the two sides.
        column: the metric; the gain is positive where the first is better in the metric's direction.

    Returns:
        By name; pairs of which one side has no figure are left out. None where both have one, but rows are missing or do
        not give the figure, so that the two cannot be paired.
    """
    sides = {id(side): side for both in pairs.values() for side in both if cells_of(side)}
    figures = {key: all(figure_of(cell, column) is not None for cell in cells_of(side)) for key, side in sides.items()}
    samples = {key: sample(side, column) for key, side in sides.items() if figures[key]}
    gains: dict[str, Gain | None] = {}
    complete: dict[str, tuple[Sample, Sample]] = {}
    reach: Range = (-np.inf, np.inf)
    for name, (better, worse) in pairs.items():
        if not (figures.get(id(better)) and figures.get(id(worse))):
            continue
        gains[name] = None
        low, high = range_of(cells_of(better)[0], column)
        reach = (low - high, high - low)
        first, second = samples[id(better)], samples[id(worse)]
        if first is None or second is None or first.statistic is not second.statistic:
            continue
        complete[name] = (first, second)
    return gains | _gains_of_samples(complete, 1 if column.higher_is_better else -1, reach)


def _gains_of_samples(pairs: Mapping[str, tuple[Sample, Sample]], sign: int, reach: Range) -> dict[str, Gain]:
    """The gain of each pair that has two common examples; pairs with the same ones share resamples and flips."""
    examples = {id(sample): tuple(sample.table.index) for both in pairs.values() for sample in both}
    common: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {}
    groups: dict[tuple[tuple[str, ...], object], list[str]] = {}
    for name, (first, second) in pairs.items():
        both = examples[id(first)], examples[id(second)]
        if both not in common:
            common[both] = tuple(sorted({*both[0]} & {*both[1]}))
        if len(common[both]) > 1:
            groups.setdefault((common[both], first.statistic), []).append(name)
    flips = flips_for(sum(map(len, groups.values())))
    gains: dict[str, Gain] = {}
    for (uids, _), names in groups.items():
        gains |= _gains_over(uids, {name: pairs[name] for name in names}, sign, reach, flips)
    return gains


def _gains_over(
    uids: Sequence[str], pairs: Mapping[str, tuple[Sample, Sample]], sign: int, reach: Range, flips: int
) -> dict[str, Gain]:
    """The gain of each pair over the same examples."""
    samples = {id(sample): sample for both in pairs.values() for sample in both}
    place = {key: index for index, key in enumerate(samples)}
    table = np.stack([sample.table.loc[list(uids)].to_numpy(dtype=np.float64) for sample in samples.values()], axis=1)
    columns = [(place[id(first)], place[id(second)]) for first, second in pairs.values()]
    statistic = next(iter(samples.values())).statistic
    if statistic is None:
        values = table[:, :, 0]
        differences = np.stack([sign * (values[:, i] - values[:, j]) for i, j in columns], axis=1)
        beside = [(*first.beside, *second.beside) for first, second in pairs.values()]
        flipped = pair_p(values, columns, flips=flips)
        p = list(map(drawn_p, differences.T, beside, flipped))
        alone = intervals(differences, bounds=reach)
        gains = [widened(gain, sources, reach) for gain, sources in zip(alone, beside, strict=True)]
        first_side, second_side = (values[:, list(side)] for side in zip(*columns, strict=True))
        shapes = _shapes(differences, reach, vary_alike(first_side, second_side))
    else:
        k = table.shape[2]
        p = swap_p(table, columns, statistic, flips=flips).tolist()
        gains = [
            interval(
                np.concatenate([table[:, i], table[:, j]], axis=1),
                lambda means: sign * (statistic(means[:, :k]) - statistic(means[:, k:])),
                bounds=reach,
            )
            for i, j in columns
        ]
        shapes = [{}] * len(columns)
    return {
        name: Gain(gain, float(p_value), max(len(first.table), len(second.table)) - len(uids), **shape)
        for (name, (first, second)), gain, p_value, shape in zip(pairs.items(), gains, p, shapes, strict=True)
    }


def _shapes(differences: NDArray[np.float64], reach: Range, alike: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """What `Gain.too_skewed` reads of each column of differences."""
    parts = (skewness_against(differences), distribution_free_p(differences, reach), alike)
    return [
        {"skewness": float(skewness), "sure": float(sure), "alike": bool(like)}
        for skewness, sure, like in zip(*parts, strict=True)
    ]
