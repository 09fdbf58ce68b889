"""Accuracy lost when a head alone is masked (docs/protocols.md, section 7)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier, PruneHeads
from benchmark.types import Attribution, Batch, Method


@dataclass(frozen=True)
class AccuracyDifference(Method):
    """Head importance by masking each head alone: 1 where that loses the target class, −1 where it wins it, else 0.

    `I[l,h] = [ŷ(x) = y] − [ŷ(x without head l,h) = y]`. The mean over examples, with their labels as targets y, is the drop
    in accuracy (Michel 2019; Hao 2021).

    Source: Hao et al. 2021, section "Attention Head Pruning"; Michel et al. 2019.
    Cost: 1 + L·H forward passes.
    """

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Head scores in {−1, 0, 1}, from 1 + L·H forward passes."""
        n_heads = model.n_layers * model.n_heads
        unmasked = (model.predict(batch) == target).to(model.scores_dtype)
        keep = ~torch.eye(n_heads, dtype=torch.bool, device=model.device).view(n_heads, model.n_layers, model.n_heads)
        per_chunk = max(1, model.rows_per_chunk(batch.units.shape[1], layers=1) // len(batch))
        correct = [self._correct(model, batch, target, chunk) for chunk in torch.split(keep, per_chunk)]
        difference = unmasked - torch.cat(correct).to(model.scores_dtype)
        return Attribution(target=target, heads=difference.T.reshape(len(batch), model.n_layers, model.n_heads))

    @staticmethod
    def _correct(model: Classifier, batch: Batch, target: Tensor, keep: Tensor) -> Tensor:
        """Whether each example [K B] keeps its target class under each of K masks."""
        k = len(keep)
        tensors = {name: tensor.repeat(k, *[1] * (tensor.dim() - 1)) for name, tensor in batch.tensors.items()}
        edit = PruneHeads(keep.repeat_interleave(len(batch), dim=0))
        predicted = model.run(tensors, value_edits=[edit]).logits.argmax(-1)
        return predicted.view(k, len(batch)) == target
