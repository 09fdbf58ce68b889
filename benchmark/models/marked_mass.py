"""How much attention falls on the words that a rationale marks (docs/protocols.md, section 16)."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.types import Batch


def marked_tokens(batch: Batch) -> Bool[Tensor, "B T"]:
    """Tokens of the rationale's words; none in an example without a rationale."""
    width = max(1, int(batch.n_units.max()))
    marked = torch.zeros(len(batch), width, dtype=torch.bool)
    for row, rationale in enumerate(batch.rationale):
        if rationale is not None:
            marked[row, : len(rationale)] = torch.as_tensor(rationale)
    of_token = marked.to(batch.units.device).gather(1, batch.units.clamp(min=0))
    return of_token & (batch.units >= 0)


def mass_elsewhere(
    attentions: Sequence[Float[Tensor, "B H T T"]], marked: Bool[Tensor, "B T"]
) -> Float[Tensor, "B L H T"]:
    """1 − the mass on marked tokens, of each layer, head and query, as the sum over all other tokens.

    Args:
        attentions: of each layer.
        marked: tokens.
    """
    return torch.stack([layer.masked_fill(marked[:, None, None], 0).sum(-1) for layer in attentions], dim=1)
