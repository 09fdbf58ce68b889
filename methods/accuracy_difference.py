"""Accuracy lost when a head alone is masked (docs/protocols.md, section 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from benchmark.models import Classifier, PruneHeads
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.properties import MOVES_BIAS


@dataclass(frozen=True)
class AccuracyDifference(Method):
    """Head importance by masking each head alone: 1 where the target no longer holds, −1 where it does only then, else 0.

    `I[l,h] = [ŷ(x) = y] − [ŷ(x without head l,h) = y]`. The mean over examples, with their labels as targets y, is the drop
    in accuracy (Michel 2019; Hao 2021).

    Source: Hao et al. 2021, section "Attention Head Pruning"; Michel et al. 2019.
    Cost: 1 + L·H forward passes.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Head scores in {−1, 0, 1}, from 1 + L·H forward passes."""
        n_heads = model.n_layers * model.n_heads
        unmasked = target.holds(model.run(batch).logits).to(model.scores_dtype)
        keep = ~torch.eye(n_heads, dtype=torch.bool, device=model.device).view(n_heads, model.n_layers, model.n_heads)
        per_chunk = max(1, model.rows_per_chunk(batch.units.shape[1], layers=1) // len(batch))
        correct = [self._correct(model, batch, target, chunk) for chunk in torch.split(keep, per_chunk)]
        difference = unmasked - torch.cat(correct).to(model.scores_dtype)
        return Attribution(target=target, heads=difference.T.reshape(len(batch), model.n_layers, model.n_heads))

    @staticmethod
    def _correct(model: Classifier, batch: Batch, target: Target, keep: Tensor) -> Tensor:
        """Whether the target of each example [K B] holds under each of K masks."""
        k = len(keep)
        tensors = {name: tensor.repeat(k, *[1] * (tensor.dim() - 1)) for name, tensor in batch.tensors.items()}
        edit = PruneHeads(keep.repeat_interleave(len(batch), dim=0))
        logits = model.run(tensors, value_edits=[edit]).logits
        return target.holds(logits.view(k, len(batch), -1))
