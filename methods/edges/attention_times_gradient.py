"""E = A ⊙ ∂y_t/∂A (Barkan 2021; Chefer 2021b; docs/protocols.md, section 2)."""

from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.types import Batch
from methods.edges.base import Edges, Part, attention_and_gradient, take


@configurable
class AttentionTimesGradient:
    """`E[l,h,i,j] = A[l,h,i,j] · ∂y_t/∂A[l,h,i,j]`, in logits.

    Attributes:
        part: "signed", or "positive" as in Chefer 2021b; since A ≥ 0 that is A ⊙ (∂y_t/∂A)⁺, as Grad-SAM has it.

    Source: Barkan et al. 2021 (Grad-SAM), section 3; Chefer et al. 2021b, section 3.2, eq. 5.
    Cost: 1 forward pass, 1 backward pass.
    """

    part: Part = "signed"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Products of the L layers, from one forward and one backward pass."""
        pairs = zip(*attention_and_gradient(model, batch, target), strict=True)
        return tuple(take(self.part, attention * gradient) for attention, gradient in pairs)
