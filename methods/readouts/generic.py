"""Generic attention: an unnormalised rollout of positive edges (Chefer 2021b; docs/protocols.md, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from methods.readouts.base import LayerwiseReadout


@dataclass(frozen=True)
class Generic(LayerwiseReadout):
    """`s = read · (I + Ē_L) ⋯ (I + Ē_1)` with `Ē_l = mean_h E_l⁺`, which is the read row of the published recursion.

    The recursion is `R ← I; R ← R + Ē_l R` for l = 1 … L. Only the read row is asked for, so that the product is computed as
    vector times matrix, from the last layer down. Rows are not normalised.

    The read token's score keeps the identity. The published code for text sets that one entry to 0 before it shows the row
    ("disregard the [CLS] token itself"). Where the read token is special, no test here reads the entry. Where it is the
    last token of the text, a 0 would silence a word.

    Source: Chefer et al. 2021b, section 3.2, eq. 5 and 6.
    Cost: no pass.
    """

    version: ClassVar[int] = 1

    def reduce(self, edges: Float[Tensor, "B H T T"], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T T"]:
        """Ē_l."""
        return edges.clamp(min=0).mean(1)

    def combine(self, layers: Sequence[Tensor], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores, 0 or more."""
        row = read.unsqueeze(1)
        for layer in reversed(layers):
            row = row + row @ layer
        return row.squeeze(1)
