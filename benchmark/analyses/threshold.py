"""How much does the threshold τ of the attribution graph matter? (Hao 2021; docs/protocols.md, section 4)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import pandas as pd

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.differences import Difference, columns, difference_lines, of_extremes
from benchmark.analyses.measured import figure_line, figures, tested
from benchmark.errors import NotApplicable
from benchmark.results.tables import Drawing, Table, frame
from benchmark.settings.declared import configurable
from benchmark.settings.early import ReadsOneOf

_LABELS = ("method", "what")


@configurable
class Threshold(Analysis):
    """Curves over τ side by side, for every method of the comparison that has the first of them.

    Whether a curve depends on τ is tested by the difference between its largest and its smallest value. Their τ are chosen
    on half of the examples and compared on the others, by sign flips with Holm's correction over methods and curves.

    Attributes:
        curves: name shown -> (evaluation, metric), a curve over τ that the comparison's tests report.
    """

    curves: Annotated[Mapping[str, Sequence[str]], ReadsOneOf()]
    version: ClassVar[int] = 2

    def __call__(self, context: Context) -> Sequence[Table]:
        """Two tables: a line per method and τ, and how far the largest and the smallest value are apart."""
        rows: list[dict[str, Any]] = []
        differences: list[Difference] = []
        tests = context.tests
        for method, cell in context.cells.items():
            record, values = tested(cell, tests)
            first, *_ = self.curves.values()
            if not figures(record, *first):
                continue
            for name, (evaluation, metric) in self.curves.items():
                differences += _range_of_curve(method, name, columns(values, evaluation, metric))
                for figure in figures(record, evaluation, metric):
                    rows.append(figure_line({"method": method, "τ": figure.x}, name, figure))
        if not rows:
            raise NotApplicable("no method of the comparison was tested over τ")
        table = pd.DataFrame(rows)
        names = tuple(name for name in self.curves if name in set(table["metric"]))
        lines, sentences = difference_lines(differences)
        return [
            Table(
                name="threshold",
                title="What depends on the threshold τ",
                labels=("method", "τ"),
                rows=table.sort_values(["method", "τ"], kind="stable"),
                drawing=Drawing("curves", x="τ", y=names, series="method", alike=(self._probabilities(names),)),
            ),
            Table(
                name="threshold_range",
                title="How much the threshold τ matters: the largest value less the smallest",
                labels=_LABELS,
                rows=frame(lines, _LABELS),
                sentences=tuple(sentences),
            ),
        ]

    def _probabilities(self, names: Sequence[str]) -> tuple[str, ...]:
        """The curves that are probabilities of the target, which one scale compares."""
        return tuple(name for name in names if self.curves[name][1].endswith("_probability"))


def _range_of_curve(method: str, name: str, values: pd.DataFrame) -> Iterator[Difference]:
    """Whether a curve differs between its extremes, where it has any."""
    if values.shape[1] < 2 or len(values) < 2:
        return
    difference, largest, smallest = of_extremes(values.to_numpy())
    note = f"largest at τ = {values.columns[largest]:g}, smallest at {values.columns[smallest]:g}"
    yield Difference(dict(zip(_LABELS, (method, name), strict=True)), difference, note=note)
