"""E = (∂y_t/∂A ⊙ R)⁺ (Chefer 2021a, eq. 13; docs/protocols.md, sections 2 and 5)."""

from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.precision import Precision
from benchmark.settings.declared import configurable
from benchmark.types import Batch
from methods.edges.base import Edges, Part, attention_and_gradient, take
from methods.propagation.relevance import relevances
from methods.propagation.rule_sets import RuleName, Rules, rule_set


@configurable
class RelevanceTimesGradient:
    """`E[l,h,i,j] = (∂y_t/∂A[l,h,i,j] · R[l,h,i,j])⁺`.

    The paper's ablations (section 4), which counts blocks from the output: (i) without the gradient is
    `AttentionTimesRelevance`; (ii) block 1, the last one alone, is the readout `LastLayer(layer=-1)`; (iii) block B − 1 is
    the published code's `blocks[1]`, the second from the input: `LastLayer(layer=1)`.

    Attributes:
        rules: name of a rule set of `methods.propagation.rule_sets`, or one made with settings of its own.
        part: "positive" as published, or "signed".
        precision: of R: "float64", in which shares of sums that cancel keep their digits, or "model", the model's own; the
            latter on a device without float64, or where the error it makes (see `relevances`) is no matter.

    Source: Chefer et al. 2021a, section 3.2.
    Cost: 2 forward passes, 2 backward passes; with precision=float64 one of each in float64.
    """

    rules: RuleName | Rules = "chefer2021"
    part: Part = "positive"
    precision: Precision = "float64"
    version: ClassVar[int] = 2
    class_specific: ClassVar[bool] = True

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Products of the L layers, from two forward passes, a backward pass and a relevance pass."""
        _, gradients = attention_and_gradient(model, batch, target)
        rules = rule_set(self.rules)
        relevance = relevances(model, batch, target, rules, "attentions", precision=self.precision)
        pairs = zip(gradients, relevance, strict=True)
        return tuple(take(self.part, gradient.to(layer.dtype).mul_(layer)) for gradient, layer in pairs)
