"""E = ∂y_t/∂A: how the target's logit reacts to an attention probability (Serrano & Smith 2019).

Defined in docs/protocols.md, section 2.
"""

from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.types import Batch
from methods.edges.base import Edges, Part, attention_and_gradient, take


@configurable
class Gradient:
    """`E[l,h,i,j] = ∂y_t/∂A[l,h,i,j]`, in logits per unit of probability.

    Attributes:
        part: "signed" or "positive".

    The source ranks the weights of one attention layer by the gradient of the decision function; with several heads and
    layers it leaves their reduction open, which the readout chooses (`attention_gradient`: mean over heads, last layer).

    Source: Serrano & Smith 2019, section 4.
    Cost: 1 forward pass, 1 backward pass.
    """

    part: Part = "signed"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Gradients of the L layers, from one forward and one backward pass."""
        return tuple(take(self.part, gradient) for gradient in attention_and_gradient(model, batch, target)[1])
