"""Everything that an attention explainer reads of edge scores, one layer after another."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.targets import Target
from benchmark.types import Attribution, Batch
from methods.readouts.base import Readout, read_rows, reads_layer_by_layer

HeadReadout = Literal["max", "sum", "mean_abs"]


class Reading:
    """Is given the scores of each layer once, in any order, and keeps what is read of them; nothing [B L H T T].

    A readout that does not read layer by layer needs all layers at once, which are then kept.
    """

    def __init__(
        self,
        model: Classifier,
        batch: Batch,
        n_layers: int,
        readout: Readout,
        heads: HeadReadout,
        *,
        sums: bool = False,
    ) -> None:
        """`sums`: the sums over heads too, [B L T T]."""
        self.model, self.batch, self.n_layers = model, batch, n_layers
        self.readout, self.heads, self.with_sums = readout, heads, sums
        self.cells, self.read = batch.cells[:, None], model.read_weights(batch)
        self.joint_read = model.streams.join_read(self.read)
        self.is_padded = not bool(self.cells.all())
        self.of_readout: dict[int, Tensor] = {}
        self.of_heads: dict[int, Tensor] = {}
        self.rows: dict[int, Tensor] = {}
        self.totals: dict[int, Tensor] = {}
        self.sums: dict[int, Tensor] = {}

    def add(self, layer: int, scores: Float[Tensor, "B H T T"]) -> None:
        """The scores of one layer."""
        if scores.dim() != 4:
            raise ValueError(
                f"edge scores are [B H T T] (H = 1 for all heads together), but a layer's are {tuple(scores.shape)}"
            )
        edges = scores.to(self.model.scores_dtype)
        if self.with_sums:
            self.sums[layer] = edges.sum(1) * self.batch.cells
        edges = edges * self.cells if self.is_padded else edges
        self.rows[layer] = read_rows(edges, self.read)
        self.totals[layer] = edges.sum((1, 2, 3))
        if edges.shape[1] == self.model.n_heads:
            self.of_heads[layer] = self._of_heads(edges)
        self._give_readout(layer, self.model.streams.join(layer, edges))

    def attribution(self, target: Target) -> Attribution:
        """What was read, once every layer was added."""
        layers = [self.of_readout[layer] for layer in sorted(self.of_readout)]
        combine = self.readout.combine if reads_layer_by_layer(self.readout) else self.readout
        return Attribution(
            target=target,
            tokens=self.model.streams.fold(combine(tuple(layers), self.joint_read), self.batch.attention_mask),
            heads=_in_order(self.of_heads) if 0 in self.of_heads else None,
            layers=_in_order(self.rows),
            totals=_in_order(self.totals),
            edges=_in_order(self.sums) if self.with_sums else None,
        )

    def _give_readout(self, layer: int, joint: Float[Tensor, "B H N N"]) -> None:
        if not reads_layer_by_layer(self.readout):
            self.of_readout[layer] = joint
        elif self.readout.needs(layer, self.n_layers):
            self.of_readout[layer] = self.readout.reduce(joint, self.joint_read)

    def _of_heads(self, edges: Float[Tensor, "B H T T"]) -> Float[Tensor, "B H"]:
        """One score per head from its cells that are no padding."""
        if self.heads == "max":
            own = edges.masked_fill(~self.cells, -torch.inf) if self.is_padded else edges
            return own.amax((2, 3))
        if self.heads == "sum":
            return edges.sum((2, 3))
        return edges.abs().sum((2, 3)) / self.cells.sum((2, 3))


def _in_order(layers: dict[int, Tensor]) -> Tensor:
    return torch.stack([layers[layer] for layer in sorted(layers)], dim=1)
