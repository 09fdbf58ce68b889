"""E = R: the relevance that reaches A in relevance propagation (Voita 2019; docs/protocols.md, sections 2 and 5)."""

from typing import ClassVar

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
class Relevance:
    """`E[l,h,i,j] = R[l,h,i,j]`, read after the halving of the product A·V and before the softmax.

    Attributes:
        rules: name of a rule set of `methods.propagation.rule_sets`, or one made with settings of its own.
        part: "signed" or "positive".
        precision: "float64", in which shares of sums that cancel keep their digits, or "model", the model's own; the
            latter on a device without float64, or where the error it makes (see `relevances`) is no matter.

    Source: Voita et al. 2019, section 4.
    Cost: 1 forward pass, 1 backward pass; with precision=float64 both in float64.
    """

    rules: RuleName | Rules = "chefer2021"
    part: Part = "signed"
    precision: Precision = "float64"
    version: ClassVar[int] = 2
    class_specific: ClassVar[bool] = True

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Relevance of the L layers, from one forward and one relevance pass."""
        rules = rule_set(self.rules)
        relevance = relevances(model, batch, target, rules, "attentions", precision=self.precision)
        return tuple(take(self.part, layer) for layer in relevance)
