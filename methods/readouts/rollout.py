"""Rollout of edge scores through the layers (Abnar & Zuidema 2020; docs/protocols.md, section 3)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.settings.declared import configurable
from methods.edges.base import normalize_rows
from methods.readouts.base import LayerwiseReadout, layer_index
from methods.shared.properties import FOLLOWS_PLACES


@configurable
class Rollout(LayerwiseReadout):
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
    properties: ClassVar[Mapping[str, str]] = FOLLOWS_PLACES

    def check_layers(self, n_layers: int) -> None:
        """UserError where the model has no such layer."""
        layer_index(self.start_layer, n_layers, "readout.start_layer")

    def needs(self, layer: int, n_layers: int) -> bool:
        """Whether the layer is part of the product."""
        return layer >= layer_index(self.start_layer, n_layers, "readout.start_layer")

    def reduce(self, edges: Float[Tensor, "B H T T"], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T T"]:
        """The mean over heads."""
        return edges.mean(1)

    def combine(self, layers: Sequence[Tensor], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores; non-negative where the edges are."""
        identity = torch.eye(read.shape[1], dtype=read.dtype, device=read.device)
        row = read.unsqueeze(1)
        for layer in reversed(layers):
            mixing = identity + layer if self.residual else layer
            if self.normalize == "row":
                mixing = normalize_rows(mixing)
            row = row @ mixing
        return row.squeeze(1)
