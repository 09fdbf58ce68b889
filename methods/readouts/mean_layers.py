"""s_j = mean_{l,h} E[l,h,read,j]: the read token's row, over all layers (docs/protocols.md, section 3)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from methods.edges.base import Edges
from methods.readouts.base import read_rows


@dataclass(frozen=True)
class MeanLayers:
    """`s_j = mean_l Σ_i read_i · mean_h E[l,h,i,j]`.

    A readout for the comparison of readouts; no paper proposes it on its own.

    Source: this project, docs/protocols.md, section 3.
    Cost: no pass.
    """

    version: ClassVar[int] = 1

    def __call__(self, edges: Edges, read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores."""
        return torch.stack([read_rows(layer, read) for layer in edges]).mean(0)
