"""Does a finished model need its attention? Uniform attention at test time (Wiegreffe & Pinter 2019).

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from benchmark.analyses.context import Context
from benchmark.analyses.debate.edited_runs import Selected, Unedited, Weights, taken
from benchmark.analyses.debate.means import SHARE, mean_line
from benchmark.analyses.debate.resumed import Arrays, by_example
from benchmark.analyses.debate.scopes import ALL_SCOPES, Keys, ScopeNames, scopes
from benchmark.analyses.measured import figure_line
from benchmark.models.divergences import total_variation
from benchmark.results import statistics
from benchmark.results.store import Ragged
from benchmark.results.tables import Drawing, Table
from benchmark.settings.declared import Count, configurable

_UNEDITED = "none: the model as it is"
_NO_LABEL = "no example has a label"
_DIFFERENCE = (-1.0, 1.0)


@configurable
class UniformAttention:
    """Accuracy and macro-F1 when a finished model attends evenly.

    In the edited rows and heads every movable key gets the same weight, and other keys keep theirs: over all tokens it is
    1 / n for the n keys that the mask permits. Layers outside of the scope compute their own attention. Beside accuracy and
    macro-F1, the mean over the classes of 2 TP / (predicted + annotated) without those that are neither, stand their
    differences to the model as it is, paired by example, the share of decisions that change, and the mean total variation
    distance of the output.

    Means of attention over examples are not defined for texts of different lengths, so that nothing else is frozen here. Nor
    is there a rank correlation: uniform attention orders nothing.

    Attributes:
        limit: how many of the scored examples, drawn by the comparison's seed; None for all.
        scopes: which layers and rows; see `scopes.scopes`.
        keys: which weights are evened: those of all tokens, or those of words.

    Source: Wiegreffe & Pinter 2019, section 3.2, where it is trained with; here the model is finished.
    Cost: (L + 3) / 2 + 1 forward passes with all scopes. On `planted` with the tiny model about .1 s an example on one core.
    """

    version: ClassVar[int] = 1

    limit: Count | None = 200
    scopes: ScopeNames = ALL_SCOPES
    keys: Keys = "tokens"

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table with a line for the model as it is and for each scope."""
        setting = context.setting.limited(self.limit)
        batches, model = setting.data.batches, setting.model
        found = by_example(
            context, self, batches, lambda batch: self._of(Unedited.of(model, batch)), "uniform attention"
        )
        names = [scope.name for scope in scopes(model, self.scopes)]
        rows = self._base(found, len(model.labels))
        for name in names:
            rows += self._scope(name, found, len(model.labels))
        shown = [row["metric"] for row in rows if row["n"]]
        drawn = tuple(metric for metric in ("accuracy", "macro-F1") if metric in shown)
        table = Table(
            name="uniform_attention",
            title="The finished model with uniform attention",
            labels=("uniform in",),
            rows=pd.DataFrame(rows),
            sentences=(
                "Differences are to the model as it is, paired by example; below 0 uniform attention is worse.",
            ),
            drawing=Drawing("bars", x="uniform in", y=drawn) if drawn else None,
        )
        return [table]

    def _of(self, unedited: Unedited) -> Arrays:
        example = torch.arange(len(unedited.batch), device=unedited.batch.units.device)
        arrays = {"label": unedited.batch.label.cpu().numpy(), "predicted": unedited.predicted.cpu().numpy()}
        for scope in scopes(unedited.model, self.scopes):
            selected = unedited.within(scope, self.keys)
            output = selected.probabilities(example, taken(uniform(selected)))
            arrays[f"{scope.name}/predicted"] = output.argmax(-1).cpu().numpy()
            arrays[f"{scope.name}/change"] = total_variation(output, unedited.probabilities).cpu().numpy()
        return arrays

    def _base(self, found: Ragged, n_classes: int) -> list[dict[str, Any]]:
        label, predicted = found.arrays["label"], found.arrays["predicted"]
        return _quality({"uniform in": _UNEDITED}, label, predicted, n_classes)

    def _scope(self, scope: str, found: Ragged, n_classes: int) -> list[dict[str, Any]]:
        label, before, after = (found.arrays[name] for name in ("label", "predicted", f"{scope}/predicted"))
        known, labels = label >= 0, {"uniform in": scope}
        gain = (after == label).astype(float) - (before == label)
        return [
            *_quality(labels, label, after, n_classes),
            mean_line(labels, "difference of accuracy", gain[known], _DIFFERENCE, _NO_LABEL),
            _f1_line(labels, "difference of macro-F1", label[known], (after[known], before[known]), n_classes),
            mean_line(labels, "decisions changed", after != before, SHARE, "no example"),
            mean_line(labels, "change of the output", found.arrays[f"{scope}/change"], SHARE, "no example"),
        ]


def uniform(selected: Selected) -> Weights:
    """The sum of each row's movable weights, spread evenly over them [B H R T]."""
    even = {}
    for i, own in selected.weights.items():
        movable = selected.rows[i].movable[:, None]
        mass = (own * movable).sum(-1, keepdim=True)
        even[i] = torch.where(movable, mass / movable.sum(-1, keepdim=True).clamp(min=1), own)
    return even


def _quality(
    labels: Mapping[str, str], label: NDArray[Any], predicted: NDArray[Any], n_classes: int
) -> list[dict[str, Any]]:
    known = label >= 0
    return [
        mean_line(labels, "accuracy", (predicted == label)[known], SHARE, _NO_LABEL),
        _f1_line(labels, "macro-F1", label[known], (predicted[known],), n_classes),
    ]


def _f1_line(
    labels: Mapping[str, str], metric: str, label: NDArray[Any], predicted: Sequence[NDArray[Any]], n_classes: int
) -> dict[str, Any]:
    """Macro-F1 of one prediction, or that of the first less that of the second, over examples that have a label."""
    if not len(label):
        return figure_line(labels, metric, statistics.Interval(float("nan"), float("nan"), float("nan"), 0), _NO_LABEL)
    columns = np.concatenate([_counts(label, given, n_classes) for given in predicted], axis=1)
    bounds = SHARE if len(predicted) == 1 else _DIFFERENCE

    def statistic(means: NDArray[Any]) -> NDArray[Any]:
        first, *second = (macro_f1(part) for part in np.split(means, len(predicted), axis=-1))
        return first - second[0] if second else first

    return figure_line(labels, metric, statistics.interval(columns, statistic, bounds=bounds))


def _counts(label: NDArray[Any], predicted: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
    """For each example [n, 2C] whether each class is both predicted and annotated, and how often it is either."""
    classes = np.arange(n_classes)
    is_label, is_predicted = (values[:, None] == classes for values in (label, predicted))
    return np.concatenate([is_label & is_predicted, is_label.astype(float) + is_predicted], axis=1)


def macro_f1(means: NDArray[Any]) -> NDArray[Any]:
    """The mean of 2 TP / (predicted + annotated) over the classes that occur, from column means [r, 2C]."""
    both, either = np.split(means, 2, axis=-1)
    occurs = either > 0
    f1 = np.where(occurs, 2 * both / np.where(occurs, either, 1.0), 0.0)
    average: NDArray[Any] = f1.sum(-1) / occurs.sum(-1)
    return average
