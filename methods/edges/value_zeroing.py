"""Value zeroing: how far an output moves without the value of a token (Mohebbi 2023; docs/protocols.md, section 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from benchmark.models import Classifier, run_block
from benchmark.types import Batch
from methods.edges.base import Edges, normalize_rows
from methods.propagation.block_parts import refuse_cross_attention
from methods.shared.properties import MOVES_BIAS


@dataclass(frozen=True)
class ValueZeroing:
    """`C[l,i,j] = 1 − cos(o_i, o_i without v_j)`, `E = C / Σ_j C`: rows in [0, 1] that sum to 1, no heads.

    o_i is the output of block l at token i, and `without v_j` the same block on the same input with the value vectors of
    token j set to 0 in all heads. The block starts from its recorded input, once for each zeroed token. The distance is
    computed as `½ ‖o/‖o‖ − o'/‖o'‖‖²`, which is the same and does not cancel.

    The output contains the residual, so that the published rollout adds none (`residual: false`). Open in the source: rows
    without any change (0 here), and the last block of pre-LN models (its output before the final norm here).

    Source: Mohebbi et al. 2023, section 3.
    Cost: T + 2 forward passes.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = False

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Scores of the L layers, each [B 1 T T]."""
        refuse_cross_attention(model)
        hidden = model.run(batch, record=("hidden",)).hidden
        return tuple(self._layer(model, batch, layer, states) for layer, states in enumerate(hidden))

    def _layer(
        self, model: Classifier, batch: Batch, layer: int, hidden: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B 1 T T"]:
        size, n_tokens = batch.units.shape
        whole = normalize(run_block(model, batch.tensors, layer, hidden), dim=-1)
        keep = 1 - torch.eye(n_tokens, dtype=hidden.dtype, device=hidden.device)
        columns = []
        for rows in torch.split(keep, max(1, model.rows_per_chunk(n_tokens, layers=1) // size)):
            k = len(rows)
            tensors = {name: tensor.repeat(k, *[1] * (tensor.dim() - 1)) for name, tensor in batch.tensors.items()}
            factors = rows.repeat_interleave(size, dim=0)[:, None, :, None]
            edits = [lambda _layer, value, factors=factors: value * factors]
            changed = run_block(model, tensors, layer, hidden.repeat(k, 1, 1), value_edits=edits)
            difference = normalize(changed, dim=-1).view(k, *whole.shape) - whole
            columns.append(0.5 * difference.square().sum(-1))
        distances = torch.cat(columns).permute(1, 2, 0) * batch.attention_mask[:, None, :]
        return normalize_rows(distances).unsqueeze(1)
