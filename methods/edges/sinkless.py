"""Attention without the token that takes most of it whatever it is (docs/protocols.md, section 2)."""

from typing import ClassVar

from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Batch
from methods.edges.base import LayerVisitor, LayerwiseScore, visit_attention


@configurable
class SinklessAttention(LayerwiseScore):
    """`E[l,h,i,j] = A[l,h,i,j] / (1 − A[l,h,i,0])` for j > 0, and 0 for j = 0: attention without the first token.

    Models that read from left to right lay much of their attention on the first token, the sink, which is a word of the
    text where the tokenizer puts no token for the beginning before it. A query that attends to nothing else has a row of
    zeros, as the first token's own.

    Source: this project; attention sinks: Xiao et al. 2024.
    Cost: 1 forward pass.
    """

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def visit(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        """Attention of the L layers, renormalised."""

        def left(layer: int, attention: Tensor) -> None:
            others = attention.to(model.scores_dtype, copy=True)
            others[..., 0] = 0
            total = others.sum(-1, keepdim=True)
            visit(layer, others / total.masked_fill(total == 0, 1.0))

        visit_attention(model, batch, left)
