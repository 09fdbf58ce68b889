"""What two methods are compared by: their values on the same examples, or the columns that a ratio of sums is made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import MetricColumn
from benchmark.results.record import UNDECLARED
from benchmark.results.statistics import (
    RATIOS,
    RESAMPLED,
    Interval,
    Range,
    Source,
    Statistic,
    matrix,
    of_orders,
    of_resamples,
)

Side = NamedCell | Sequence[NamedCell]
"""One method, or several random ones whose mean is meant."""


@dataclass(frozen=True)
class Sample:
    """What a method, or the mean of several, has on each example.

    Attributes:
        table: [n, k] by uid: its value, or the columns of `statistic`.
        statistic: of the means of the columns; None where the figure is the mean of the one column.
        beside: what random orders of heads, or the calibration examples that an order came from, add to the error.
        draws: how many draws a value is the mean of.
    """

    table: pd.DataFrame
    statistic: Statistic | None = None
    beside: Sequence[Source] = ()
    draws: int = 1


def cells_of(side: Side) -> Sequence[NamedCell]:
    """The cells of one side of a comparison."""
    return [side] if isinstance(side, NamedCell) else side


def figure_of(cell: NamedCell, column: MetricColumn) -> Interval | None:
    """The cell's figure for a scalar metric, or None where there is none or it is not finite."""
    test = cell.evaluation(column.evaluation)
    figure = None if test is None else test.scalar(column.metric)
    if figure is None or not math.isfinite(figure.value):
        return None
    return Interval(figure.value, figure.low, figure.high, figure.n)


def range_of(cell: NamedCell, column: MetricColumn) -> Range:
    """Least and largest possible value of a metric; infinite where the record names none."""
    test = cell.evaluation(column.evaluation)
    return (UNDECLARED if test is None else test.metric(column.metric)).bounds


def sample(side: Side, column: MetricColumn) -> Sample | None:
    """What the figure of one side is computed from, by example; of several cells the mean, over common examples.

    None where a cell has no figure, or where its rows do not give it.
    """
    samples = [_sample(cell, column) for cell in cells_of(side)]
    complete = [part for part in samples if part is not None]
    if not complete or len(complete) < len(samples) or len({part.statistic for part in complete}) > 1:
        return None
    first, *others = complete
    if first.statistic is None:
        return _of_means(cells_of(side), [part.table for part in complete], column)
    table = first.table
    for other in others:
        table = table.add(other.table)  # NaN where a cell lacks the example
    return Sample(table.dropna() / len(complete), first.statistic)


def _of_means(cells: Sequence[NamedCell], tables: Sequence[pd.DataFrame], column: MetricColumn) -> Sample:
    """The mean over all draws of all cells, and what the draws add to its error."""
    drawn = [_draws(cell, column, column.metric, table) for cell, table in zip(cells, tables, strict=True)]
    joint = pd.concat(drawn, axis=1, join="inner")
    # scores of words are drawn anew for every example: nothing is common to the examples of one seed
    beside = of_orders(joint.to_numpy()) if any(part.shape[1] > 1 for part in drawn) else []
    resampled = _draws(cells[0], column, RESAMPLED + column.metric, tables[0]) if len(cells) == 1 else None
    if resampled is not None and not resampled.empty:
        beside += of_resamples(resampled.to_numpy())
    return Sample(joint.mean(axis=1).to_frame(0), None, tuple(beside), joint.shape[1])


def _draws(cell: NamedCell, column: MetricColumn, metric: str, table: pd.DataFrame) -> pd.DataFrame:
    """Values [n, K] of one metric by example, of those in `table`, and draw; empty where there are none."""
    rows = cell.values(cell.evaluations.get(column.evaluation, ""), metric)
    if rows.empty:
        return pd.DataFrame()
    uids, values = matrix(rows)
    draws = pd.DataFrame(values, index=uids)
    return draws.loc[draws.index.intersection(table.index)]


def _sample(cell: NamedCell, column: MetricColumn) -> Sample | None:
    figure, test = figure_of(cell, column), cell.evaluation(column.evaluation)
    if figure is None or test is None:
        return None
    stored = cell.evaluations[column.evaluation]
    rule = test.derived.get(column.metric)
    names = [(column.metric, None)] if rule is None else rule.columns
    parts = [_values(cell, stored, name, x) for name, x in names]
    if any(part is None for part in parts):
        return None
    table = pd.concat([part for part in parts if part is not None], axis=1, join="inner").dropna()
    table.columns = pd.RangeIndex(len(parts))
    statistic = None if rule is None else RATIOS.get(rule.statistic)
    if len(table) != figure.n or (rule is not None and statistic is None):
        return None
    means = table.to_numpy(dtype=float).mean(axis=0, keepdims=True)
    value = float(means[0, 0] if statistic is None else statistic(means)[0])
    return Sample(table, statistic) if math.isclose(value, figure.value, rel_tol=1e-4, abs_tol=1e-6) else None


def _values(cell: NamedCell, evaluation: str, metric: str, x: float | None) -> "pd.Series[float] | None":
    """The rows of one metric of one test at one x, by uid."""
    rows = cell.values(evaluation, metric, x)
    return None if rows.empty else rows.groupby("uid", sort=True)["value"].mean()
