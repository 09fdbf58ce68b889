"""Sums over all edges of a token (docs/protocols.md, section 3)."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.settings.declared import configurable
from methods.edges.base import Signs, take
from methods.readouts.base import LayerwiseReadout

End = Literal["key", "query"]


@configurable
class ColumnSum(LayerwiseReadout):
    """`s_j = Σ_l Σ_h Σ_i E[l,h,i,j]` over the queries that are no padding, or the sum of the positive parts.

    With `scored: query` a token has instead the sum of its row, `s_i = Σ_l Σ_h Σ_j E[l,h,i,j]`.

    Grad-SAM takes the mean over layers, heads and tokens instead, which divides all tokens of a text by one number. Which
    of the two indices of its matrix remains is open. Its authors published no code, and the text of the paper was not at
    hand. Of three implementations by others one sums over keys, one averages over queries, and one takes the row of [CLS].
    Here the key remains, for two reasons. Where a classifier reads one token, the gradients of the last layer are 0 in all
    rows but that token's: a query would get nothing for what the last layer reads of a word. And a word that much is read
    from would score no more for it.

    Attributes:
        part: "positive" sums the positive edges only.
        scored: which end of an edge gets its score: the "key", what is read, or the "query", what reads.

    Source: Hao et al. 2021, section 3 (positive part); Barkan et al. 2021 (Grad-SAM), section 3.
    Cost: no pass.
    """

    part: Signs = "signed"
    scored: End = "key"
    version: ClassVar[int] = 1

    def reduce(self, edges: Float[Tensor, "B H T T"], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The layer's sums."""
        return take(self.part, edges).sum((1, 2) if self.scored == "key" else (1, 3))

    def combine(self, layers: Sequence[Tensor], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores."""
        return torch.stack(list(layers)).sum(0)
