"""Rollout of edge scores through the layers (Abnar & Zuidema 2020; docs/protocols.md, section 3)."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.settings.declared import configurable
from methods.edges.base import Edges, normalize_rows
from methods.readouts.base import layer_index


@configurable
class Rollout:
    """`Â_l = I + mean_h E_l`, rows normalised to 1 (or not), composed from the last layer down to `start_layer`.

    `s = read · Â_L ⋯ Â_start`. Only the read row is asked for, so that the product is computed as vector times matrix, from
    the last layer down. Attention has no row of zeros, but a clamped edge score can have one; it stays 0 under "row".

    Attributes:
        start_layer: lowest layer of the product, counted from 0 or from the end. 0 is the paper's.
        normalize: "row" divides each row of Â_l by its sum; "none" is what Chefer 2021a's ViT script does.
        residual: add the identity. False: Â_l = mean_h E_l, for edge scores that contain the residual (value zeroing,
            ALTI, GlobEnc).

    Source: Abnar & Zuidema 2020, section 3; Chefer et al. 2021a, eq. 14.
    Cost: no pass.
    """

    start_layer: int = 0
    normalize: Literal["row", "none"] = "row"
    residual: bool = True
    version: ClassVar[int] = 1

    def check_layers(self, n_layers: int) -> None:
        """UserError where the model has no such layer."""
        layer_index(self.start_layer, n_layers, "readout.start_layer")

    def __call__(self, edges: Edges, read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores; non-negative where the edges are."""
        start = layer_index(self.start_layer, len(edges), "readout.start_layer")
        identity = torch.eye(read.shape[1], dtype=read.dtype, device=read.device)
        row = read.unsqueeze(1)
        for layer in reversed(edges[start:]):
            mixing = identity + layer.mean(1) if self.residual else layer.mean(1)
            if self.normalize == "row":
                mixing = normalize_rows(mixing)
            row = row @ mixing
        return row.squeeze(1)
