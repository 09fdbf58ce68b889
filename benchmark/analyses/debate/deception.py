"""Which explainers does a model deceive that does not attend to what it reads? (Pruthi et al. 2020)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.trained import trained_from, training_examples
from benchmark.analyses.differences import Difference, columns, difference_lines
from benchmark.analyses.measured import figure_line, tested
from benchmark.analyses.opening import setting_of, with_model
from benchmark.errors import NotApplicable
from benchmark.evaluations.rationale.rationale import WEIGHTS
from benchmark.models.classifier import Classifier
from benchmark.models.divergences import even_rows, over_rows
from benchmark.results.control_names import control_order
from benchmark.results.record import UNDECLARED
from benchmark.results.statistics import ALPHA, interval
from benchmark.results.tables import Drawing, Table, is_p_value, line
from benchmark.run.cell import Cell
from benchmark.run.steps import finish
from benchmark.run.workbench import Setting
from benchmark.settings.declared import configurable
from benchmark.settings.early import OfComparison
from benchmark.settings.making import make
from benchmark.training.deceptive import Deceptive, has_marked_words, marked_tokens, mass_elsewhere
from benchmark.types import Batch

HONEST, DECEPTIVE, GAIN = "honest model", "deceptive model", "over random, deceptive model"
UNIT = (0.0, 1.0)
CHANGE = (-1.0, 1.0)

Values = Mapping[str, NDArray[np.float64]]


@configurable
class Deception(Analysis):
    """A model that is trained to take its attention off the words of the rationale, against its honest base.

    The comparison's model is the deceptive one (`model=deceptive`), or else the honest one that `deceptive` is trained from.

    Two tables (docs/protocols.md, section 16). `deception_mass`: accuracy, and the attention mass on impermissible words,
    before and after. `deception`: how well each explainer of the comparison finds those words on either model, by a metric
    of the agreement with rationales, with the paired difference, and that to random scores on the deceptive model where
    `random` is one of the comparison's methods. The deceptive model still reads the words, as its accuracy shows. An
    explainer that finds them less well than on the honest model, and not better than random scores, is deceived. One is
    shown and not judged of which more than a tenth of the explanations are constant on either model.

    Attributes:
        evaluation: a test of the comparison, of agreement with rationales.
        metric: one of its scalars that is a mean over examples or documents.
        deceptive: overrides of the deceptive model's settings; its base is the comparison's model.

    Cost: the training once, and the explanations of the other model, which are kept in run folders of its own.
    """

    version: ClassVar[int] = 2  # 2: average precision; constant explainers are not judged

    evaluation: Annotated[str, OfComparison("evaluations")] = "rationale"
    metric: str = "average_precision"
    deceptive: Sequence[str] = ("model=deceptive",)

    def __call__(self, context: Context) -> Sequence[Table]:
        """Mass and accuracy, and the explainers."""
        both = self._both(context)
        return [_mass_table(*both), self._explainers(context, both)]

    def opened(self, context: Context) -> Mapping[str, Setting]:
        """Both models."""
        return dict(zip(("honest", "deceptive"), self._both(context), strict=True))

    def _both(self, context: Context) -> tuple[Setting, Setting]:
        """The honest and the deceptive model, one of which is the comparison's own."""
        own = context.setting
        if isinstance(make(own.config.model), Deceptive):
            return with_model(own, own.config.model.base), own
        if not has_marked_words(training_examples(own.task)):
            raise NotApplicable(f"task {own.task.name} has no rationales in its training split")
        where = setting_of(self, "deceptive")
        return own, with_model(own, trained_from(own, self.deceptive, where), where)

    def _explainers(self, context: Context, both: tuple[Setting, Setting]) -> Table:
        scores: dict[str, tuple[Values, Values]] = {}
        silent: dict[str, str] = {}
        of_test = {self.evaluation: context.tests[self.evaluation]}
        for name in context.cells:
            cells = [setting.cell(name) for setting in both]
            for cell in cells:
                finish(cell, {self.evaluation: context.evaluations[self.evaluation]})
            before, after = (self._values(cell, context) for cell in cells)
            scores[name] = (before, after)
            silences = [tested(cell, of_test)[0].evaluations[self.evaluation].silence for cell in cells]
            if any(silences) and not control_order(name):
                silent[name] = next(filter(None, silences))
        rows, sentences = explainer_lines(scores, silent)
        shown = Drawing("scatter", x=HONEST, y=(DECEPTIVE,), series="explainer")
        declared = context.evaluations[self.evaluation].metrics.get(self.metric, UNDECLARED)
        measured = declared.title or self.metric
        title = f"{measured[:1].upper()}{measured[1:]} of explainers on an honest and on a deceptive model"
        drawn = shown if any(row["metric"] == DECEPTIVE for row in rows) else None
        return Table("deception", title, ("explainer",), pd.DataFrame(rows), tuple(sentences), drawn)

    def _values(self, cell: Cell, context: Context) -> Values:
        """The metric of each example, by uid; none where the method cannot be served."""
        _, rows = tested(cell, {self.evaluation: context.tests[self.evaluation]})
        found = columns(rows, self.evaluation, self.metric)
        if found.empty and self.metric in WEIGHTS:  # examples of several documents hold sums
            sums = columns(rows, self.evaluation, f"{self.metric}_sum")
            found = (sums / columns(rows, self.evaluation, WEIGHTS[self.metric])).dropna()
        return {str(uid): row for uid, row in zip(found.index, found.to_numpy(), strict=True)}


def explainer_lines(
    scores: Mapping[str, tuple[Values, Values]], silent: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[dict[str, Any]], list[str]]:
    """Lines of each explainer from its scores by uid on the honest and on the deceptive model, and what they say.

    The family of Holm's correction is the explainers whose scores differ at all: a control does not look at the model. Those
    that are `silent` have their figures, and the reason why nothing is said of them.
    """
    rows: list[dict[str, Any]] = []
    questions, above = [], []
    random = scores.get("random", ({}, {}))[1]
    for name, (honest, deceptive) in scores.items():
        labels, shared = {"explainer": name}, sorted(honest.keys() & deceptive.keys())
        if not shared:
            rows.append(line(labels, DECEPTIVE, note="it scores no words here"))
            continue
        before, after = (np.array([side[uid][0] for uid in shared]) for side in (honest, deceptive))
        not_judged = f"not judged: {silent[name]}" if name in silent else ""
        rows.append(figure_line(labels, HONEST, interval(before, bounds=UNIT), not_judged))
        rows.append(figure_line(labels, DECEPTIVE, interval(after, bounds=UNIT), not_judged))
        if not_judged:
            continue
        if name != "random" and (common := sorted(deceptive.keys() & random.keys())):
            gain = interval([deceptive[uid][0] - random[uid][0] for uid in common], bounds=CHANGE)
            rows.append(figure_line(labels, GAIN, gain, key=f"{name}.over_random"))
            above += [name] if gain.low > 0 and (after != before).any() else []
        if (after != before).any():
            questions.append(Difference(labels, after - before, reach=CHANGE))
        else:
            rows.append(figure_line(labels, "difference", interval(after - before), "it does not look at the model"))
    tests, _ = difference_lines(questions)
    sentences = _verdicts(tests, above, with_random=bool(random))
    if silent:
        sentences.append(f"Not judged: {', '.join(f'{name} ({why})' for name, why in silent.items())}.")
    return [*rows, *tests], sentences


def _verdicts(tests: Sequence[Mapping[str, Any]], above: Sequence[str], *, with_random: bool) -> list[str]:
    differences = {row["explainer"]: row["value"] for row in tests if not is_p_value(row)}
    sure = {row["explainer"] for row in tests if is_p_value(row) and row["value"] < ALPHA}
    worse = [name for name in differences if name in sure and differences[name] < 0]
    better = [name for name in differences if name in sure and differences[name] > 0]
    named = {"Worse at finding the words than on the honest model": worse}
    if with_random:
        named = {
            "Deceived: worse than on the honest model, and not above random scores": [
                n for n in worse if n not in above
            ],
            "Worse than on the honest model, but above random scores": [n for n in worse if n in above],
        }
    named |= {
        "Better at finding the words than on the honest model": better,
        "Without a difference that can be told": [name for name in differences if name not in sure],
    }
    return [f"{group}: {', '.join(names) or 'none'}." for group, names in named.items()]


def masses(model: Classifier, batches: Sequence[Batch]) -> dict[str, NDArray[np.float64]]:
    """Attention mass on impermissible tokens of the examples that have some, mean over heads, by where it is read.

    Rows are that of the token that the classifier reads, per layer, and the mean over all queries and layers. The share of
    tokens that are impermissible is what uniform attention would give.
    """
    parts: dict[str, list[torch.Tensor]] = {}
    for batch in batches:
        for part, _ in model.parts(batch):
            marked = marked_tokens(part)
            attentions = model.run(part, record=("attentions",)).attentions
            mass = 1 - mass_elsewhere(attentions, marked).mean(2)  # [B, L, T]
            read, even = model.read_weights(part), even_rows(part.attention_mask, mass.dtype)
            by_layer = over_rows(mass, read[:, None].to(mass.dtype))
            named = {_of_layer(layer): by_layer[:, layer] for layer in range(mass.shape[1])}
            named["all queries and layers"] = over_rows(mass, even[:, None]).mean(1)
            named["share of tokens"] = (marked * even).sum(1)
            for name, values in named.items():
                parts.setdefault(name, []).append(values[marked.any(1)])
    return {name: torch.cat(values).double().cpu().numpy() for name, values in parts.items()}


def _of_layer(layer: int) -> str:
    """What the mass is called that the classifier's token reads in a layer."""
    return f"read token, layer {layer}"


def _mass_table(honest: Setting, deceptive: Setting) -> Table:
    before, after = (
        {"accuracy": correct(setting), **masses(setting.model, setting.data.batches)} for setting in (honest, deceptive)
    )
    read = [_of_layer(layer) for layer in range(honest.model.n_layers)]
    rows = []
    for name in before:
        key = "read_token.difference" if name in read else ""
        labels = {"of": name if name == "accuracy" else f"mass on the words: {name}"}
        rows.append(figure_line(labels, HONEST, interval(before[name], bounds=UNIT)))
        rows.append(figure_line(labels, DECEPTIVE, interval(after[name], bounds=UNIT)))
        if (after[name] != before[name]).any():
            change = interval(after[name] - before[name], bounds=CHANGE)
            rows.append(figure_line(labels, "difference", change, key=key))
    title = "Accuracy and attention on impermissible words of an honest and of a deceptive model"
    sentence = "Mass is the mean over heads; uniform attention gives the share of tokens."
    return Table("deception_mass", title, ("of",), pd.DataFrame(rows), (sentence,))


def correct(setting: Setting) -> NDArray[np.float64]:
    """1 where the label is predicted, else 0, of the examples that have a label."""
    predicted = setting.data.predicted
    label = torch.cat([batch.label.cpu() for batch in setting.data.batches])
    values: NDArray[np.float64] = (predicted == label)[label >= 0].double().numpy()
    return values
