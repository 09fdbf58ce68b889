"""DeepLIFT: differences from a reference, times the multipliers of the rescale rule (Shrikumar 2017)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.propagation.mode import propagating
from methods.propagation.multipliers import RescaleRule
from methods.shared.input_gradients import (
    Baseline,
    baseline_embeddings,
    embeddings_of,
    output_change,
    token_attribution,
)
from methods.shared.properties import MOVES_BIAS, MULTIPLIES_EMBEDDINGS


@configurable
class DeepLift(Method):
    """`s_j = Σ_d m[j,d] · (e − e')[j,d]`, `m = Δy_t/Δe` by the chain rule for multipliers; in logits, signed.

    Complete: `Σ_j s_j = y_t(e) − y_t(e')` up to rounding (norms that a model computes in float32 keep float32's), because
    every step is complete:

    - an activation has the multiplier Δout/Δin (rescale);
    - a product of two activations (Q·Kᵀ, A·V, gates) gives each factor its change times the mean of the other;
    - softmax is exp(z − log Σ exp z), with the rescale rule at each of its functions;
    - a norm is centring, square, mean, root and the division by it, whose rule is that of the product quotient · root.

    The paper knows no products, softmax or norms inside a network; these choices keep its summation-to-delta.
    Implementation invariance does not hold: scores depend on how softmax and norms are taken apart, as under every rescale
    rule. captum's DeepLift hooks modules and leaves a transformer's products, softmax and GELU at their gradient, which is
    not complete.

    Attributes:
        baseline: "zero", "pad" or "mask" at units; special tokens and padding stay as they are, and score 0.

    Source: Shrikumar et al. 2017, sections 3.1, 3.2 and 3.5.
    Cost: 3 forward passes, 1 backward pass (1 forward pass more for a baseline token).
    """

    baseline: Baseline = "zero"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = {**MULTIPLIES_EMBEDDINGS, **MOVES_BIAS}
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores; raises UserError for a missing baseline token, NotApplicable for an operation without a rule."""
        embeddings = embeddings_of(model, batch.tensors)
        start = baseline_embeddings(model, batch, embeddings, self.baseline)
        n_rows = max(1, model.rows_per_chunk(batch.units.shape[1]) // 2)
        parts = [
            _multipliers(model, batch, target, torch.cat([embeddings[rows], start[rows]]), rows)
            for rows in torch.split(torch.arange(len(batch), device=embeddings.device), n_rows)
        ]
        return token_attribution(batch, target, (torch.cat(parts) * (embeddings - start)).sum(-1))

    def sum_of_scores(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B"]:
        """`y_t(e) − y_t(e')`, by summation-to-delta."""
        return output_change(model, batch, target, self.baseline, "logit")


def _multipliers(
    model: Classifier,
    batch: Batch,
    target: Target,
    embeddings: Float[Tensor, "N P D"],
    rows: Int[Tensor, "R"],
) -> Float[Tensor, "R P D"]:
    """Multipliers of these examples, whose embeddings and references stand one after the other."""
    embeddings.requires_grad_()
    tensors = {name: torch.cat([tensor[rows], tensor[rows]]) for name, tensor in batch.tensors.items()}
    with propagating(model.model, RescaleRule()):
        trace = model.run(tensors, embedding_edit=lambda _: embeddings, grad=True)
    n = len(rows)
    logits = trace.logits[:n]
    (multipliers,) = model.gradients(logits, [embeddings], weights=target[rows].seed(logits))
    return multipliers[:n]
