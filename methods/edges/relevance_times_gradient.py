"""E = (∂y_t/∂A ⊙ R)⁺ (Chefer 2021a, eq. 13; PROTOCOLS sections 1 and 2)."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.types import Batch
from methods.edges.base import Edges, Part, attention_and_gradient, check_part, take
from methods.relevance import Rules, relevance_pass, rule_set


@dataclass(frozen=True)
class RelevanceTimesGradient:
    """`E[l,h,i,j] = (∂y_t/∂A[l,h,i,j] · R[l,h,i,j])⁺`.

    The paper's ablations (section 4), which counts blocks from the output: (i) without the gradient is
    `AttentionTimesRelevance`; (ii) block 1, the last one alone, is the readout `LastLayer(layer=-1)`; (iii) block B − 1 is
    the published code's `blocks[1]`, the second from the input: `LastLayer(layer=1)`.

    Attributes:
        rules: name of a rule set of `methods.relevance.rule_sets`, or one made with settings of its own.
        part: "positive" as published, or "signed".

    Source: Chefer et al. 2021a, section 3.2.
    Cost: 2 forward passes, 2 backward passes.
    """

    rules: str | Rules = "chefer2021"
    part: Part = "positive"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_part(self.part)
        rule_set(self.rules)

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Products of the L layers, from two forward passes, a backward pass and a relevance pass."""
        _, gradients = attention_and_gradient(model, batch, target)
        _, relevance = relevance_pass(model, batch, target, rule_set(self.rules), "attentions")
        return tuple(
            take(self.part, gradient.mul_(layer)) for gradient, layer in zip(gradients, relevance, strict=True)
        )
