"""E[i,j] = ‖part_ij of the block's output‖ with residuals and both layer norms (Modarressi 2022).

Defined in docs/protocols.md, section 2.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.types import Batch
from methods.edges.attention_norm import part_norms
from methods.edges.base import Edges


@dataclass(frozen=True)
class GlobEnc:
    """`E[i,j] = ‖LN2'_i(LN1'_i(Σ_h A_hij f_h(x_j) + δ_ij x_j))‖`, no heads.

    LN' has the deviation of the whole vector and no β. The feed-forward network is no part of the decomposition but of the
    vector whose deviation LN2' has, as in the source (N_Enc). Aggregated, as in the published code, by the product of the
    matrices as they are (`normalize: none`), without an added identity (`residual: false`). Open in the source: pre-LN
    blocks, which have no norm on the residual stream; there the edges are those of `AttentionNormResidual`.

    Source: Modarressi et al. 2022, section 3, and its code.
    Cost: 3 + H/12 forward passes.
    """

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Norms of the L layers, each [B 1 T T]."""
        return part_norms(model, batch, "block")
