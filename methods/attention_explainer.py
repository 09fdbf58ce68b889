"""An attention explainer is an edge score and a readout (docs/protocols.md, sections 2 and 3)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Explainable, Method, as_target, class_indices
from methods.edges.base import EdgeScore, LayerwiseScore, comes_layer_by_layer
from methods.readouts.base import ChecksLayers, Readout
from methods.readouts.reading import HeadReadout, Reading


@configurable
class AttentionExplainer(Method):
    """Scores edges once and reads them out to tokens, to heads and, layer by layer, at the read token.

    Tokens: `readout(E)`. Heads: `I[l,h] = max_{i,j} E[l,h,i,j]`, the signed maximum over the example's own tokens
    (Hao 2021), or the sum or the mean magnitude of the same cells. Edges of all heads together have no head scores (None).
    Layers: the read token's row of `mean_h E_l`. Cells whose query or key is padding count nowhere.

    The sources know one stream of tokens. With an encoder and a decoder the readout composes the edges of all attention
    calls over the joint nodes of both (`Streams.join`). The read token is then the decoder's, the last layer is the last
    cross-attention, and a token's score is the sum over the places that hold it (`Streams.fold`). Heads, layers and totals
    are those of the single calls.

    Attributes:
        edges: scores of the attention edges, [B L H T T]; [B L 1 T T] where they know no heads (value zeroing, ALTI).
        readout: edge scores to token scores.
        heads: edge scores to head scores: "max", "sum" or "mean_abs" (docs/protocols.md, section 3).
    """

    edges: EdgeScore
    readout: Readout
    heads: HeadReadout = "max"
    version: ClassVar[int] = 1

    @property
    def class_specific(self) -> bool:
        """Whether the scores depend on the target class."""
        return self.edges.class_specific

    def check_model(self, model: Classifier) -> None:
        """UserError for a layer of the readout's that the model does not have."""
        if isinstance(self.readout, ChecksLayers):
            self.readout.check_layers(model.n_layers)

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Attributions of a batch, computed in chunks that keep attention-sized tensors within the memory budget.

        Of an input so long that one example alone exceeds the budget several times, no more than a layer is held at once
        where the edge scores can be had layer by layer (`LayerwiseScore`).
        """
        return self._explained(model, batch, target, sums=False)

    def with_edges(self, model: Classifier, batch: Batch, target: Explainable) -> Attribution:
        """What `explain` gives, with `edges` from the same scores: their sums over heads [B L T T], 0 at padding."""
        return self._explained(model, batch, as_target(model, batch, target), sums=True)

    def edge_scores(self, model: Classifier, batch: Batch, target: Explainable) -> Float[Tensor, "B L H T T"]:
        """The scores of all edges at once, with one head where they know none; mind the memory for long inputs."""
        layers = self.edges(model, batch, self._given(as_target(model, batch, target)))
        return torch.stack([layer.to(model.scores_dtype) for layer in layers], dim=1)

    @property
    def properties(self) -> Mapping[str, str]:
        """Those of its edge score and of its readout."""
        parts = (self.edges, self.readout)
        return {check: why for part in parts for check, why in getattr(part, "properties", {}).items()}

    def sums_of_layers(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B L"]:
        """What its edge score says; NotApplicable where that says nothing."""
        if (said := getattr(self.edges, "sums_of_layers", None)) is None:
            return super().sums_of_layers(model, batch, target)
        sums: Tensor = said(model, batch, target)
        return sums

    def _given(self, target: Target) -> Any:
        """What the edge score is given: the target, or the classes where it is a plain callable."""
        if isinstance(self.edges, LayerwiseScore):
            return target
        return class_indices(target, class_specific=self.class_specific)

    def _explained(self, model: Classifier, batch: Batch, target: Target, *, sums: bool) -> Attribution:
        read = []
        for part, rows in model.parts(batch):
            own = target[rows]
            if comes_layer_by_layer(self.edges):
                reading = Reading(model, part, model.n_layers, self.readout, self.heads, sums=sums)
                self.edges.visit(model, part, own, reading.add)
            else:
                scores = self.edges(model, part, self._given(own))
                reading = Reading(model, part, len(scores), self.readout, self.heads, sums=sums)
                for layer, edges in enumerate(scores):
                    reading.add(layer, edges)
            read.append(reading.attribution(own))
        return _concatenate(read, target)


def _concatenate(parts: Sequence[Attribution], target: Target) -> Attribution:
    if len(parts) == 1:
        return parts[0]
    return Attribution.of_stored(
        {
            **{name: torch.cat([part.of_examples[name] for part in parts]) for name in parts[0].of_examples},
            **target.stored,
        }
    )
