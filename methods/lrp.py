"""Relevance propagated all the way down, "full LRP" (docs/protocols.md, section 5)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.precision import Precision
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.propagation.linear_rules import AlphaBeta
from methods.propagation.relevance import relevances
from methods.propagation.rule_sets import RuleName, Rules, RuleSet, rule_set
from methods.shared.properties import MOVES_BIAS, SIGNS_OF_WEIGHTS


@configurable
class Lrp(Method):
    """`s_j = Σ_d R[j,d]` with R the relevance of the first block's input, seeded at the target's logit.

    Signed, in logits; with the rule sets of Chefer 2021a, whose seed is 1, in shares of the logit. The sources go down to
    the input embeddings. Here propagation ends at the first block's input, where embeddings have been summed and
    normalised, and where token and position are one.
    An encoder–decoder has two first blocks: a token's score is the sum over the places that hold it (`Streams.fold`).

    Attributes:
        rules: name of a rule set of `methods.propagation.rule_sets`, or one made with settings of its own; "lrp" is the
            baseline of Chefer 2021a.
        precision: "float64", in which shares of sums that cancel keep their digits, or "model", the model's own: for a
            device without float64, or where its error (see `relevances`) is no matter.

    Source: Bach et al. 2015; the rule set names the source of its rules.
    Cost: 1 forward pass, 1 backward pass; with precision=float64 both in float64.
    """

    rules: RuleName | Rules = "lrp"
    precision: Precision = "float64"
    version: ClassVar[int] = 3
    class_specific: ClassVar[bool] = True

    @property
    def properties(self) -> Mapping[str, str]:
        """What its rules bring with them; those of a gradient times an input do not see by what a layer is scaled."""
        rules = rule_set(self.rules)
        if not isinstance(rules, RuleSet):
            return MOVES_BIAS
        found = {**MOVES_BIAS, **SIGNS_OF_WEIGHTS}
        if isinstance(rules.linear, AlphaBeta):
            found["sign"] = "what excites and what inhibits are shared out by themselves, each by its own sum"
        return found

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores, from one forward and one relevance pass."""
        rules, streams = rule_set(self.rules), model.streams
        sums = relevances(model, batch, target, rules, "hidden", precision=self.precision, reduce=_sum)
        joint = torch.cat([sums[entry] for entry in streams.entries], dim=1)
        return Attribution(target=target, tokens=streams.fold(joint, batch.attention_mask))


def _sum(_hidden: Tensor, relevance: Tensor, _gradient: Tensor | None) -> Tensor:
    return relevance.sum(-1)
