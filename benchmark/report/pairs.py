"""Every method against every other on one metric: paired differences, their p-values, and what follows from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pandas as pd

from benchmark.report.arrangement import is_control, silent, with_shares
from benchmark.report.cells import NamedCell
from benchmark.report.gains import Gain, gains_of
from benchmark.report.leaderboard import MetricColumn, groups_with_figures, judged_columns
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.report.samples import figure_of
from benchmark.report.verdicts import NOT_COMPARED, UNPAIRED, AgainstRandom, against_random, too_few, with_figure
from benchmark.results.statistics import ALPHA, TOO_SKEWED, holm
from benchmark.results.wording import number

DIFFERENCE_COLUMNS = (
    "task", "model", "evaluation", "metric", "first", "second", "difference", "low", "high", "n", "p", "p_holm", "family",
    "better", "note",
)  # fmt: skip

_NAMED = 3  # pairs that are named in a sentence


@dataclass(frozen=True)
class MethodPairs:
    """All pairs of methods and controls that have a figure of one metric.

    Attributes:
        column: the metric.
        methods: real methods, from best to worst by their figures.
        controls: controls, in the order of the tables.
        comparisons: by (first, second) in the order of `methods` and `controls`: how much better the first is; None where
            rows are missing.
        adjusted: p-values of the pairs of real methods, Holm-corrected over them. Controls are no part of the family.
        random: the real methods against the random control.
        constant: real methods whose maps are too often constant, with the share: they are none of `methods`.
    """

    column: MetricColumn
    methods: tuple[str, ...]
    controls: tuple[str, ...]
    comparisons: Mapping[tuple[str, str], Gain | None]
    adjusted: Mapping[tuple[str, str], float]
    random: AgainstRandom | None = None
    constant: Mapping[str, float] = field(default_factory=dict)

    def differs(self, pair: tuple[str, str]) -> bool:
        """Whether a pair of `comparisons` differs significantly, and its differences are not too skewed to tell."""
        return self.adjusted.get(pair, 1.0) < ALPHA and not self.too_skewed(pair)

    def too_skewed(self, pair: tuple[str, str]) -> bool:
        """Whether a pair of `comparisons` would differ significantly, but sign flips decide nothing of such differences."""
        comparison = self.comparisons.get(pair)
        significant = comparison is not None and self.adjusted.get(pair, 1.0) < ALPHA
        return significant and comparison is not None and comparison.too_skewed(len(self.adjusted))

    def better(self, first: str, second: str) -> bool:
        """Whether the first method is significantly better than the second."""
        pair, sign = ((first, second), 1) if (first, second) in self.comparisons else ((second, first), -1)
        comparison = self.comparisons.get(pair)
        return comparison is not None and self.differs(pair) and sign * comparison.gain.value > 0

    def note(self, pair: tuple[str, str]) -> str:
        """What must be known of a pair of `comparisons`: that it is not compared, what is left out, that nothing is told."""
        if (comparison := self.comparisons[pair]) is None:
            return UNPAIRED
        return "; ".join(filter(None, (comparison.remark, TOO_SKEWED if self.too_skewed(pair) else "")))

    @property
    def reason(self) -> str:
        """Why there are too few examples for any verdict, or nothing."""
        compared = [comparison for pair in self.adjusted if (comparison := self.comparisons[pair]) is not None]
        n = min((comparison.gain.n for comparison in compared), default=0)
        decided = any(p < ALPHA for p in self.adjusted.values())
        return "" if decided or not self.adjusted else too_few(n, len(self.adjusted), f"{len(self.adjusted)} pairs")

    @property
    def sentences(self) -> list[str]:
        """What follows from the pairs of real methods: the best and its equals, and how many pairs differ."""
        missing = [f"{a} and {b}" for a, b in self.comparisons if self.comparisons[a, b] is None]
        shown = f"{len(missing)} pairs" if len(missing) > _NAMED else ", ".join(missing)
        lacking = [f"{UNPAIRED}: {shown}"] if missing else []
        lacking += [f"{NOT_COMPARED}: {with_shares(self.constant)}"] if self.constant else []
        if not self.adjusted or self.reason:
            return ([self.reason] if self.reason else []) + lacking
        best = self.methods[0]
        worse = [method for method in self.methods[1:] if self.better(best, method)]
        skewed = [method for method in self.methods[1:] if self.too_skewed((best, method))]
        equal = [method for method in self.methods[1:] if method not in worse and method not in skewed]
        differ = sum(map(self.differs, self.adjusted))
        untold = sum(map(self.too_skewed, self.adjusted))
        sentences = [f"{differ} of {len(self.adjusted)} pairs differ"]
        sentences += [f"not distinguishable from {best}, the best figure: {', '.join(equal)}"] if equal else []
        sentences += [f"worse than {best}: {', '.join(worse)}"] if worse else []
        sentences += [f"{TOO_SKEWED}: {untold} {'pair' if untold == 1 else 'pairs'}"] if untold else []
        sentences[-1:] = [f"{sentences[-1]}, {best} and {', '.join(skewed)} among them"] if skewed else sentences[-1:]
        return sentences + lacking

    @property
    def matrix(self) -> PrintedTable | None:
        """All pairs of a real method (down) and a real method or control (across); None where no pair can be compared.

        Above the diagonal: how much better the row is than the column, a star where significant. Below it: the p-value.
        """
        if not any(self.comparisons.values()):
            return None
        names = [*self.methods, *self.controls]
        rows = tuple(PrintedRow((row,), tuple(self._entry(row, name) for name in names)) for row in self.methods)
        title = self.column.heading.title
        return PrintedTable(title, (title,), tuple(map(Heading, names)), {"": rows}, counted=False)

    def _entry(self, row: str, column: str) -> PrintedEntry:
        if (row, column) not in self.comparisons:
            p = self.adjusted.get((column, row))
            return PrintedEntry(words="" if p is None else f"p {number(p)}")
        if (comparison := self.comparisons[row, column]) is None:
            return PrintedEntry(words="–")
        gain, star = comparison.gain.value, "*" if self.differs((row, column)) else ""
        return PrintedEntry(words=f"{'+' if gain > 0 else ''}{number(gain)}{star}")


def pairs(cells: Sequence[NamedCell], column: MetricColumn) -> MethodPairs | None:
    """The pairs of a ranked metric; None where fewer than two methods or controls have a figure."""
    shown = with_figure(cells, column)
    sign = -1 if column.higher_is_better else 1
    figures = {cell.method: figure_of(cell, column) for cell in shown}
    methods = [cell for cell in shown if not is_control(cell.method)]
    constant = silent(methods, column.evaluation)
    real = [cell for cell in methods if cell.method not in constant]
    best_first = sorted(real, key=lambda cell: sign * getattr(figures[cell.method], "value", 0.0))
    ordered = [*best_first, *(cell for cell in shown if is_control(cell.method))]
    if column.higher_is_better is None or len(ordered) + len(constant) < 2:
        return None
    chosen = {f"{i} {j}": (ordered[i], ordered[j]) for i, j in combinations(range(len(ordered)), 2)}
    by_name = gains_of(chosen, column)
    comparisons = {(chosen[name][0].method, chosen[name][1].method): gain for name, gain in by_name.items()}
    p = {pair: gain.p for pair, gain in comparisons.items() if gain is not None and not any(map(is_control, pair))}
    return MethodPairs(
        column=column,
        methods=tuple(cell.method for cell in best_first),
        controls=tuple(cell.method for cell in ordered[len(best_first) :]),
        comparisons=comparisons,
        adjusted=holm(p),
        random=against_random(cells, column),
        constant=constant,
    )


def every_pair(cells: Sequence[NamedCell], table: pd.DataFrame) -> dict[tuple[str, str], list[MethodPairs]]:
    """The pairs of every task and model, for the judged metrics of each of its tests.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
    """
    by_place: dict[tuple[str, str], list[MethodPairs]] = {}
    for task, model, members, part in groups_with_figures(cells, table):
        tests = [rows for _, rows in part.groupby("evaluation", sort=False)]
        by_metric = [pairs(members, column) for rows in tests for column in judged_columns(rows)]
        by_place[task, model] = [of_metric for of_metric in by_metric if of_metric is not None]
    return by_place


def differences(by_place: Mapping[tuple[str, str], Sequence[MethodPairs]]) -> pd.DataFrame:
    """The content of `differences.csv`: `difference` is first less second as measured, whatever direction is better."""
    rows = [
        {"task": task, "model": model, **row}
        for (task, model), members in by_place.items()
        for of_metric in members
        for row in _rows(of_metric)
    ]
    return pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS)).astype({"n": int, "family": "Int64"})


def _rows(of_metric: MethodPairs) -> Iterator[dict[str, Any]]:
    column, sign = of_metric.column, 1 if of_metric.column.higher_is_better else -1
    for (first, second), comparison in of_metric.comparisons.items():
        place: dict[str, Any] = {
            "evaluation": column.evaluation,
            "metric": column.metric,
            "first": first,
            "second": second,
        }
        if comparison is None:
            yield place | {"n": 0, "note": of_metric.note((first, second))}
            continue
        gain, adjusted = comparison.gain, of_metric.adjusted.get((first, second))
        low, high = sorted((sign * gain.low, sign * gain.high))
        row = place | {"difference": sign * gain.value + 0.0, "low": low, "high": high, "n": gain.n, "p": comparison.p}
        if adjusted is not None:
            better = (first if gain.value > 0 else second) if of_metric.differs((first, second)) else None
            row |= {"p_holm": adjusted, "family": len(of_metric.adjusted), "better": better}
        yield row | {"note": of_metric.note((first, second)) or None}
