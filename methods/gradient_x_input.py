"""s_j = Σ_d ∂y_t/∂e[j,d] · e[j,d] (Denil 2014; Shrikumar 2017; docs/protocols.md, section 13)."""

from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.types import Attribution, Batch
from methods.shared.explainer import Explainer
from methods.shared.input_gradients import Reduce, gradient_at_input, reduce_dimensions, token_attribution


@configurable
class GradientXInput(Explainer):
    """`s_j = Σ_d ∂y_t/∂e[j,d] · e[j,d]` with e the token embedding before positions are added; in logits, signed.

    The sources define the product for one number; how a vector becomes one score is open. The dot product is the
    first-order effect of setting the whole embedding to zero (Denil 2014); the L2 norm of the element-wise product is
    one of the reductions that Atanasova 2020 compares.

    Source: Denil et al. 2014; Shrikumar et al. 2017, section 2.
    Cost: 1 forward pass, 1 backward pass.

    Attributes:
        reduce: "dot" (Σ_d v), "absolute" (|Σ_d v|), "l1" or "l2" norm over d of `v = ∂y_t/∂e[j,d] · e[j,d]`.
    """

    reduce: Reduce = "dot"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Token scores, from one forward and one backward pass."""
        embeddings, gradients = gradient_at_input(model, batch, target, "logit")
        return token_attribution(batch, target, reduce_dimensions(gradients * embeddings, self.reduce))
