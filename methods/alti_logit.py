"""ALTI-Logit: what attention adds to the logit, followed down to the input (Ferrando 2023)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.edges.alti import Alti
from methods.edges.direct_logit import DirectLogit
from methods.shared.properties import MOVES_BIAS


@configurable
class AltiLogit(Method):
    """`s = Σ_l e_l C_{l−1} ⋯ C_1` with `e_l[j] = Σ_{h,i} E[l,h,i,j]`: signed token scores, in logits.

    E are the direct contributions of attention to the logit (`methods.edges.direct_logit`), which name the states of layer
    l, and C_k ALTI's contributions of layer k (`methods.edges.alti`), rows that sum to 1, which say of what input tokens
    those states are mixed. What no attention writes, the embedding of the read token and the feed-forward networks, counts
    nowhere. A head's score is what it writes to the logit.

    Source: Ferrando et al. 2023, and its code.
    Cost: 7 + H/6 forward passes, 1 backward pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token and head scores, in chunks that keep a layer's attention within the memory budget."""
        parts = [self._explained(model, part, target[rows]) for part, rows in model.parts(batch)]
        tokens, heads = (torch.cat(scores) for scores in zip(*parts, strict=True))
        return Attribution(target=target, tokens=tokens * batch.attention_mask, heads=heads)

    @staticmethod
    def _explained(model: Classifier, batch: Batch, target: Target) -> tuple[Tensor, Tensor]:
        written: dict[int, Tensor] = {}
        heads: dict[int, Tensor] = {}
        cells = batch.cells[:, None]

        def look(layer: int, scores: Tensor) -> None:
            own = scores * cells
            written[layer], heads[layer] = own.sum((1, 2)), own.sum((2, 3))

        DirectLogit().visit(model, batch, target, look)
        tokens = torch.zeros_like(written[0])
        for layer, mixed in reversed(tuple(enumerate(Alti()(model, batch, target.classes)))):
            if layer < model.n_layers - 1:
                tokens = (tokens[:, None] @ mixed[:, 0].to(tokens))[:, 0]
            tokens = tokens + written[layer]
        return tokens, torch.stack([heads[layer] for layer in range(model.n_layers)], dim=1)
