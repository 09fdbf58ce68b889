"""The rows that a classifier reads: all that its last block needs to compute beyond keys and values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from benchmark.models.families import Family, last_token

Rows = Literal["all", "read"]
"""Rows of the last layer's attention: all, or those that the classifier reads."""


def lone_rows(
    family: Family, like: Shaped[Tensor, "B ..."], ids: Int[Tensor, "B T"] | None, config: Any
) -> Int[Tensor, "B R"] | None:
    """The positions that a classifier reads where these are one or two: all that its last block needs to compute.

    None where they are more, where encoder and decoder are two, and for a family that is not in the table. Of decoders it is
    the last token whose id is not that of padding, attended to or not, as transformers has it.

    Args:
        family: of the model.
        like: any input of B examples.
        ids: of the tokens; None for images.
        config: says which id is padding.
    """
    if family.guessed:
        return None
    if family.read == "last" and ids is not None:
        return last_token(ids, config)[:, None]
    count = {"first": 1, "first_two": 2}.get(family.read)
    return None if count is None else torch.arange(count, device=like.device).expand(len(like), count)


def everywhere(
    index: Int[Tensor, "B R"] | None, scores: Sequence[Float[Tensor, "B H _ T"]]
) -> tuple[Float[Tensor, "B H T T"], ...]:
    """Scores of attention whose last layer has the rows of `index` alone, and 0 in its other rows."""
    return tuple(spread(index, layer) for layer in scores)


def spread(index: Int[Tensor, "B R"] | None, scores: Float[Tensor, "B H _ T"]) -> Float[Tensor, "B H T T"]:
    """Scores of one layer that may have the rows of `index` alone, and 0 in its other rows."""
    if index is None or scores.shape[2] == scores.shape[3]:
        return scores
    full = scores.new_zeros(*scores.shape[:2], scores.shape[3], scores.shape[3])
    return full.scatter_(2, index[:, None, :, None].expand_as(scores), scores)


@dataclass
class Narrow:
    """What makes the last call compute the rows of a few queries alone; keys and values are of all tokens.

    The block of the call is run twice (`benchmark.models.blocks`): on all tokens up to its attention, which leaves `states`
    here, and from its input on for the rows of `index`.

    Attributes:
        call: the number of the call.
        index: the rows, those that the classifier reads.
        states: queries of the rows, keys, values and the mask of the rows.
    """

    call: int
    index: Int[Tensor, "B R"]
    states: tuple[Tensor, Tensor, Tensor, Tensor | None] | None = None

    def rows_of(self, tensor: Tensor, dim: int) -> Tensor:
        """The rows of a tensor that has all of them in its dimension `dim`; itself where they are picked already."""
        if tensor.shape[dim] in (1, self.index.shape[1]):
            return tensor
        index = self.index.view(-1, *[1] * (dim - 1), self.index.shape[1], *[1] * (tensor.dim() - dim - 1))
        shape = [-1 if place == dim else size for place, size in enumerate(tensor.shape)]
        shape[0] = len(self.index)
        return tensor.expand(len(self.index), *tensor.shape[1:]).gather(dim, index.expand(*shape))


class Gathered(Exception):  # noqa: N818 (no error)
    """Ends the first run of a block that is computed for a few rows: keys and values are there."""
