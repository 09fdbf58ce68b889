"""Norms of the vectors that attention mixes (Kobayashi 2020 and 2021; Modarressi 2022; docs/protocols.md, section 2)."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.types import Batch
from methods.edges.base import Edges, each_layer
from methods.propagation.block_parts import Through, decompose_block, head_vectors, mixed
from methods.shared.properties import MOVES_BIAS


def norms(parts: Iterable[Float[Tensor, "n B T D"]]) -> Float[Tensor, "B 1 T T"]:
    """`‖part_ij‖₂`, from the parts of n tokens j at a time."""
    return torch.cat([torch.linalg.vector_norm(chunk, dim=-1) for chunk in parts]).permute(1, 2, 0).unsqueeze(1)


@configurable
class AttentionNorm:
    """`E[i,j] = ‖Σ_h A_hij f_h(x_j)‖` with `f_h(x) = (x W_V^h + b_V^h) W_O^h`, or per head `A_hij ‖f_h(x_j)‖`.

    In units of the hidden state's norm. x is what the attention reads: in a pre-LN block the state after the norm. A scale
    between W_O and the residual sum (DINOv2) belongs to f. Rows are not normalised, as in the source. The source has no
    token scores; the configured readout is the last layer's row, as for raw attention.

    Attributes:
        heads: "sum", the norm of the sum over heads, [B 1 T T]; "each", every head alone, [B H T T].

    Source: Kobayashi et al. 2020, section 2.2.
    Cost: 2 + H/12 forward passes.
    """

    heads: Literal["sum", "each"] = "sum"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = False

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Norms of the L layers."""
        return tuple(
            self._layer(model, attention, head_vectors(model, batch, layer, hidden))
            for layer, hidden, attention in each_layer(model, batch)
        )

    def _layer(
        self, model: Classifier, attention: Float[Tensor, "B H T T"], vectors: Float[Tensor, "H B T D"]
    ) -> Tensor:
        if self.heads == "sum":
            return norms(mixed(model, attention, vectors))
        lengths: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
        return attention * lengths.transpose(0, 1).unsqueeze(2)


@configurable
class AttentionNormResidual:
    """`E[i,j] = ‖f_ij + δ_ij x_j‖` or `‖LN'_i(f_ij + δ_ij x_j)‖`: the norm with the residual, and with the layer norm.

    f_ij = Σ_h A_hij f_h(x_j) as in `AttentionNorm`. LN'_i takes the mean of the part itself off, divides by the deviation of
    the whole vector, and adds no β. There are no heads. Pre-LN blocks have no norm on the residual stream, so that all
    depths are the same there.

    The source has no token scores. The configured readout is rollout of the rows normalised to 1, without an identity, since
    the edges contain the residual. The code of Ferrando et al. 2022 compares ALTI with it under the name "norm".

    Attributes:
        through: "residual" (AttnRes), "layer_norm" (AttnResLn) or "block" (GlobEnc).

    Source: Kobayashi et al. 2021, section 3.
    Cost: 3 + H/12 forward passes.

    With through=block:
        `E[i,j] = ‖LN2'_i(LN1'_i(Σ_h A_hij f_h(x_j) + δ_ij x_j))‖`, no heads.
        The feed-forward network is not decomposed. It counts in the vector whose deviation LN2' has, as in the source
        (N_Enc). The source's code multiplies the matrices as they are (`normalize: none`) and adds no identity
        (`residual: false`). Pre-LN blocks are open in the source.
        Source: Modarressi et al. 2022, section 3, and its code.
    """

    through: Through = "layer_norm"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = False

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Norms of the L layers, each [B 1 T T]."""
        return tuple(
            norms(parts for _, parts in decompose_block(model, batch, *recorded, self.through))
            for recorded in each_layer(model, batch)
        )
