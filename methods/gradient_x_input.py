"""Gradient × input (Denil 2014; Shrikumar 2017; docs/protocols.md, section 13)."""

from typing import ClassVar, Literal

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.attention_interface import hold_constant
from benchmark.settings.declared import configurable
from benchmark.types import Attribution, Batch
from methods.shared.explainer import Explainer
from methods.shared.input_gradients import Output, Reduce, gradient_at_input, reduce_dimensions, token_attribution


@configurable
class GradientXInput(Explainer):
    """`s_j = Σ_d ∂F/∂e[j,d] · e[j,d]` with e the token embedding before positions are added; signed, in units of F.

    The sources define the product for one number; how a vector becomes one score is open. The dot product is the
    first-order effect of setting the whole embedding to zero (Denil 2014); the L2 norm of the element-wise product is
    one of the reductions that Atanasova 2020 compares. Jain & Wallace 2019 take |Σ_d v| of the probability, once with the
    attention probabilities held constant.

    Attributes:
        reduce: "dot" (Σ_d v), "absolute" (|Σ_d v|), "l1" or "l2" norm over d of `v = ∂F/∂e[j,d] · e[j,d]`.
        output: F, the "logit" y_t or the "probability" p_t.
        attention: "differentiated", or "constant": the gradient does not flow through the attention probabilities.

    Source: Denil et al. 2014; Shrikumar et al. 2017, section 2.
    Cost: 1 forward pass, 1 backward pass.
    """

    reduce: Reduce = "dot"
    output: Output = "logit"
    attention: Literal["differentiated", "constant"] = "differentiated"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Token scores, from one forward and one backward pass."""
        edits = [hold_constant] if self.attention == "constant" else []
        embeddings, gradients = gradient_at_input(model, batch, target, self.output, edits)
        return token_attribution(batch, target, reduce_dimensions(gradients * embeddings, self.reduce))
