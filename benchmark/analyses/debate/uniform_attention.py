"""Does a finished model need its attention? Uniform attention at test time (Wiegreffe & Pinter 2019).

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pandas as pd
import torch
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.edited_runs import Selected, Unedited, Weights, taken
from benchmark.analyses.debate.macro_f1 import macro_f1_line
from benchmark.analyses.debate.scopes import ALL_SCOPES, Keys, Scope, ScopeNames, scopes
from benchmark.analyses.means import SHARE, mean_line
from benchmark.analyses.resumed import Arrays
from benchmark.models.divergences import total_variation
from benchmark.results.store import Ragged
from benchmark.results.tables import Drawing, Table
from benchmark.settings.declared import Count, configurable

_UNEDITED = "none: the model as it is"
_NO_LABEL = "no example has a label"
_DIFFERENCE = (-1.0, 1.0)


@configurable
class UniformAttention(Analysis):
    """Accuracy and macro-F1 when a finished model attends evenly.

    In the edited rows and heads every movable key gets the same weight, and other keys keep theirs: over all tokens it is
    1 / n for the n keys that the mask permits. Layers outside of the scope compute their own attention. Beside accuracy and
    macro-F1 stand their differences to the model as it is, paired by example, the share of decisions that change, and the
    mean total variation distance of the output.

    Means of attention over examples are not defined for texts of different lengths, so that nothing else is frozen here. Nor
    is there a rank correlation: uniform attention orders nothing.

    Attributes:
        scopes: which layers and rows; see `scopes.scopes`.
        keys: which weights are evened: those of all tokens, or those of words.

    Source: Wiegreffe & Pinter 2019, section 3.2, where it is trained with; here the model is finished.
    Cost: (L + 3) / 2 + 1 forward passes with all scopes. On `planted` with the tiny model about .1 s an example on one core.
    """

    version: ClassVar[int] = 2

    limit: Count | None = 200
    scopes: ScopeNames = ALL_SCOPES
    keys: Keys = "tokens"

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table with a line for the model as it is and for each scope."""
        setting = context.setting.limited(self.limit)
        model = setting.model
        found = self.by_example(
            context, setting, lambda batch: self._of(Unedited.of(model, batch)), "uniform attention"
        )
        rows = self._base(found)
        for scope in scopes(model, self.scopes):
            rows += self._scope(scope, found)
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

    def _base(self, found: Ragged) -> list[dict[str, Any]]:
        label, predicted = found.arrays["label"], found.arrays["predicted"]
        return _quality({"uniform in": _UNEDITED}, label, predicted)

    def _scope(self, scope: Scope, found: Ragged) -> list[dict[str, Any]]:
        label, before, after = (found.arrays[name] for name in ("label", "predicted", f"{scope.name}/predicted"))
        known, labels, key = label >= 0, {"uniform in": scope.name}, f"{scope.key}.accuracy_difference"
        gain = (after == label).astype(float) - (before == label)
        return [
            *_quality(labels, label, after),
            mean_line(labels, "difference of accuracy", gain[known], _DIFFERENCE, _NO_LABEL, key=key),
            macro_f1_line(labels, label[known], after[known], before[known]),
            mean_line(labels, "decisions changed", after != before, SHARE, "no example"),
            mean_line(labels, "change of the output", found.arrays[f"{scope.name}/change"], SHARE, "no example"),
        ]


def uniform(selected: Selected) -> Weights:
    """The sum of each row's movable weights, spread evenly over them [B H R T]."""
    even = {}
    for i, own in selected.weights.items():
        movable = selected.rows[i].movable[:, None]
        mass = (own * movable).sum(-1, keepdim=True)
        even[i] = torch.where(movable, mass / movable.sum(-1, keepdim=True).clamp(min=1), own)
    return even


def _quality(labels: Mapping[str, str], label: NDArray[Any], predicted: NDArray[Any]) -> list[dict[str, Any]]:
    known = label >= 0
    return [
        mean_line(labels, "accuracy", (predicted == label)[known], SHARE, _NO_LABEL),
        macro_f1_line(labels, label[known], predicted[known]),
    ]
