"""Information flow routes: what makes up each state, followed down from the prediction (Ferrando & Voita 2024)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import Share, configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.edges.base import each_layer
from methods.propagation.block_parts import head_vectors, residual_sums
from methods.shared.properties import MOVES_BIAS


@configurable
class InformationFlow(Method):
    """`F_{l−1}[j] = Σ_i F_l[i] (Σ_h E[l,h,i,j] + δ_ij r[l,i])` from `F_L = read`: a token's score is what flows to it.

    State i after the attention of layer l is the sum `s_i = x_i + Σ_hj f_hij + bias` of the residual x_i and what each head
    reads of each token, `f_hij = A_hij v_hj W_O^h`. A part's importance is how much nearer to s_i it leads,
    `max(0, ‖s_i‖₁ − ‖s_i − part‖₁)`, divided by the sum over all parts, which gives E of the edges and r of the residual.
    Edges up to `threshold` are left out, so that what remains are the routes to the prediction. A head's score is the flow
    through it, `Σ_ij F_l[i] E[l,h,i,j]`.

    Open in the source, which draws the graph and gives tokens no number: what flows along a route is the product of its
    edges, and a feed-forward network, which reads no other token, passes on whatever reaches it. Where norms follow the
    sums, as in BERT, s_i is the sum before its norm.

    Attributes:
        threshold: edges of at most this importance are no part of a route.

    Source: Ferrando & Voita 2024.
    Cost: 3 + H/12 forward passes.
    """

    threshold: Share = 0.0
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token and head scores, both non-negative."""
        parts = [self._explained(model, part) for part, _ in model.parts(batch)]
        tokens, heads = (torch.cat(scores) for scores in zip(*parts, strict=True))
        return Attribution(target=target, tokens=tokens * batch.attention_mask, heads=heads)

    def _explained(self, model: Classifier, batch: Batch) -> tuple[Tensor, Tensor]:
        flow, heads = model.read_weights(batch), []
        for layer, hidden, attention in reversed(tuple(each_layer(model, batch))):
            edges, residual = self._importances(model, batch, layer, hidden, attention)
            through = flow[:, None, :, None] * edges
            heads.append(through.sum((2, 3)))
            flow = through.sum((1, 2)) + flow * residual
        return flow, torch.stack(heads[::-1], dim=1)

    def _importances(
        self, model: Classifier, batch: Batch, layer: int, hidden: Tensor, attention: Tensor
    ) -> tuple[Float[Tensor, "B H T T"], Float[Tensor, "B T"]]:
        dtype = model.scores_dtype  # of half precision, whose sums have no digit left of a small part
        whole, vectors = (of(model, batch, layer, hidden).to(dtype) for of in (residual_sums, head_vectors))
        hidden, attention, length = hidden.to(dtype), attention.to(dtype), whole.norm(1, dim=-1)
        chunk = max(1, model.memory_budget // (4 * attention[..., 0].numel() * whole[0, 0].nbytes))
        columns = []
        for probabilities, of_tokens in zip(
            torch.split(attention, chunk, dim=-1), torch.split(vectors, chunk, dim=2), strict=True
        ):
            read = probabilities[..., None] * of_tokens.transpose(0, 1)[:, :, None]
            columns.append(length[:, None, :, None] - (whole[:, None, :, None] - read).norm(1, dim=-1))
        edges = torch.cat(columns, dim=-1).clamp(min=0)
        residual = (length - (whole - hidden).norm(1, dim=-1)).clamp(min=0)
        total = edges.sum((1, 3)) + residual
        total = total.masked_fill(total == 0, 1.0)
        edges, residual = edges / total[:, None, :, None], residual / total
        return edges * (edges > self.threshold), residual * (residual > self.threshold)
