"""AttCAT: attentive class activation tokens (Qiang 2022)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method

Queries = Literal["mean", "read"]


@configurable
class AttCat(Method):
    """`s_j = Σ_l a_l[j] · CAT_l[j]`, `CAT_l[j] = Σ_d ∂y_t/∂h_l[j,d] · h_l[j,d]`, `a_l[j] = mean_h a[l,h,j]`.

    h_l is the input of block l, as in the published code: `hidden_states[l]`, the embeddings first. The output of the last
    block takes no part. `a[l,h,j]` is, as there, the mean of A[l,h,i,j] over the example's own queries i: how much token j
    is attended to. With `queries: read` it is the row of the token that the classifier reads. Gradients are total: they
    flow through the attention of later blocks. The published notebooks hide [CLS] and [SEP] from the model; here it sees
    them.

    The source knows no encoder–decoder. There each block of both streams counts with its self-attention, and a token's
    score is the sum over the places that hold it (`Streams.fold`).

    Attributes:
        queries: whose attention to a token counts: the "mean" over all queries, or that of the token that is "read".

    Source: Qiang et al. 2022 (AttCAT), code.
    Cost: 1 forward pass, 1 backward pass.
    """

    queries: Queries = "mean"
    version: ClassVar[int] = 2
    properties: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("sign", "read", "heads"),
        "a token's gradient is multiplied with how much all heads attend to it, whether they move anything or not",
    )
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores, in chunks that keep attention within the memory budget."""
        scores = [self._scores(model, part, target[rows]) for part, rows in model.parts(batch)]
        return Attribution(target=target, tokens=torch.cat(scores))

    def _scores(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B T"]:
        trace = model.run(batch, record=("attentions", "hidden"), grad=True)
        gradients = model.gradients(trace.logits, trace.hidden, weights=target.seed(trace.logits))
        weights, streams = self._query_weights(model, batch), model.streams
        scores = torch.zeros_like(weights).repeat(streams.count, 1, 1)
        ends = zip(streams.queries, streams.keys, strict=True)
        calls = zip(ends, trace.attentions, trace.hidden, gradients, strict=True)
        for (query, key), attention, state, gradient in calls:
            if query == key:
                attended = torch.einsum("bi,bij->bj", weights, attention.detach().mean(1).to(weights))
                scores[key] += attended * (gradient * state.detach()).sum(-1)
        return streams.fold(torch.cat(list(scores), dim=1), batch.attention_mask)

    def _query_weights(self, model: Classifier, batch: Batch) -> Float[Tensor, "B T"]:
        if self.queries == "read":
            return model.read_weights(batch)
        mask = batch.attention_mask
        return mask.to(model.scores_dtype) / mask.sum(1, keepdim=True)
