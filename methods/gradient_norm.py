"""Gradient norm: how strongly the output reacts to a token's embedding (Simonyan 2014; Li 2016a)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.input_gradients import Output, gradient_at_input, reduce_dimensions, token_attribution


@configurable
class GradientNorm(Method):
    """`s_j = (Σ_d |∂y_t/∂e[j,d]|^p)^(1/p)` with e the token embedding before positions are added; never negative.

    Simonyan 2014 takes the largest magnitude over the colours of a pixel, Li 2016a shows every dimension of an
    embedding; neither says how a vector becomes one score. We take a norm, the Euclidean by default.

    Attributes:
        p: 1 or 2.
        output: "logit" y_t, or "probability" p_t.

    Source: Simonyan et al. 2014, section 3; Li et al. 2016a (first-derivative saliency).
    Cost: 1 forward pass, 1 backward pass.
    """

    p: Literal[1, 2] = 2
    output: Output = "logit"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = {
        "sign": "the gradient of a linear model does not depend on the input: words that say something else have equal norms"
    }
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores, from one forward and one backward pass."""
        _, gradients = gradient_at_input(model, batch, target, self.output)
        return token_attribution(batch, target, reduce_dimensions(gradients, "l1" if self.p == 1 else "l2"))
