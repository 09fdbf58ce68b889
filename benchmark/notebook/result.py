"""What `benchmark.evaluate` gives: figures with intervals, reasons, and the value of each text."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from benchmark.errors import printable
from benchmark.report.leaderboard import NO_FIGURE
from benchmark.results.wording import arrow, bounds, number

_NOTHING = ("no example has a value", NO_FIGURE)
"""Reasons that say nothing of what was not given."""


@dataclass(frozen=True, repr=False, eq=False)
class EvaluationResult:
    """Figures of several explanations under several tests.

    Attributes:
        figures: one row per method, evaluation, metric and x, with interval, n, direction and the reason of a dash.
        rows: the value of each text: uid, method, evaluation, metric, x, value, draw.
        n: how many texts there are.
        missing: what was not given and tests may need.
    """

    figures: pd.DataFrame
    rows: pd.DataFrame
    n: int
    missing: tuple[str, ...]

    def table(self) -> pd.DataFrame:
        """One row per method and scalar metric: value, 95 % interval, n, direction, and the reason of a dash."""
        scalars = self.figures[self.figures["x"].isna()].drop(columns=["x", "headline"])
        table = scalars.rename(columns={"dash": "reason"}).reset_index(drop=True)
        table["reason"] = pd.Series([self._reason(reason) for reason in table["reason"]], dtype=object)
        return table

    def curves(self) -> pd.DataFrame:
        """One row per method, metric with an x axis, and x."""
        columns = ["method", "evaluation", "metric", "x", "value", "low", "high", "n"]
        return self.figures.loc[self.figures["x"].notna(), columns].reset_index(drop=True)

    def _reason(self, reason: Any) -> str | None:
        if reason is None or not isinstance(reason, str):
            return None
        given = f"no {' and no '.join(self.missing)} given" if self.missing and reason in _NOTHING else ""
        return f"{reason}; {given}" if given else reason

    @property
    def _texts(self) -> str:
        return f"{self.n} text{'' if self.n == 1 else 's'}"

    @property
    def _overview(self) -> tuple[list[str], list[tuple[str, list[str]]], list[str]]:
        """Methods, a line for each headline metric, and the reasons that marks refer to."""
        table, reasons = self.table(), list[str]()
        headline = self.figures.loc[self.figures["x"].isna(), "headline"].reset_index(drop=True)
        shown = table[headline] if headline.any() else table
        methods = [str(method) for method in dict.fromkeys(table["method"])]
        lines = []
        for (evaluation, metric), part in shown.groupby(["evaluation", "metric"], sort=False):
            by_method = {str(row["method"]): row for row in part.to_dict("records")}
            direction = next(arrow(row["higher_is_better"]) for row in by_method.values())
            cells = [_cell(by_method.get(method), reasons) for method in methods]
            lines.append((f"{evaluation} {metric} {direction}".strip(), cells))
        return methods, lines, reasons

    def __repr__(self) -> str:
        methods, lines, reasons = self._overview
        table = pd.DataFrame([cells for _, cells in lines], columns=methods, index=[name for name, _ in lines])
        notes = [printable(f"[{place}] {reason}") for place, reason in enumerate(reasons, start=1)]
        title = f"{self._texts}, mean [95 % interval]; .table() has all figures"
        return "\n".join([title, table.to_string(), *notes])

    def _repr_html_(self) -> str:
        return "".join(self._html())

    def _html(self) -> Iterator[str]:
        methods, lines, reasons = self._overview
        yield f"<p>{self._texts}, mean [95 % interval]; <code>.table()</code> has all figures.</p>"
        yield "<table><thead><tr><th></th>"
        yield "".join(f'<th scope="col">{escape(method)}</th>' for method in methods) + "</tr></thead><tbody>"
        for name, cells in lines:
            values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            yield f'<tr><th scope="row">{escape(name)}</th>{values}</tr>'
        notes = "<br>".join(f"[{place}] {escape(reason)}" for place, reason in enumerate(reasons, start=1))
        yield f"</tbody></table><p>{notes}</p>" if notes else "</tbody></table>"


def _cell(row: dict[Any, Any] | None, reasons: list[str]) -> str:
    """Value and interval, or a dash with the mark of its reason, which is added to `reasons`."""
    reason = NO_FIGURE if row is None else row["reason"]
    if row is None or reason is not None:
        if reason not in reasons:
            reasons.append(str(reason))
        return f"– [{reasons.index(str(reason)) + 1}]"
    return f"{number(row['value'])} {bounds(row['low'], row['high'])}".strip()
