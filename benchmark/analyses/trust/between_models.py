"""Which rankings move when the model is another, as one that knows removals? (docs/protocols.md, section 14)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmark import progress
from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.opening import setting_of
from benchmark.analyses.trust import questions
from benchmark.analyses.trust.columns import Column, columns_of, common
from benchmark.errors import NotApplicable, UserError
from benchmark.models.history import mask_share
from benchmark.models.history import told as told_masks
from benchmark.progress.spent import Spent
from benchmark.results.statistics import ALPHA, holm, interval, sign_flip_p
from benchmark.results.tables import Table, frame, line
from benchmark.run.steps import finish
from benchmark.run.workbench import Setting
from benchmark.settings.declared import AtLeast, configurable

SAME, APART, APART_THERE, TURNED = "same order, τ_b", "pairs told apart", "told apart there", "pairs that turn"


@dataclass(frozen=True)
class Turned:
    """What is told of the pairs of methods in one test under two models.

    Attributes:
        own, other: pairs (better, worse) that are told apart under each model.
    """

    own: frozenset[tuple[str, str]]
    other: frozenset[tuple[str, str]]

    @property
    def turned(self) -> list[tuple[str, str]]:
        """Pairs that are told apart under both, each time the other way round; the better of the first model first."""
        return sorted(pair for pair in self.own if pair[::-1] in self.other)

    @property
    def told(self) -> str:
        """In words: of each method those that it was better than, and that are better under the other model."""
        passed: dict[str, list[str]] = {}
        for better, worse in self.turned:
            passed.setdefault(better, []).append(worse)
        return "; ".join(f"{better} falls behind {', '.join(own)}" for better, own in passed.items()) or "none"


def pairs_told_apart(methods: Sequence[str], own: questions.Figures, other: questions.Figures) -> Turned:
    """Pairs of methods with a paired difference that is not 0, sign-flip tests with Holm over all pairs of both models."""
    pairs = list(combinations(range(len(methods)), 2))
    differences = {(k, a, b): values[:, a] - values[:, b] for k, values in enumerate((own, other)) for a, b in pairs}
    p: NDArray[np.float64] = sign_flip_p(np.stack(list(differences.values()), axis=1))
    adjusted = holm(dict(zip(differences, p.tolist(), strict=True)))
    told: tuple[set[tuple[str, str]], set[tuple[str, str]]] = (set(), set())
    for (k, a, b), difference in differences.items():
        if adjusted[k, a, b] <= ALPHA and difference.mean():
            better, worse = (a, b) if difference.mean() > 0 else (b, a)
            told[k].add((methods[better], methods[worse]))
    return Turned(frozenset(told[0]), frozenset(told[1]))


@configurable
class BetweenModels(ModelsAnalysis):
    """Do tests order methods alike on another model of the same examples?

    For every model of `models` the comparison's methods explain the same examples, and its tests are run. For every headline
    figure of single examples: Kendall's τ_b between the methods' means under both models, examples resampled together; how
    many pairs of methods are told apart under each (paired sign-flip tests, corrected by Holm over the pairs of both
    models); and which pairs turn, being told apart under both, each time the other way round.

    With a model that was trained on masked texts beside an ordinary one it shows which rankings hang on removals being
    something that the model does not know (docs/which-test.md). A τ_b below 1 alone does not: close methods change places
    by chance, too.

    Attributes:
        models: by name, overrides that open another model for the same examples.
        methods: least number of methods that are no controls.

    Raises:
        NotApplicable: no other model is given, or no test has figures of so many methods on four examples.

    Source: this project.
    Cost: explanations and tests once more for each model.
    """

    version: ClassVar[int] = 1

    methods: Annotated[int, AtLeast(3)] = 4

    def __call__(self, context: Context) -> Sequence[Table]:
        """A line per test and other model, and one per model."""
        own, *others = self.opened(context).items()
        for name, setting in others:
            _check(context, setting, f"{setting_of(self, 'models')}.{name}")
        if not others:
            raise NotApplicable(
                "no other model is given: analyses.between_models.models={NAME:['model=hf','model.path=...']}"
            )
        columns = {column.key: column for column in columns_of(context)}
        lines: list[dict[str, Any]] = []
        with progress.step("other models", len(others), unit="models") as advance:
            for name, setting in others:
                lines += self._lines(name, columns, _columns(context, setting))
                advance(1)
        if not lines:
            raise NotApplicable(f"no test has figures of {self.methods} methods on four examples under two models")
        labels = ("test", "model")
        return [
            Table(
                name="between_models",
                title="Which rankings move when the model is another",
                labels=labels,
                rows=frame(lines, labels),
                sentences=(
                    f"Of the methods' order under {own[0]} and under another model, by test. A pair is told apart where its "
                    "paired difference is not 0 (sign-flip tests, corrected by Holm over the pairs of both models), and "
                    "turns where it is told apart under both, each time the other way round.",
                    "Close methods change places by chance: a τ_b below 1 without a pair that turns moves nothing.",
                ),
            ),
            _models([own, *others]),
        ]

    def foretold(self, spent: Spent, context: Context) -> float | None:
        """Every explanation and every test once more for each other model; what is trained for it is not known."""
        one = spent.explained(context.cells) + len(context.cells) * spent.tested()
        return len([name for name, told in self.models.items() if told is not None]) * spent.examples * one

    def _lines(self, name: str, own: Mapping[str, Column], others: Mapping[str, Column]) -> list[dict[str, Any]]:
        lines = []
        for key, column in own.items():
            if key not in others:
                continue
            first, second = common(column, others[key])
            methods = sorted(set(column.methods) & set(others[key].methods))
            if len(methods) < self.methods or len(first) < 4:
                continue
            labels, found = {"test": column.shown, "model": name}, pairs_told_apart(methods, first, second)
            possible = len(methods) * (len(methods) - 1) // 2
            lines.append(figure_line(labels, SAME, questions.order_agreement(first, second, 0, f"{key} {name}")))
            for metric, count in ((APART, len(found.own)), (APART_THERE, len(found.other))):
                note = f"{count} of {possible}"
                lines.append(line(labels, metric, n=len(first), note=note, key=f"{key}.{metric}"))
            lines.append(line(labels, TURNED, n=len(first), note=found.told, key=f"{key}.{TURNED}"))
        return lines


def _check(context: Context, setting: Setting, where: str) -> None:
    """UserError, which names the setting, where a method or a test of the comparison cannot serve the other model."""
    for name, cell in context.cells.items():
        try:
            cell.method.check_model(setting.model)
        except UserError as error:
            raise UserError(f"{where}: methods.{name}.{error}") from error


def _columns(context: Context, setting: Setting) -> Mapping[str, Column]:
    """The figures of the comparison's tests for another model, by their keys."""
    cells = {name: setting.cell(name) for name in context.cells}
    for cell in cells.values():
        finish(cell, context.evaluations)
    other = replace(context, setting=setting, cells=cells, folder=None, tables={})
    return {column.key: column for column in columns_of(other)}


def _models(settings: Sequence[tuple[str, Setting]]) -> Table:
    """How right each model is, and whether it knows masks."""
    lines: list[dict[str, Any]] = []
    for name, setting in settings:
        labels = {"model": name}
        right = setting.data.correct.numpy()
        lines.append(figure_line(labels, "accuracy", interval(right[~np.isnan(right)], bounds=(0.0, 1.0))))
        lines.append(line(labels, "in training", note=told_masks(mask_share(setting.model))))
    return Table("between_models_models", "The models", ("model",), frame(lines, ("model",)))
