"""s_j = Σ_d R[j,d] at the embedding output: relevance propagated all the way down ("full LRP"; PROTOCOLS section 2)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.types import Attribution, Batch
from methods.explainer import Explainer
from methods.relevance import Rules, relevance_pass, rule_set


@dataclass(frozen=True)
class Lrp(Explainer):
    """`s_j = Σ_d R[j,d]` with R the relevance of the first block's input, seeded at the target's logit.

    Signed, in logits; with the rule sets of Chefer 2021a, whose seed is 1, in shares of the logit. The sources go down to
    the input embeddings; the first block's input is where embeddings have been summed and normalised, and where token
    and position are one.
    An encoder–decoder has two first blocks: a token's score is the sum over the places that hold it (`Streams.fold`).

    Attributes:
        rules: name of a rule set of `methods.relevance.rule_sets`, or one made with settings of its own; "lrp" is the
            baseline of Chefer 2021a.

    Source: Bach et al. 2015; the rule set names the source of its rules.
    Cost: 1 forward pass, 1 backward pass.
    """

    rules: str | Rules = "lrp"
    version: ClassVar[int] = 2
    class_specific: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rule_set(self.rules)

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Token scores, from one forward and one relevance pass."""
        _, relevance = relevance_pass(model, batch, target, rule_set(self.rules), "hidden")
        streams = model.streams
        joint = torch.cat([relevance[entry].sum(-1) for entry in streams.entries], dim=1)
        return Attribution(target=target, tokens=streams.fold(joint, batch.attention_mask))
