"""Gradient × input (Denil 2014; Shrikumar 2017; docs/protocols.md, section 13)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.models.attention_interface import hold_constant
from benchmark.settings.declared import SettingError, configurable
from benchmark.targets import ClassTarget, Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.input_gradients import Output, Reduce, gradient_at_input, reduce_dimensions, token_attribution
from methods.shared.properties import MULTIPLIES_EMBEDDINGS

_MOST = 1_000
"""Classes that outputs=all sums over at most, a backward pass each."""


@configurable
class GradientXInput(Method):
    """`s_j = Σ_d ∂F/∂e[j,d] · e[j,d]` with e the token embedding before positions are added; signed, in units of F.

    The sources define the product for one number; how a vector becomes one score is open. The dot product is the
    first-order effect of setting the whole embedding to zero (Denil 2014); the L2 norm of the element-wise product is
    one of the reductions that Atanasova 2020 compares. Jain & Wallace 2019 take |Σ_d v| of the probability, once with the
    attention probabilities held constant; their code takes it for every output and adds up: `outputs=all` is
    `s_j = Σ_c reduce(∂F_c/∂e[j,d] · e[j,d])`, F_c the logit or the probability of class c, the same for every explained
    class. For two classes Σ_c |Σ_d v_c| of the probabilities is twice that of one of them.

    Attributes:
        reduce: "dot" (Σ_d v), "absolute" (|Σ_d v|), "l1" or "l2" norm over d of `v = ∂F/∂e[j,d] · e[j,d]`.
        output: F, the "logit" y_t or the "probability" p_t.
        attention: "differentiated", or "constant": the gradient does not flow through the attention probabilities.
        outputs: whose F, of the "explained" class, or of "all" classes, reduced for each of them and summed.

    Source: Denil et al. 2014; Shrikumar et al. 2017, section 2.
    Cost: 1 forward pass, 1 backward pass; with outputs=all one of each for every class.
    """

    reduce: Reduce = "dot"
    output: Output = "logit"
    attention: Literal["differentiated", "constant"] = "differentiated"
    outputs: Literal["explained", "all"] = "explained"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MULTIPLIES_EMBEDDINGS

    def __post_init__(self) -> None:
        if (
            self.outputs == "all" and self.reduce == "dot"
        ):  # signed scores of probabilities would cancel: they add up to 1
            raise SettingError("reduce", "dot", "absolute, l1 and l2 with outputs=all, which sums over the classes")

    @property
    def class_specific(self) -> bool:
        """A sum over all classes is the same for each of them."""
        return self.outputs == "explained"

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores, from one forward and one backward pass, or from one of each for every class."""
        if self.outputs == "explained":
            return token_attribution(batch, target, self._scores(model, batch, target))
        if len(model.labels) > _MOST:
            raise NotApplicable(
                f"outputs=all goes over all classes, and the model has {len(model.labels)}; at most {_MOST} are summed: "
                "outputs=explained"
            )
        every = [ClassTarget(torch.full_like(target.classes, c)) for c in range(len(model.labels))]
        scores = torch.stack([self._scores(model, batch, one) for one in every]).sum(0)
        return token_attribution(batch, target, scores)

    def _scores(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B P"]:
        """Of one class of each example."""
        edits = [hold_constant] if self.attention == "constant" else []
        embeddings, gradients = gradient_at_input(model, batch, target, self.output, edits)
        return reduce_dimensions(gradients * embeddings, self.reduce)
