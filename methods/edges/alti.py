"""ALTI: how much nearer a token's new state is for what each token gives to it (Ferrando 2022)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.types import Batch
from methods.edges.base import Edges, each_layer, normalize_rows
from methods.propagation.block_parts import decompose_block
from methods.shared.properties import MOVES_BIAS


@dataclass(frozen=True)
class Alti:
    """`c_ij = max(0, ‖y_i‖₁ − ‖y_i − T_i(x_j)‖₁)`, `E = c / Σ_j c`: rows in [0, 1] that sum to 1, no heads.

    y_i is the state after the attention sublayer's residual sum and layer norm, T_i(x_j) token j's part of it (see
    `methods.propagation.block_parts`). y_i contains the biases, which belong to no token. T_i(x_i) contains the residual,
    so that rollout adds no identity (`residual: false`).

    Open in the source: pre-LN blocks, where y_i is the residual sum (no norm follows); a row whose clamped contributions
    are all 0 (stays 0); the value bias, which goes with its token, as in Kobayashi 2020.

    Source: Ferrando et al. 2022, section 3.
    Cost: 3 + H/12 forward passes.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = False

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Contributions of the L layers, each [B 1 T T]."""
        return tuple(self._layer(model, batch, *recorded) for recorded in each_layer(model, batch))

    @staticmethod
    def _layer(
        model: Classifier,
        batch: Batch,
        layer: int,
        hidden: Float[Tensor, "B T D"],
        attention: Float[Tensor, "B H T T"],
    ) -> Float[Tensor, "B 1 T T"]:
        decomposed = decompose_block(model, batch, layer, hidden, attention, "layer_norm")
        columns = [
            (whole.norm(1, dim=-1) - (whole - parts).norm(1, dim=-1)).clamp(min=0)
            for whole, parts in (tuple(part.to(model.scores_dtype) for part in pair) for pair in decomposed)
        ]
        return normalize_rows(torch.cat(columns).permute(1, 2, 0)).unsqueeze(1)
