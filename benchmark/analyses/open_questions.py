"""Questions that readers of "Self-Attention Attribution" (Hao 2021) were left with, answered by paired differences."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from benchmark import store
from benchmark.analyses.context import Context
from benchmark.analyses.figures import figures, recorded
from benchmark.declared import configurable
from benchmark.errors import NotApplicable
from benchmark.statistics import Interval, paired_difference
from benchmark.tables import Table, line

_LABELS = ("method", "question")


@configurable
class OpenQuestions:
    """Per method that was put through the tests named below, each as a mean over examples of a paired difference.

    - Does accuracy rise when the least important heads go first? The largest gain over the whole model at any share
      above 0; as it is the largest of many, its interval is too kind.
    - One pruning order for all examples or one for each? `auc_difference` of each example's own order less that of the
      common one.
    - Does a trigger need two pairs of words? Accuracy drop by two pairs less that by one.
    - Does a trigger's place matter? Accuracy drop at its best relative position less that at its worst, again the
      extremes of several; and at the words' own places less that at the best position.

    Attributes:
        pruning: the test with one order for all examples.
        pruning_each: the test with one order for each.
        triggers: the test of triggers, with `positions` and `pair_counts`.
    """

    pruning: str = "head_pruning"
    pruning_each: str = "head_pruning_each"
    triggers: str = "triggers"
    version: ClassVar[int] = 1

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table with a line per method and question."""
        rows: list[dict[str, Any]] = []
        for method, cell in context.cells.items():
            record, values = recorded(cell), store.read_rows(cell.folder)
            gain = [f for f in figures(record, self.pruning) if f["metric"] == "low_first_gain" and f["x"] > 0]
            if gain:
                best = max(gain, key=lambda figure: float(figure["value"]))
                question = "largest gain in accuracy, least important heads pruned first"
                figure = Interval(best["value"], best["low"], best["high"], best["n"])
                rows.append(_line(method, question, figure, f"share {best['x']:g}"))
            for question, found, note in self._differences(values):
                rows.append(_line(method, question, found, note))
        if not rows:
            raise NotApplicable("no method of the comparison was put through head pruning or triggers")
        return [
            Table(
                name="open_questions",
                title="Questions left open: paired differences over examples",
                labels=_LABELS,
                rows=pd.DataFrame(rows),
                sentences=tuple(_sentence(row) for row in rows if np.isfinite(row["low"])),
            )
        ]

    def _differences(self, values: pd.DataFrame) -> Iterator[tuple[str, Interval, str]]:
        own = _column(values, self.pruning_each, "auc_difference")
        common = _column(values, self.pruning, "auc_difference")
        if len(own) and len(common):
            yield "pruning AUC difference, each example's own order less one for all", _paired(own, common), ""
        one, two = (_column(values, self.triggers, "drop_of_pairs", x) for x in (1.0, 2.0))
        if len(one) and len(two):
            yield "accuracy drop by triggers, two pairs less one", _paired(two, one), ""
        table = values[(values["evaluation"] == self.triggers) & (values["metric"] == "drop_at_position")]
        positions = sorted(table["x"].unique())
        if len(positions) < 2:
            return
        columns = {x: _column(values, self.triggers, "drop_at_position", x) for x in positions}
        best, worst = (pick(positions, key=lambda x: columns[x].mean()) for pick in (max, min))
        note = f"best {best:g}, worst {worst:g}"
        yield "accuracy drop by triggers, best position less worst", _paired(columns[best], columns[worst]), note
        places = _column(values, self.triggers, "accuracy_drop")
        yield (
            "accuracy drop by triggers, own places less best position",
            _paired(places, columns[best]),
            f"best {best:g}",
        )


def _column(values: pd.DataFrame, evaluation: str, metric: str, x: float | None = None) -> "pd.Series[float]":
    """Values by uid of one metric of one test."""
    chosen = (values["evaluation"] == evaluation) & (values["metric"] == metric)
    chosen &= values["x"].isna() if x is None else values["x"] == x
    return values[chosen].groupby("uid", sort=True)["value"].mean()  # over random orders, where there are several


def _paired(a: "pd.Series[float]", b: "pd.Series[float]") -> Interval:
    common = a.index.intersection(b.index)
    return paired_difference(a[common], b[common], bounds=(-1.0, 1.0))  # all are differences of accuracies


def _line(method: str, question: str, found: Interval, note: str) -> dict[str, Any]:
    labels = dict(zip(_LABELS, (method, question), strict=True))
    return line(labels, "difference", found.value, found.low, found.high, found.n, note)


def _sentence(row: dict[str, Any]) -> str:
    verdict = "yes" if row["low"] > 0 else "the other way round" if row["high"] < 0 else "not beyond the interval"
    return f"{row['method']}: {row['question']}: {verdict}."
