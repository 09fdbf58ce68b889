"""s_j = Σ_l mean_h a[l,h,j] · Σ_d ∂y_t/∂h_l[j,d] · h_l[j,d]: attentive class activation tokens (Qiang 2022)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.models.blocks import blocks_of
from benchmark.types import Attribution, Batch
from methods.embeddings import check_choice

Queries = Literal["mean", "read"]


@dataclass(frozen=True)
class AttCat:
    """`s_j = Σ_l a_l[j] · CAT_l[j]`, `CAT_l[j] = Σ_d ∂y_t/∂h_l[j,d] · h_l[j,d]`, `a_l[j] = mean_h a[l,h,j]`.

    h_l is the output of block l. The paper's attention weight has no query index: `a[l,h,j]` is by default the mean of
    A[l,h,i,j] over the example's own queries i, how much token j is attended to; `queries: read` takes the row of the
    token that the classifier reads. Gradients are total: they flow through the attention of later blocks. Where the
    classifier reads one token, the last block adds to that token alone.

    Source: Qiang 2022 (AttCAT).
    Cost: 1 forward pass, 1 backward pass.

    Attributes:
        queries: "mean" or "read".
    """

    queries: Queries = "mean"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("queries", self.queries, get_args(Queries))

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Token scores, in chunks that keep attention within the memory budget."""
        scores = [self._scores(model, part, target[rows]) for part, rows in model.parts(batch)]
        return Attribution(target=target, tokens=torch.cat(scores))

    def _scores(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Float[Tensor, "B T"]:
        last: list[Tensor] = []
        with _output_of(blocks_of(model.model, model.attention_modules)[-1], last):
            trace = model.run(batch, record=("attentions", "hidden"), grad=True)
        outputs = [*trace.hidden[1:], last[-1]]
        if len(outputs) != len(trace.attentions):
            raise NotApplicable("AttCAT needs one attention per block, and the blocks of this model have several")
        gradients = model.gradients(trace.logits, outputs, weights=model.one_hot(target))
        weights = self._query_weights(model, batch)
        scores = torch.zeros_like(weights)
        for attention, output, gradient in zip(trace.attentions, outputs, gradients, strict=True):
            attended = torch.einsum("bi,bij->bj", weights, attention.detach().mean(1).to(weights))
            scores += attended * (gradient * output.detach()).sum(-1)
        return scores.masked_fill(~batch.attention_mask, 0)

    def _query_weights(self, model: Classifier, batch: Batch) -> Float[Tensor, "B T"]:
        if self.queries == "read":
            return model.read_weights(batch)
        mask = batch.attention_mask
        return mask.to(model.scores_dtype) / mask.sum(1, keepdim=True)


@contextmanager
def _output_of(block: nn.Module, written: list[Tensor]) -> Iterator[None]:
    """Append what the block gives to `written` on every call."""

    def keep(_module: nn.Module, _args: Any, output: Any) -> None:
        written.append(output[0] if isinstance(output, tuple) else output)

    handle = block.register_forward_hook(keep)
    try:
        yield
    finally:
        handle.remove()
