"""s_j = mean_h E[l,h,read,j]: the read token's row in one layer, of all heads or of one.

Defined in docs/protocols.md, section 3.
"""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from benchmark.settings.declared import configurable
from methods.edges.base import Edges, Part, take
from methods.readouts.base import head_index, layer_index, read_rows


@configurable
class LastLayer:
    """`s_j = Σ_i read_i · mean_h E[l,h,i,j]`, or of a single head h; optionally its positive part.

    Attributes:
        layer: which layer, counted from 0 or from the end; the last by default.
        part: "positive" clamps at 0 after the mean over heads (grad-CAM).
        head: which head, counted from 0 or from the end; None is the mean over heads.

    Source: Serrano & Smith 2019, section 3 (one layer, one head); Chefer et al. 2021a, section 4 (mean over heads).
    Cost: no pass.
    """

    layer: int = -1
    part: Part = "signed"
    head: int | None = None
    version: ClassVar[int] = 1

    def __call__(self, edges: Edges, read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores."""
        index = layer_index(self.layer, len(edges), "readout.layer")
        chosen = edges[index]
        if self.head is not None:
            head = head_index(self.head, chosen.shape[1], "readout.head")
            chosen = chosen[:, head : head + 1]
        return take(self.part, read_rows(chosen, read))
