"""Erasure in the attention of every layer: the effect of a unit that no token attends to (Li 2016b)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.variants import run_variants
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from benchmark.units import tokens_of
from methods.shared.input_gradients import Output
from methods.shared.unit_scores import drops_of_each, unit_attribution, visible_units


@dataclass(frozen=True)
class HideKeys:
    """Edit that sets attention on hidden keys to 0 and divides each row by what is left; an empty row stays 0."""

    hidden: Bool[Tensor, "B T"]

    def __call__(self, layer: int, probabilities: Float[Tensor, "B H T T"]) -> Float[Tensor, "B H T T"]:
        """Probabilities over the other keys."""
        visible = probabilities.masked_fill(self.hidden[:, None, None, :], 0)
        total = visible.sum(-1, keepdim=True)
        return visible / total.where(total > 0, 1)


@configurable
class AttentionMasking(Method):
    """`s_u = F(x) − F(x; A[l,h,i,j] ← 0 for every key j of unit u, rows renormalised)` in every layer and head.

    No token can read the unit's tokens, themselves included. They still stand in the residual stream, at their position.
    Renormalising after the softmax is the same as masking the score before it. A query all of whose keys are hidden (the
    first token of a decoder) attends to nothing. The source replaces inputs; to erase in the attention is our choice. It
    changes no token, moves no position, and serves images too.

    Attributes:
        output: "probability" p_t, or "logit" y_t.

    Source: Li et al. 2016b (representation erasure).
    Cost: U + 1 forward passes.
    """

    output: Output = "probability"
    version: ClassVar[int] = 2
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores."""
        visible = visible_units(batch)
        one_each = torch.eye(visible.shape[1], dtype=torch.bool, device=visible.device)[:, None, :] & visible

        def run(tensors: Mapping[str, Tensor], units: Tensor, mask: Tensor, example: Tensor) -> Tensor:
            return model.run(tensors, edits=[HideKeys(tokens_of(units, mask))]).logits

        def logits_of(one: Batch, hidden: Bool[Tensor, "N 1 U"]) -> Float[Tensor, "N 1 C"]:
            lengths = one.attention_mask.sum(1)
            return run_variants(model, one, hidden, run, lengths=lambda v: lengths[v.example])

        drops = drops_of_each(model, batch, target, one_each, logits_of, self.output)
        return unit_attribution(batch, target, drops.T)
