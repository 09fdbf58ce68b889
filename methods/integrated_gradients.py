"""Integrated gradients along the line from a baseline (Sundararajan 2017)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import Count, configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.input_gradients import (
    Baseline,
    Output,
    baseline_embeddings,
    embeddings_of,
    output_change,
    summed_gradients,
    token_attribution,
)
from methods.shared.properties import MULTIPLIES_EMBEDDINGS
from methods.shared.quadrature import Quadrature, nodes_and_weights


@configurable
class IntegratedGradients(Method):
    """`s_j = Σ_d (e − e')[j,d] · Σ_k w_k ∂F(e' + α_k (e − e'))/∂e[j,d]`, e the token embeddings before positions.

    The sum over k stands for the integral over the path, `∫₀¹ … dα`. Completeness: `Σ_j s_j → F(e) − F(e')` as steps grow.

    Positions, segments, special tokens and padding are the same at both ends of the path, so that special tokens score 0.
    The paper's baseline for text is the zero embedding of every token; it says nothing of [CLS] and the like, without which
    the classifier would have nothing to read. For images an embedding is a patch's, so that the baseline is the zero patch
    embedding, not the black image of the paper. A model that normalises the embeddings themselves, no position added
    (Llama, ModernBERT), changes almost wholly next to the zero baseline, where few steps fall: take `pad` there, or check
    completeness.

    Attributes:
        steps: number m of gradients on the path; the paper uses 20 to 300.
        quadrature: "right" is the paper's sum; see `nodes_and_weights`.
        baseline: "zero" (the paper's for text), "pad" or "mask" (the embedding of that token; texts only).
        output: "logit" y_t, or "probability" p_t.

    Source: Sundararajan et al. 2017, sections 3 and 5.
    Cost: m + 1 forward passes, m backward passes (1 forward pass more for a baseline token).
    """

    steps: Count = 20
    quadrature: Quadrature = "gauss_legendre"
    baseline: Baseline = "zero"
    output: Output = "logit"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MULTIPLIES_EMBEDDINGS
    class_specific: ClassVar[bool] = True

    def __post_init__(self) -> None:
        nodes_and_weights(self.quadrature, self.steps)

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores; raises UserError for a baseline token that the model does not have."""
        embeddings = embeddings_of(model, batch.tensors)
        start = baseline_embeddings(model, batch, embeddings, self.baseline)
        difference = embeddings - start
        nodes, weights = (torch.as_tensor(x).to(embeddings) for x in nodes_and_weights(self.quadrature, self.steps))
        gradients = summed_gradients(
            model, batch, target, lambda k, b: start[b] + nodes[k][:, None, None] * difference[b], weights, self.output
        )
        return token_attribution(batch, target, (difference * gradients).sum(-1))

    def sum_of_scores(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B"]:
        """`F(e) − F(e')`, by completeness."""
        return output_change(model, batch, target, self.baseline, self.output)
