"""An attention explainer is an edge score and a readout (docs/protocols.md, sections 2 and 3)."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.types import Attribution, Batch
from methods.edges.base import Edges, EdgeScore
from methods.readouts.base import ChecksLayers, Readout, read_rows
from methods.shared.explainer import Explainer, as_target

HeadReadout = Literal["max", "sum", "mean_abs"]


@configurable
class AttentionExplainer(Explainer):
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

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Attributions of a batch, computed in chunks that keep attention-sized tensors within the memory budget."""
        return _concatenate(
            [
                self._read(model, part, target[rows], self.edges(model, part, target[rows]))
                for part, rows in model.parts(batch)
            ]
        )

    def with_edges(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """What `explain` gives, with `edges` from the same scores: their sums over heads [B L T T], 0 at padding."""
        attributions = []
        for part, rows in model.parts(batch):
            edges = self.edges(model, part, target[rows])
            sums = torch.stack([layer.to(model.scores_dtype).sum(1) for layer in edges], dim=1) * part.cells[:, None]
            attributions.append(replace(self._read(model, part, target[rows], edges), edges=sums))
        return _concatenate(attributions)

    def edge_scores(
        self, model: Classifier, batch: Batch, target: Sequence[int] | Int[Tensor, "B"]
    ) -> Float[Tensor, "B L H T T"]:
        """The scores of all edges at once, with one head where they know none; mind the memory for long inputs."""
        target = as_target(model, batch, target)
        return torch.stack([layer.to(model.scores_dtype) for layer in self.edges(model, batch, target)], dim=1)

    def _read(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"], scores: Edges) -> Attribution:
        mask = batch.attention_mask
        cells = batch.cells[:, None]
        if wrong := [tuple(layer.shape) for layer in scores if layer.dim() != 4]:
            raise ValueError(f"edge scores are [B H T T] (H = 1 for all heads together), but a layer's are {wrong[0]}")
        edges = tuple(layer.to(model.scores_dtype) * cells for layer in scores)
        read, streams = model.read_weights(batch), model.streams
        return Attribution(
            target=target,
            tokens=streams.fold(self.readout(streams.join(edges), streams.join_read(read)), mask),
            heads=_head_scores(edges, cells, self.heads) if edges[0].shape[1] == model.n_heads else None,
            layers=torch.stack([read_rows(layer, read) for layer in edges], dim=1),
            totals=torch.stack([layer.sum((1, 2, 3)) for layer in edges], dim=1),
        )


def _head_scores(edges: Edges, cells: Bool[Tensor, "B 1 T T"], how: HeadReadout) -> Float[Tensor, "B L H"]:
    """One score per head from its cells that are no padding."""
    if how == "max":
        return torch.stack([layer.masked_fill(~cells, -torch.inf).amax((2, 3)) for layer in edges], dim=1)
    if how == "sum":
        return torch.stack([layer.sum((2, 3)) for layer in edges], dim=1)
    return torch.stack([layer.abs().sum((2, 3)) / cells.sum((2, 3)) for layer in edges], dim=1)


def _concatenate(parts: Sequence[Attribution]) -> Attribution:
    if len(parts) == 1:
        return parts[0]
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(Attribution)}
    return Attribution(**{name: torch.cat(rows) for name, rows in columns.items() if rows[0] is not None})
