"""Does a model need attention that learns? Uniform and frozen attention, trained anew (Wiegreffe & Pinter 2019)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.macro_f1 import macro_f1_line
from benchmark.analyses.measured import figure_line
from benchmark.analyses.opening import with_model
from benchmark.errors import NotApplicable
from benchmark.models import AttentionEdit, Classifier
from benchmark.results.statistics import interval
from benchmark.results.tables import Drawing, Table
from benchmark.run.workbench import Setting
from benchmark.settings.declared import configurable
from benchmark.settings.making import make
from benchmark.types import Batch, Task

_OWN, _LEARNED = "accuracy less the comparison's model's", "accuracy less learned attention's"

Labels = Int[NDArray[np.int64], "N"]


class TrainsFixed(Protocol):
    """Trains models of fixed attention: a dataclass whose settings say which."""

    base: Any
    attention: str
    layers: Sequence[int] | None

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint."""

    def edits(self, base: Classifier) -> tuple[AttentionEdit, ...]:
        """What has to be applied to the checkpoint's attention."""


@dataclass(frozen=True)
class _Variant:
    setting: Setting
    edits: tuple[AttentionEdit, ...]


_QUALITIES = ("accuracy", "macro-F1")


@configurable
class TrainedUniform(Analysis):
    """Accuracy and macro-F1 of models trained from new weights with fixed attention, beside the comparison's model.

    One line per model (docs/protocols.md, section 16): the comparison's model; `learned`, trained in the same way as the
    others with attention that learns; and each of `kinds`, in all layers and, with `each_layer`, in every layer by itself.

    Attributes:
        trainer: trains them; its base is the comparison's model, of which they have the shape.
        kinds: of fixed attention.
        each_layer: also train a model for every layer.

    Cost: 1 + 2 trainings, with `each_layer` 2 L more; trained models are kept.
    """

    version: ClassVar[int] = 2

    trainer: TrainsFixed
    kinds: Sequence[Literal["uniform", "frozen"]] = ("uniform", "frozen")
    each_layer: bool = False

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table, a line per model."""
        base = context.setting
        label = torch.cat([batch.label for batch in base.data.batches]).cpu().numpy()
        known = label >= 0
        if not known.any():
            raise NotApplicable("no example has a label")
        reference = predicted(base.model, base.data.batches)
        others = {_OWN: reference[known]}
        rows = _lines({"attention": "comparison's model", "layers": "as it is"}, label[known], reference[known], {}, "")
        for (kind, layers), variant in self._variants(context).items():
            found = predicted(variant.setting.model, variant.setting.data.batches, variant.edits)[known]
            rows += _lines({"attention": kind, "layers": layers}, label[known], found, others, f"{kind}.{layers}")
            others |= {_LEARNED: found} if kind == "learned" else {}
        return [
            Table(
                name="trained_uniform",
                title="Models trained from new weights with fixed attention",
                labels=("attention", "layers"),
                rows=pd.DataFrame(rows),
                sentences=(
                    "Learned attention is trained in the same steps as the others, from the same kind of start.",
                ),
                drawing=Drawing("bars", x="layers", y=_QUALITIES, series="attention", alike=(_QUALITIES,)),
            )
        ]

    def opened(self, context: Context) -> Mapping[str, Setting]:
        """All models by what is learned or fixed in them."""
        return {" ".join(name): variant.setting for name, variant in self._variants(context).items()}

    def _variants(self, context: Context) -> dict[tuple[str, str], _Variant]:
        model = context.setting.model
        base = make(context.setting.config.model).resolve(context.setting.task)
        scopes: dict[str, tuple[int, ...] | None] = {"all": None}
        if self.each_layer:
            scopes |= {str(layer): (layer,) for layer in range(model.n_layers)}
        chosen = [("learned", "all"), *((kind, scope) for kind in self.kinds for scope in scopes)]
        variants = {}
        for kind, scope in chosen:
            trainer: Any = replace(self.trainer, base=base, attention=kind, layers=scopes[scope])  # type: ignore[type-var]  # a dataclass behind a protocol
            trained = with_model(context.setting, trainer.resolve(context.setting.task))
            variants[kind, scope] = _Variant(trained, trainer.edits(trained.model))
        return variants


def predicted(model: Classifier, batches: Sequence[Batch], edits: Sequence[AttentionEdit] = ()) -> Labels:
    """The predicted class of every example under edits of the attention."""
    parts = [model.run(part, edits=edits).logits.argmax(-1) for batch in batches for part, _ in model.parts(batch)]
    classes: Labels = torch.cat(parts).cpu().numpy()
    return classes


def _lines(
    labels: Mapping[str, str], label: Labels, found: Labels, others: Mapping[str, Labels], model: str
) -> list[dict[str, Any]]:
    """The lines of a model, which `model` names in their keys."""
    right = (found == label).astype(float)
    lines = [
        figure_line(labels, "accuracy", interval(right, bounds=(0.0, 1.0))),
        macro_f1_line(labels, label, found),
    ]
    for metric, other in others.items():
        key, less = f"{model}.less_learned" if metric == _LEARNED else "", right - (other == label)
        lines.append(figure_line(labels, metric, interval(less, bounds=(-1.0, 1.0)), key=key))
    return lines
