"""Starting values with which a small image model finds neighbouring patches at once."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_BESIDE = ((0, 1), (1, 0), (0, -1), (-1, 0))
_ACROSS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_OFFSETS = (_BESIDE, _ACROSS)
"""By layer, rows and columns from a query to the patch that each of its heads looks at."""

_FREQUENCIES = (1.6, 0.2)  # radians a patch, the highest and the lowest
_POSITION_SCALE = 0.3
_PATCH_SCALE = 2.0  # of the projection of patches, relative to the start of transformers: as loud as positions
_SHARPNESS = 2.0


def look_around(vit: Any, rows: int, columns: int) -> None:
    """Let the heads of the first two layers start as windows on the patches around; every weight is trained afterwards.

    The patch in row r and column c has the position (sin ω_k r, cos ω_k r, sin ω_k c, cos ω_k c) over fours of dimensions.
    A head's keys start as the fours of the d/4 frequencies it has room for, its queries as the same turned by its offset,
    so that its score is largest there. From a random start, many times the steps are needed until patches are put together.

    Args:
        vit: a `ViTModel` whose width is a multiple of 4 × heads; changed in place.
        rows, columns: of patches.
    """
    width, heads = vit.config.hidden_size, vit.config.num_attention_heads
    highest, lowest = map(math.log10, _FREQUENCIES)
    frequency = torch.logspace(highest, lowest, width // 4)
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
    angle = places[:, None, :] * frequency[None, :, None]
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    size = width // heads
    taken = torch.linspace(0, width // 4 - 1, size // 4).round().long()
    with torch.no_grad():
        vit.embeddings.patch_embeddings.projection.weight.mul_(_PATCH_SCALE)
        position = vit.embeddings.position_embeddings
        position.zero_()
        position[0, 1:] = _POSITION_SCALE * waves
        for layer, offsets in zip(vit.layers, _OFFSETS, strict=False):
            for head in range(heads):
                query, key = _turned(frequency, taken, offsets[head % len(offsets)], width)
                own = slice(head * size, head * size + len(query))
                layer.attention.q_proj.weight[own] = _SHARPNESS * query
                layer.attention.k_proj.weight[own] = _SHARPNESS * key


def _turned(
    frequency: Float[Tensor, "K"], taken: Tensor, offset: tuple[int, int], width: int
) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
    """Query and key projections [4 × taken, width] whose product is largest at the offset."""
    query, key = torch.zeros(4 * len(taken), width), torch.zeros(4 * len(taken), width)
    for index, place in enumerate(taken.tolist()):
        for axis in range(2):
            turn = offset[axis] * frequency[place]
            row, column = 4 * index + 2 * axis, 4 * place + 2 * axis
            key[row, column] = key[row + 1, column + 1] = 1
            query[row, column], query[row, column + 1] = turn.cos(), turn.sin()
            query[row + 1, column], query[row + 1, column + 1] = -turn.sin(), turn.cos()
    return query, key
