"""What two methods are compared by: their values on the same examples, or the columns that a ratio of sums is made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from benchmark.report.cells import Cell, Record
from benchmark.report.leaderboard import Column
from benchmark.statistics import RATIOS, RESAMPLED, Interval, Range, Source, Statistic, matrix, of_orders, of_resamples

Side = Cell | Sequence[Cell]
"""One side of a comparison: a method's cell, or those of several random methods whose mean is meant."""


@dataclass(frozen=True)
class Sample:
    """What one side has on each example, and the error that does not come from the examples.

    Attributes:
        table: [n, k] by uid: its value, or the columns of `statistic`; means over several cells and all their draws.
        statistic: of the means of the columns; None where the figure is the mean of the one column.
        beside: what random orders of heads, or the calibration examples that an order came from, add to the error.
        draws: how many draws a value is the mean of.
    """

    table: pd.DataFrame
    statistic: Statistic | None = None
    beside: Sequence[Source] = ()
    draws: int = 1


def cells_of(side: Side) -> Sequence[Cell]:
    """The cells of one side of a comparison."""
    return [side] if isinstance(side, Cell) else side


def figure_of(cell: Cell, column: Column) -> Interval | None:
    """The cell's figure for a scalar metric, or None where there is none or it is not finite."""
    for figure in cell.evaluation(column.evaluation).get("figures") or ():
        if figure["metric"] == column.metric and figure.get("x") is None and figure.get("value") is not None:
            low, high = (math.nan if figure.get(key) is None else float(figure[key]) for key in ("low", "high"))
            found = Interval(float(figure["value"]), low, high, int(figure["n"]))
            return found if math.isfinite(found.value) else None
    return None


def range_of(cell: Cell, column: Column) -> Range:
    """Least and largest possible value of a metric; infinite where the record names none."""
    declared = (cell.evaluation(column.evaluation).get("metrics") or {}).get(column.metric) or {}
    low, high = declared.get("bounds") or (None, None)
    return -math.inf if low is None else float(low), math.inf if high is None else float(high)


def sample(side: Side, column: Column) -> Sample | None:
    """What the figure of one side is computed from, by example; of several cells the mean, over common examples.

    None where a cell has no figure, or where its rows do not give it: rows are trusted only where they do.
    """
    cells = cells_of(side)
    if any(_rule(cell, column) is not None for cell in cells):
        return _of_ratios(cells, column)
    tables = [_by_draw(cell, column) for cell in cells]
    known = [table for table in tables if table is not None]
    if not known or len(known) < len(tables):
        return None
    table = pd.concat(known, axis=1, join="inner")
    # scores of words are drawn anew for every example: nothing is common to the examples of one seed
    beside = of_orders(table.to_numpy()) if any(part.shape[1] > 1 for part in known) else []
    if len(known) == 1 and (resampled := _rows(cells[0], column.evaluation, RESAMPLED + column.metric)) is not None:
        beside += of_resamples(matrix(resampled)[1])
    return Sample(table.mean(axis=1).to_frame(0), beside=beside, draws=table.shape[1])


def _rule(cell: Cell, column: Column) -> Record | None:
    """The record's description of a metric that is a statistic of several columns."""
    rule: Record | None = (cell.evaluation(column.evaluation).get("derived") or {}).get(column.metric)
    return rule


def _by_draw(cell: Cell, column: Column) -> pd.DataFrame | None:
    """Values by uid and draw of a metric that is a mean over examples."""
    figure, rows = figure_of(cell, column), _rows(cell, column.evaluation, column.metric)
    if figure is None or rows is None:
        return None
    uids, values = matrix(rows)
    table = pd.DataFrame(values, index=uids).dropna()
    return table if _gives(table.to_numpy().mean() if len(table) else math.nan, len(table), figure) else None


def _of_ratios(cells: Sequence[Cell], column: Column) -> Sample | None:
    """The columns of a ratio, means over several cells."""
    found = [_columns(cell, column) for cell in cells]
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len({one.statistic for one in known}) > 1:
        return None
    first, *others = known
    table = first.table
    for other in others:
        table = table.add(other.table)  # NaN where one lacks the example
    return Sample(table.dropna() / len(known), first.statistic, draws=len(known))


def _columns(cell: Cell, column: Column) -> Sample | None:
    figure, rule = figure_of(cell, column), _rule(cell, column)
    statistic = None if rule is None else RATIOS.get(str(rule["statistic"]))
    if figure is None or rule is None or statistic is None:
        return None
    parts = [_rows(cell, column.evaluation, str(name), x) for name, x in rule["columns"]]
    known = [part.groupby("uid", sort=True)["value"].mean() for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    table = pd.concat(known, axis=1, join="inner").dropna()
    table.columns = pd.RangeIndex(len(known))
    value = float(statistic(table.to_numpy(dtype=float).mean(axis=0, keepdims=True))[0]) if len(table) else math.nan
    return Sample(table, statistic) if _gives(value, len(table), figure) else None


def _gives(value: float, n: int, figure: Interval) -> bool:
    """Whether rows of n examples give the figure."""
    return n == figure.n and math.isclose(value, figure.value, rel_tol=1e-4, abs_tol=1e-6)


def _rows(cell: Cell, evaluation: str, metric: str, x: float | None = None) -> pd.DataFrame | None:
    """The rows of one metric of one test (by the name shown) at one x; None where there are none."""
    stored = cell.evaluations.get(evaluation, "")
    if x is None:
        return cell.scalar_rows.get((stored, metric))
    rows = cell.rows
    chosen = rows[(rows["evaluation"] == stored) & (rows["metric"] == metric) & (rows["x"] == x)]
    return None if chosen.empty else chosen
