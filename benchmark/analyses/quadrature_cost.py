"""How many steps, and which quadrature rule, does a path-integrated edge score need? (Hao 2021).

Defined in docs/protocols.md, section 6.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Annotated, Any, ClassVar

import pandas as pd
from omegaconf import OmegaConf

from benchmark import progress
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line, figures, tested
from benchmark.errors import NotApplicable, UserError
from benchmark.results.record import Record
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.steps import finish
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, configurable
from benchmark.settings.early import OfComparison
from benchmark.settings.identity import digests_of
from benchmark.types import Evaluation

logger = logging.getLogger(__name__)

_LABELS = ("rule", "m")
_METRICS = {
    "completeness gap": ("completeness", "gap"),
    "τ_b of units": ("convergence", "token_tau"),
    "τ_b of heads": ("convergence", "head_tau"),
}
_GAP, _BACKWARD = "gap", "backward"
"""Keys of the figures that sentences compare."""


@configurable
class QuadratureCost(Analysis):
    """Error against cost of a path-integrated edge score, over quadrature rules and numbers of steps m.

    Per rule and m: completeness gap, rank correlation of units and of heads with the reference of `convergence`, and the
    cost per example, counted and not estimated: seconds, forward and backward passes. For each gap in `gaps` a sentence
    names the rule and m with the fewest passes among those whose interval ends below it.

    Attributes:
        completeness: the evaluation that measures the gap.
        convergence: the evaluation that measures rank correlation with many steps.
        method: name of a method of the comparison whose edge score has `steps` and `quadrature`; theirs are replaced.
        rules: quadrature rules.
        steps: numbers of steps m.
        limit: how many of the scored examples; None for all.
        gaps: completeness gaps, in units of probability.
    """

    completeness: Evaluation
    convergence: Evaluation
    method: Annotated[str, OfComparison("methods")] = "attattr"
    rules: Sequence[str] = ("left", "right", "midpoint", "trapezoid", "gauss_legendre")
    steps: Sequence[Count] = (5, 10, 20, 40)
    limit: Count | None = 20
    gaps: Sequence[float | int] = (0.01, 0.001, 0.0001)
    version: ClassVar[int] = 2

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table with a line per rule and m.

        Raises:
            UserError: the comparison has no such method.
            NotApplicable: its edge score has no steps or no rule.
        """
        methods = context.setting.config.methods
        if self.method not in methods:
            raise UserError(f"analyses.quadrature_cost.method={self.method} is not among methods: {', '.join(methods)}")
        method: Any = context.cells[self.method].method
        edges = getattr(method, "edges", None)
        if not is_dataclass(edges) or not {"steps", "quadrature"} <= {part.name for part in fields(edges)}:
            raise NotApplicable(f"the method {self.method} has no edges.steps and edges.quadrature")
        rows = pd.DataFrame(self._rows(context.setting.limited(self.limit), method))
        drawn = tuple(name for name in _METRICS if name in set(rows["metric"]))
        table = Table(
            name="quadrature_cost",
            title="Error against cost of the number of steps m and the quadrature rule",
            labels=_LABELS,
            rows=rows,
            drawing=Drawing("curves", x="m", y=drawn, series="rule", logarithmic="x") if drawn else None,
        )
        return [replace(table, sentences=tuple(_cheapest(table, gap) for gap in self.gaps))]

    def _rows(self, setting: Setting, method: Any) -> list[dict[str, Any]]:
        settings: Any = OmegaConf.to_container(setting.config.methods[self.method], resolve=True)
        evaluations = {"completeness": self.completeness, "convergence": self.convergence}
        tests = digests_of(evaluations)
        rows: list[dict[str, Any]] = []
        for rule in self.rules:
            for steps in self.steps:
                quadrature = {"steps": steps, "quadrature": rule}
                changed = replace(method, edges=replace(method.edges, **quadrature))
                cell = setting.cell(self.method, changed, {**settings, "edges": {**settings["edges"], **quadrature}})
                with progress.scope("cell", f"{rule}, m = {steps}"):
                    finished = finish(cell, evaluations)
                logger.info("%s: %s, m = %d: %s", self.method, rule, steps, finished)
                rows += _lines({"rule": rule, "m": steps}, tested(cell, tests)[0])
        return rows


def _lines(labels: Mapping[str, Any], record: Record) -> list[dict[str, Any]]:
    n, cost = record.task.n, record.cost
    rows = [
        figure_line(labels, name, figure, key=_GAP if metric == "gap" else "")
        for name, (evaluation, metric) in _METRICS.items()
        for figure in figures(record, evaluation, metric)
        if figure.scalar
    ]
    spent = (
        ("seconds", cost.seconds, "one run"),
        ("forward", cost.forward_passes, "a count"),
        ("backward", cost.backward_passes, "a count"),
    )
    return rows + [
        line(labels, f"{name} per example", total / n, n=n, note=note, key=_BACKWARD if name == "backward" else "")
        for name, total, note in spent
        if total is not None
    ]


def _cheapest(table: Table, gap: float | int) -> str:
    """Which rules and m reach a gap with the fewest passes."""
    gaps, passes = table.keyed(_GAP), table.keyed(_BACKWARD)
    bounds = gaps.groupby(list(_LABELS))["high"].max()
    good = bounds[bounds <= gap].index
    if good.empty:
        return f"No rule and m tried has a completeness gap of at most {gap:g} (upper end of the interval)."
    spent = passes.set_index(list(_LABELS))["value"].reindex(good)
    fewest = spent.min()
    cheapest = [f"{rule} with m = {m}" for rule, m in spent[spent == fewest].index]
    return (
        f"For a completeness gap of at most {gap:g} (upper end of the interval) the fewest passes have "
        f"{' and '.join(cheapest)}: {fewest:.3g} backward passes per example."
    )
