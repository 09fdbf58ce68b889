"""s_j = mean_h E[l,h,read,j]: the read token's row in one layer (PROTOCOLS section 1)."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from methods.edges.base import Edges, Part, check_part, take
from methods.readouts.base import layer_index, read_rows


@dataclass(frozen=True)
class LastLayer:
    """`s_j = Σ_i read_i · mean_h E[l,h,i,j]`, optionally its positive part.

    Attributes:
        layer: which layer, counted from 0 or from the end; the last by default.
        part: "positive" clamps at 0 after the mean over heads (grad-CAM).
    """

    layer: int = -1
    part: Part = "signed"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_part(self.part)

    def __call__(self, edges: Edges, read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores."""
        index = layer_index(self.layer, len(edges), "readout.layer")
        return take(self.part, read_rows(edges[index], read))
