"""From token scores to unit scores (docs/protocols.md, section 1), and back."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

Pool = Literal["max", "sum", "mean"]
_REDUCTIONS = {"max": "amax", "sum": "sum", "mean": "mean"}


def pool(
    scores: Float[Tensor, "B T"], units: Int[Tensor, "B T"], how: Pool = "max"
) -> tuple[Float[Tensor, "B U"], Bool[Tensor, "B U"]]:
    """Score of each unit from the scores of its tokens: `s_u = max_{t: unit(t) = u} s_t` (or the sum, or the mean).

    Args:
        scores: one score per token.
        units: unit index of each token, -1 for special tokens and padding.
        how: `max` (Chefer 2021a), `sum` or `mean`.

    Returns:
        Scores of the units (0 where a unit has no visible token) and which units have one. U is one more than the
        largest unit index in the batch.
    """
    visible = units >= 0
    n_units = int(units.max().item()) + 1 if bool(visible.any()) else 0
    index = torch.where(visible, units, n_units)  # the last column collects what is no unit
    pooled = scores.new_zeros(len(scores), n_units + 1)
    pooled = pooled.scatter_reduce(1, index, scores, reduce=_REDUCTIONS[how], include_self=False)
    present = torch.zeros_like(pooled, dtype=torch.bool).scatter(1, index, value=True)
    return pooled[:, :n_units], present[:, :n_units]


def spread(rows: Sequence[Sequence[float] | NDArray], units: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Every token with the score of its unit, 0 for special tokens and padding: `max` pools to the given scores exactly.

    Args:
        rows: for each example one score per unit, those beyond the model's window included.
        units: unit index of each token, -1 for special tokens and padding.

    Returns:
        Token scores in float64, whatever the model's precision is, so that nothing is rounded.
    """
    given = [torch.as_tensor(row, dtype=torch.float64, device=units.device) for row in rows]
    padded = torch.nn.utils.rnn.pad_sequence(given, batch_first=True)
    if padded.shape[1] == 0:
        return padded.new_zeros(units.shape)
    return padded.gather(1, units.clamp(min=0)).masked_fill(units < 0, 0)


def tokens_of(units: Int[Tensor, "N T"], removed: Bool[Tensor, "N U"]) -> Bool[Tensor, "N T"]:
    """The tokens of removed units."""
    if removed.shape[1] == 0:
        return torch.zeros_like(units, dtype=torch.bool)
    return removed.gather(1, units.clamp(min=0, max=removed.shape[1] - 1)) & (units >= 0)
