"""The read token's row, in one layer or over all, of all heads or of one (docs/protocols.md, section 3)."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.settings.declared import configurable
from methods.edges.base import Signs, take
from methods.readouts.base import LayerwiseReadout, head_index, layer_index, read_rows


@configurable
class ReadRow(LayerwiseReadout):
    """`s_j = Σ_i read_i · mean_h E[l,h,i,j]`, or of a single head h; optionally its positive part.

    Attributes:
        layer: which layer, counted from 0 or from the end; or "mean" or "max" over all. The last one by default.
        part: "positive" clamps at 0 after the mean over heads (grad-CAM) and over layers.
        head: which head, counted from 0 or from the end; None is the mean over heads.

    Source: Serrano & Smith 2019, section 3 (one layer, one head); Chefer et al. 2021a, section 4 (mean over heads).
    Cost: no pass.

    With layer=mean:
        `s_j = mean_l Σ_i read_i · mean_h E[l,h,i,j]`, for the comparison of readouts.
        Source: this project, docs/protocols.md, section 3.

    With layer=max:
        `s_j = max_l Σ_i read_i · mean_h E[l,h,i,j]`, the signed maximum, for the comparison of readouts.
        Source: this project, docs/protocols.md, section 3.
    """

    layer: int | Literal["mean", "max"] = -1
    part: Signs = "signed"
    head: int | None = None
    version: ClassVar[int] = 1

    def check_layers(self, n_layers: int) -> None:
        """UserError where the model has no such layer."""
        if isinstance(self.layer, int):
            layer_index(self.layer, n_layers, "readout.layer")

    def needs(self, layer: int, n_layers: int) -> bool:
        """Whether it is the layer, or one of all."""
        return not isinstance(self.layer, int) or layer == layer_index(self.layer, n_layers, "readout.layer")

    def reduce(self, edges: Float[Tensor, "B H T T"], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The layer's row; raises UserError for a head that there is not."""
        if self.head is None:
            return read_rows(edges, read)
        head = head_index(self.head, edges.shape[1], "readout.head")
        return read_rows(edges[:, head : head + 1], read)

    def combine(self, layers: Sequence[Tensor], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores."""
        if isinstance(self.layer, int):
            (row,) = layers
        else:
            rows = torch.stack(list(layers))
            row = rows.amax(0) if self.layer == "max" else rows.mean(0)
        return take(self.part, row)
