"""E = (A ⊙ R)⁺: relevance weighted by attention instead of its gradient (Chefer 2021a, ablation i).

Defined in docs/protocols.md, sections 2 and 5.
"""

from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.precision import Precision
from benchmark.settings.declared import configurable
from benchmark.types import Batch
from methods.edges.base import Edges, Part, take
from methods.propagation.relevance import relevances
from methods.propagation.rule_sets import RuleName, Rules, rule_set


@configurable
class AttentionTimesRelevance:
    """`E[l,h,i,j] = (A[l,h,i,j] · R[l,h,i,j])⁺`: equation 13 with A in the place of its gradient.

    Open in the published code: its method "rollout" of relevance alone is the mean of R⁺ over heads, without A, which is
    `Relevance` with `part: positive`.

    Attributes:
        rules: name of a rule set of `methods.propagation.rule_sets`, or one made with settings of its own.
        part: "positive" as in equation 13, or "signed".
        precision: of A and R, as in `Relevance`.

    Source: Chefer et al. 2021a, section 4 (ablation "without the gradient").
    Cost: 1 forward pass, 1 backward pass; with precision=float64 both in float64.
    """

    rules: RuleName | Rules = "chefer2021"
    part: Part = "positive"
    precision: Precision = "float64"
    version: ClassVar[int] = 2
    class_specific: ClassVar[bool] = True

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Products of the L layers, from one forward and one relevance pass."""
        rules = rule_set(self.rules)
        found = relevances(model, batch, target, rules, "attentions", precision=self.precision, reduce=torch.mul)
        return tuple(take(self.part, layer) for layer in found)
