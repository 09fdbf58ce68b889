"""A model that learns with attention that cannot: uniform, or with queries and keys that keep their first values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmark.errors import UserError
from benchmark.models import AttentionEdit, Classifier, Trace
from benchmark.models.edits import UniformLayers
from benchmark.models.precision import around
from benchmark.settings.declared import Natural, configurable
from benchmark.training.attended import AttentionTrained, Objective
from benchmark.training.starts import Start
from benchmark.types import Batch

_QUERY_KEY = ("query", "key", "q_proj", "k_proj", "q_lin", "k_lin")
"""What the families call the projections to queries and keys."""


@configurable
class FixedAttention(AttentionTrained):
    """Trained from new weights on the labels, in the base's shape, with its attention fixed (docs/protocols.md, section 16).

    `uniform`: every key that a query may attend to has the same probability, in training as afterwards, so that whoever runs
    the checkpoint has to apply `edits`. `frozen`: the projections to queries and keys are drawn anew and never updated; the
    attention still depends on the states that they read. `learned`: as usual, for comparison.

    Attributes:
        attention: `learned`, `uniform` or `frozen`.
        layers: where, counted from 0; None for all.

    Source: Wiegreffe & Pinter 2019, section 3.2, for uniform attention.
    """

    kind: ClassVar[str] = "fixed-attention"

    attention: Literal["learned", "uniform", "frozen"] = "uniform"
    layers: Sequence[Natural] | None = None

    @property
    def begins(self) -> Start:
        """`start`, with random queries and keys where they are frozen."""
        return self._random_attention if self.attention == "frozen" else self.start

    def objective(self, base: Classifier) -> Objective:
        """Cross-entropy."""
        return CrossEntropy()

    def edits(self, base: Classifier) -> tuple[AttentionEdit, ...]:
        """Uniform attention in its layers."""
        return (UniformLayers(self._chosen(base)),) if self.attention == "uniform" else ()

    def constants(self, trained: Classifier) -> Sequence[nn.Parameter]:
        """The projections to queries and keys, where they are frozen."""
        return _query_key(trained, self._chosen(trained)) if self.attention == "frozen" else ()

    def _chosen(self, model: Classifier) -> tuple[int, ...]:
        layers = range(model.n_layers) if self.layers is None else self.layers
        if outside := [layer for layer in layers if layer >= model.n_layers]:
            raise UserError(
                f"layers={list(layers)}: the model has no layer {outside[0]}, but 0 to {model.n_layers - 1}"
            )
        return tuple(layers)

    def _random_attention(self, base: Classifier) -> nn.Module:
        """The start with queries and keys from N(0, initializer_range²), without bias."""
        module = self.start(base)
        spread = float(getattr(base.config, "initializer_range", 0.02))
        with torch.no_grad():
            for parameter in _query_key(around(base, module), self._chosen(base)):
                drawn = spread * torch.randn(parameter.shape) if parameter.dim() > 1 else torch.zeros(parameter.shape)
                parameter.copy_(drawn)
        return module


@dataclass(frozen=True)
class CrossEntropy:
    """−log p of the label of each example."""

    def __call__(self, trace: Trace, batch: Batch) -> Float[Tensor, "B"]:
        """The loss of each example."""
        return torch.nn.functional.cross_entropy(trace.logits, batch.label, reduction="none")


def _query_key(model: Classifier, layers: Sequence[int]) -> list[nn.Parameter]:
    parameters = []
    for layer in layers:
        parts = dict(model.attention_modules[layer].named_children())
        found = [part for name, part in parts.items() if name in _QUERY_KEY]
        if len(found) < 2:
            raise UserError(
                f"the attention of model '{model.name}' has no separate projections to queries and keys, which frozen "
                "attention keeps constant; use attention=uniform"
            )
        parameters += [parameter for part in found for parameter in part.parameters()]
    return parameters
