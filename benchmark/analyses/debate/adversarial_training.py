"""How different can attention be while the outputs stay? (Wiegreffe & Pinter 2019, section 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.attention_pairs import head_divergences, in_order, matched, recorded_pairs, same_tokens
from benchmark.analyses.debate.trained import check_shapes, models_of, trained_from
from benchmark.analyses.measured import figure_line
from benchmark.analyses.opening import setting_of, with_model
from benchmark.models import AttentionEdit, Classifier
from benchmark.models.divergences import attention_divergence, kl, total_variation
from benchmark.models.edits import make_uniform
from benchmark.results.statistics import interval
from benchmark.results.tables import Drawing, Table
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Above, Natural, Rising, configurable
from benchmark.settings.early import Openings
from benchmark.types import Batch

LN_2 = float(np.log(2))
BOUNDS: Mapping[str, tuple[float, float]] = {
    "TVD": (0.0, 1.0),
    "JSD": (0.0, LN_2),
    "JSD, heads matched": (0.0, LN_2),
    "KL(model ‖ base)": (0.0, np.inf),
    "KL(base ‖ model)": (0.0, np.inf),
    "accuracy": (0.0, 1.0),
    "accuracy of the base": (0.0, 1.0),
    "accuracy less that of the base": (-1.0, 1.0),
}
"""What is reported of each model, with its range."""
_KEYS = {"TVD": "tvd", "JSD, heads matched": "jsd_matched"}
_KINDS = {"adversary": "adversary", "seed": "seed", "uniform": "uniform attention"}
"""Keys of figures, and of kinds of models -> what they are called."""


@configurable
class AdversarialTraining(Analysis):
    """The TVD–JSD curve: models trained to match the comparison's model, other seeds, and uniform attention as its points.

    For each model one line (docs/protocols.md, section 16): total variation of the outputs from the comparison's model; JSD
    and both KLs of the attention, mean over layers, heads and queries; the JSD with heads matched, since a model that
    merely exchanges its heads differs in nothing; accuracy beside the base's.

    Attributes:
        adversary: overrides of the adversary's settings; its base is the comparison's model.
        weights: the λ that are swept.
        seeds: by name, the seed of another training of the comparison's model, or overrides that open one; None leaves out
            one.

    Cost: one training for each λ, and two forward passes for each model; trained models are kept.
    """

    version: ClassVar[int] = 1

    adversary: Sequence[str] = ("model=adversarial",)
    weights: Annotated[Sequence[Annotated[float | int, Above(0)]], Rising()] = (0.01, 0.1, 1)
    seeds: Annotated[Mapping[str, Sequence[str] | Natural | None], Openings()] = field(default_factory=dict)

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table, a line per model."""
        rows: list[dict[str, Any]] = []
        base = context.setting
        for (kind, name), other in self._models(context).items():
            same_tokens(base.data.batches, other.data.batches)
            rows += _lines(kind, name, measured(other.model, base.model, base.data.batches))
        rows += _lines("uniform", "test time", measured(base.model, base.model, base.data.batches, (make_uniform,)))
        sentence = (
            "JSD in nats, at most ln 2 = 0.693; a model above and left of the seeds differs more and predicts alike."
        )
        return [
            Table(
                name="adversarial_training",
                title="Output and attention of models against the comparison's model",
                labels=("kind", "model"),
                rows=pd.DataFrame(rows),
                sentences=(sentence,),
                drawing=Drawing("scatter", x="TVD", y=("JSD, heads matched",), series="kind"),
            )
        ]

    def opened(self, context: Context) -> Mapping[str, Setting]:
        """All models by their kind and name."""
        return {f"{kind}: {name}": setting for (kind, name), setting in self._models(context).items()}

    def _models(self, context: Context) -> dict[tuple[str, str], Setting]:
        own, adversary, seeds = context.setting, setting_of(self, "adversary"), setting_of(self, "seeds")
        others = models_of(own, self.seeds, seeds)
        check_shapes(own, others)
        settings = {}
        for weight in self.weights:
            model = trained_from(own, self.adversary, adversary, divergence_weight=float(weight))
            settings["adversary", f"λ = {weight:g}"] = with_model(own, model, adversary)
        for name, model in others.items():
            settings["seed", name] = with_model(own, model, f"{seeds}.{name}")
        return settings


def measured(
    model: Classifier, base: Classifier, batches: Sequence[Batch], edits: Sequence[AttentionEdit] = ()
) -> dict[str, NDArray[np.float64]]:
    """Each of `BOUNDS` for every example; accuracies NaN where an example has no label."""
    parts: dict[str, list[torch.Tensor]] = {}
    for recorded in recorded_pairs(model, base, batches, edits):
        rows, label = recorded.rows["all queries"], recorded.batch.label
        right = [(p.argmax(-1) == label).double().masked_fill(label < 0, torch.nan) for p in recorded.probabilities]
        a, b = recorded.attentions
        found = {
            "TVD": total_variation(*recorded.probabilities),
            "heads": head_divergences(recorded, rows),
            "KL(model ‖ base)": attention_divergence(a, b, rows, kl).mean((1, 2)),
            "KL(base ‖ model)": attention_divergence(b, a, rows, kl).mean((1, 2)),
            "accuracy": right[0],
            "accuracy of the base": right[1],
            "accuracy less that of the base": right[0] - right[1],
        }
        for name, values in found.items():
            parts.setdefault(name, []).append(values)
    columns = {name: torch.cat(values).double().cpu().numpy() for name, values in parts.items()}
    heads = columns.pop("heads")
    return columns | {"JSD": in_order(heads).mean(1), "JSD, heads matched": matched(heads).mean(1)}


def _lines(kind: str, name: str, columns: Mapping[str, NDArray[np.float64]]) -> list[dict[str, Any]]:
    labels = {"kind": _KINDS[kind], "model": name}
    lines = []
    for metric, (low, high) in BOUNDS.items():
        values = columns[metric][~np.isnan(columns[metric])]
        values = values if not np.isfinite(high) else np.clip(values, low, high)  # rounding at the ends
        key = f"{kind}.{_KEYS[metric]}" if metric in _KEYS else ""
        lines.append(figure_line(labels, metric, interval(values, bounds=(low, high)), key=key))
    return lines
