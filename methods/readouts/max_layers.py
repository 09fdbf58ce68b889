"""s_j = max_l mean_h E[l,h,read,j]: the largest of the read token's rows over all layers.

Defined in docs/protocols.md, section 3.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from methods.edges.base import Edges
from methods.readouts.base import read_rows


@dataclass(frozen=True)
class MaxLayers:
    """`s_j = max_l Σ_i read_i · mean_h E[l,h,i,j]`, the signed maximum.

    A readout for the comparison of readouts; no paper proposes it on its own.

    Source: this project, docs/protocols.md, section 3.
    Cost: no pass.
    """

    version: ClassVar[int] = 1

    def __call__(self, edges: Edges, read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores."""
        return torch.stack([read_rows(layer, read) for layer in edges]).amax(0)
