"""Attention scaled by the length of what it attends to (Kobayashi 2020; docs/protocols.md, section 2)."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.types import Batch
from methods.edges.base import Edges, each_layer
from methods.propagation.block_parts import refuse_cross_attention


@dataclass(frozen=True)
class AttentionTimesInputNorm:
    """`E[l,h,i,j] = A[l,h,i,j] · ‖x_j‖₂` with x the input of block l; non-negative.

    The part of `AttentionNorm` that needs no weights. Open in the source: pre-LN blocks, where x is the residual stream
    before the norm, so that its length counts.

    Source: Kobayashi et al. 2020, section 2.2 (there a step towards the norm of f(x)).
    Cost: 1 forward pass.
    """

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Products of the L layers."""
        refuse_cross_attention(model)
        layers = each_layer(model, batch)
        return tuple(attention * hidden.norm(dim=-1)[:, None, None, :] for _, hidden, attention in layers)
