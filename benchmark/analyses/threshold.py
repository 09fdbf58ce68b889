"""How much does the threshold τ of the attribution graph matter? (Hao 2021; PROTOCOLS sections 1 and 4)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pandas as pd

from benchmark.analyses.context import Context
from benchmark.analyses.figures import figures, recorded, shown
from benchmark.declared import configurable
from benchmark.errors import NotApplicable
from benchmark.tables import Drawing, Table


@configurable
class Threshold:
    """Everything that depends on τ, side by side, for every method of the comparison that has the first curve.

    Attributes:
        curves: name shown -> (evaluation, metric), a curve over τ that the comparison's tests report.
    """

    curves: Mapping[str, Sequence[str]]
    version: ClassVar[int] = 1

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table with a line per method and τ, and the range of each figure over τ in words."""
        rows: list[dict[str, Any]] = []
        for method, cell in context.cells.items():
            record = recorded(cell)
            first, *_ = self.curves.values()
            if not any(figure["metric"] == first[1] for figure in figures(record, first[0])):
                continue
            for name, (evaluation, metric) in self.curves.items():
                for figure in figures(record, evaluation):
                    if figure["metric"] == metric:
                        rows.append(shown({"method": method, "τ": figure["x"]}, name, figure))
        if not rows:
            raise NotApplicable("no method of the comparison was tested over τ")
        table = pd.DataFrame(rows)
        names = tuple(name for name in self.curves if name in set(table["metric"]))
        return [
            Table(
                name="threshold",
                title="What depends on the threshold τ",
                labels=("method", "τ"),
                rows=table.sort_values(["method", "τ"], kind="stable"),
                sentences=tuple(self._sentences(table)),
                drawing=Drawing("curves", x="τ", y=names, series="method"),
            )
        ]

    def _sentences(self, table: pd.DataFrame) -> Sequence[str]:
        """For each method and figure, the τ of the smallest and of the largest value, and whether their intervals part."""
        found = []
        for (method, metric), part in table.groupby(["method", "metric"], sort=False):
            part = part.dropna(subset=["value"])
            if len(part) < 2:
                continue
            ordered = part.sort_values("value", kind="stable")
            least, most = ordered.iloc[0], ordered.iloc[-1]
            apart = most["low"] > least["high"]
            found.append(
                f"{method}, {metric}: from {least['value']:.3g} at τ = {least['τ']:g} to {most['value']:.3g} at "
                f"τ = {most['τ']:g}; their intervals {'do not overlap' if apart else 'overlap'}."
            )
        return found
