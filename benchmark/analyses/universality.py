"""Are the same heads important in every task? (Hao 2021, "Universality of Important Heads").

Defined in docs/protocols.md, section 7.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Float
from torch import Tensor

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.means import CORRELATION, SHARE
from benchmark.analyses.measured import figure_line
from benchmark.analyses.opening import of_task, setting_of
from benchmark.analyses.reliability import Importance, Measured, correlations, measure, spread
from benchmark.analyses.resampling import Rank, correlation
from benchmark.analyses.universality_tables import CORRECTED, NOISE, UNRELIABLE, groups, reliabilities
from benchmark.errors import UserError
from benchmark.evaluations.head_pruning import Calibration, HeadPruning
from benchmark.results.record import Figure
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.cell import Cell
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import OfComparison, Openings
from benchmark.types import Attribution

_CORRELATIONS: Mapping[str, Rank] = {
    "Pearson r": lambda a, b: float(scipy.stats.pearsonr(a, b).statistic),
    "Spearman ρ": lambda a, b: float(scipy.stats.spearmanr(a, b).statistic),
}

HeadScores = tuple[Cell, Float[Tensor, "N L H"]]


@configurable
class Universality(Analysis):
    """Head importance of one architecture fine-tuned for several tasks.

    Tables: the importance of each head in two tasks (the points of a scatter plot); Pearson's and Spearman's correlation of
    importances for every two tasks, with intervals from resampling each task's calibration examples, and Pearson's
    corrected for the noise of these examples; how reliable each task's importance is; and accuracy in each task as heads are
    pruned, least important first, by its own ranking and by another task's.

    With `types` or `domains` one more, `universality_groups`: the mean correlation of tasks of the same type and of others,
    of the same domain and of others, and, where both are known, of tasks of the same type in different domains beside
    tasks of different types in the same domain: does importance depend on the type of task, not on its domain?

    Attributes:
        settings: by name of a task, the overrides that open it (`task=…`, `model=…` and their settings). None leaves out a
            task that another configuration names.
        methods: names of the comparison's methods whose importance is compared.
        calibration: the examples that importance is computed from.
        types, domains: by name of a task, its type (entailment, sentiment, ...) and what its texts are about.
        limit: how many examples of each task are scored.
        seed: of the resampling.
    """

    settings: Annotated[Mapping[str, Sequence[str] | None], Openings()]
    methods: Annotated[Sequence[str], OfComparison("methods")] = ("attattr",)
    calibration: Calibration = field(default_factory=Calibration)
    types: Mapping[str, str] | None = None
    domains: Mapping[str, str] | None = None
    limit: Count | None = 100
    seed: Natural = 0
    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        if sum(overrides is not None for overrides in self.settings.values()) < 2:
            raise UserError("analyses.universality.settings names fewer than two tasks; give at least two")
        for setting, known in (("types", self.types), ("domains", self.domains)):
            if missing := [name for name in self._named if known is not None and name not in known]:
                raise UserError(f"analyses.universality.{setting} lacks {', '.join(missing)}; give one for each task")

    def __call__(self, context: Context) -> Sequence[Table]:
        """Points, correlations and pruning curves."""
        if unknown := [name for name in self.methods if name not in context.cells]:
            raise UserError(
                f"analyses.universality.methods names {', '.join(unknown)}, which the comparison does not have: "
                f"{', '.join(context.cells)}"
            )
        opened = self.opened(context)
        shapes = {name: (setting.model.n_layers, setting.model.n_heads) for name, setting in opened.items()}
        if len(set(shapes.values())) > 1:
            raise UserError(f"analyses.universality.settings: layers and heads of the models differ: {shapes}")
        scores: dict[str, dict[str, HeadScores]] = {method: {} for method in self.methods}
        for method in self.methods:
            for name, setting in opened.items():
                cell = setting.cell(method)
                scores[method][name] = (cell, cell.head_scores(self.calibration, "label"))
        measured = {method: self._measured(tasks) for method, tasks in scores.items()}
        tables = [self._points(scores), self._correlations(scores, measured), reliabilities(measured)]
        if self.types is not None or self.domains is not None:
            tables.append(groups(measured, self.types, self.domains))
        return [*tables, self._pruning(opened, scores)]

    def opened(self, context: Context) -> dict[str, Setting]:
        """Every task with its model."""
        return {
            name: of_task(context.setting, overrides, self.limit, f"{setting_of(self, 'settings')}.{name}")
            for name, overrides in self._named.items()
        }

    @property
    def _named(self) -> dict[str, Sequence[str]]:
        return {name: overrides for name, overrides in self.settings.items() if overrides is not None}

    def _measured(self, tasks: Mapping[str, HeadScores]) -> dict[str, Measured]:
        return {name: measure(_importance(*pair), len(pair[1]), self.seed, name) for name, pair in tasks.items()}

    def _points(self, scores: Mapping[str, Mapping[str, HeadScores]]) -> Table:
        rows: list[dict[str, Any]] = []
        for method, tasks in scores.items():
            importance = {name: cell.aggregate(scores_of_task) for name, (cell, scores_of_task) in tasks.items()}
            for first, second in combinations(importance, 2):
                for (layer, head), value in _values_of_heads(importance[first]):
                    labels = {"importance": method, "tasks": f"{first} (x), {second} (y)", "layer": layer, "head": head}
                    rows.append(line(labels, "first task", value, n=len(tasks[first][1])))
                    value_in_second = float(importance[second][layer, head])
                    rows.append(line(labels, "second task", value_in_second, n=len(tasks[second][1])))
        return Table(
            name="universality_points",
            title="Importance of each head in two tasks",
            labels=("importance", "tasks", "layer", "head"),
            rows=pd.DataFrame(rows),
            drawing=Drawing("scatter", x="first task", y=("second task",), series="importance", panels=("tasks",)),
            printed=False,
        )

    def _correlations(
        self, scores: Mapping[str, Mapping[str, HeadScores]], measured: Mapping[str, Mapping[str, Measured]]
    ) -> Table:
        rows: list[dict[str, Any]] = []
        for method, tasks in scores.items():
            for first, second in combinations(tasks, 2):
                labels = {"importance": method, "task": first, "and": second}
                for name, rank in _CORRELATIONS.items():
                    interval = correlation(tasks[first], tasks[second], rank, together=False, seed=self.seed)
                    rows.append(figure_line(labels, name, interval, "", CORRELATION))
                pair = measured[method][first], measured[method][second]
                figure = spread(correlations(*pair, corrected=True), min(one.n for one in pair))
                rows.append(
                    figure_line(labels, CORRECTED, figure, "" if np.isfinite(figure.value) else UNRELIABLE, CORRELATION)
                )
        return Table(
            name="universality",
            title="Correlation of head importance between tasks",
            labels=("importance", "task", "and"),
            rows=pd.DataFrame(rows),
            sentences=(NOISE,),
        )

    def _pruning(self, opened: Mapping[str, Setting], scores: Mapping[str, Mapping[str, HeadScores]]) -> Table:
        rows: list[dict[str, Any]] = []
        test = HeadPruning(calibration="same")
        for method, tasks in scores.items():
            rankings = {name: cell.aggregate(scores_of_task) for name, (cell, scores_of_task) in tasks.items()}
            for task, setting in opened.items():
                for source, importance in rankings.items():
                    labels = {"importance": method, "task": task, "ranking of": source}
                    for figure in _curve(setting, importance, test):
                        rows.append(figure_line(labels | {"share pruned": figure.x}, "accuracy", figure, "", SHARE))
        return Table(
            name="universality_pruning",
            title="Accuracy as heads are pruned by their own and by another task's ranking, least important first",
            labels=("importance", "task", "ranking of", "share pruned"),
            rows=pd.DataFrame(rows),
            drawing=Drawing(
                "curves", x="share pruned", y=("accuracy",), series="ranking of", panels=("importance", "task")
            ),
        )


def _importance(cell: Cell, scores: Float[Tensor, "N L H"]) -> Importance:
    return lambda rows: cell.aggregate(scores[rows]).flatten().double().numpy()


def _values_of_heads(importance: Float[Tensor, "L H"]) -> Iterator[tuple[tuple[int, int], float]]:
    for layer, row in enumerate(importance.tolist()):
        for head, value in enumerate(row):
            yield (layer, head), value


def _curve(setting: Setting, importance: Float[Tensor, "L H"], test: HeadPruning) -> Iterator[Figure]:
    """Accuracy against the share pruned."""
    parts = []
    for index, batch in enumerate(setting.data.batches):
        target = setting.data.target(index, "label")
        heads = importance.to(batch.units.device).expand(len(batch), -1, -1)
        parts.append(test.rows(setting.model, batch, Attribution(target=target, heads=heads)))
    figures = test.reduce(pd.concat(parts, ignore_index=True))
    return (figure for figure in figures if figure.metric == "low_first_accuracy")
