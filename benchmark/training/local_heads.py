"""Starting values with which a small encoder finds neighbouring tokens at once."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_OFFSETS = (1, 2, 3, 5)  # tokens back: a word's pieces, and the negator or intensifier before it
_LONGEST_WAVE = 300.0  # in units of a token / 2π
_POSITION_SCALE = 2.0  # positions louder than words, relative to the spread of the word embeddings
_SHARPNESS = 1.5


def look_nearby(encoder: Any, layers: int) -> None:
    """Let the heads of the first layers start as windows on preceding tokens; every weight is trained afterwards.

    Position p starts as (sin ω_k p, cos ω_k p) over pairs of dimensions. A head's keys start as the pairs of the d/2
    frequencies it has room for. Its queries start as the same pairs turned back by δ tokens, so that its score is largest
    at offset −δ. From a random start, thousands of examples more are needed before a negator is tied to its word.

    Args:
        encoder: a `BertModel`; changed in place.
        layers: how many of its first layers.
    """
    config = encoder.config
    position = encoder.embeddings.position_embeddings.weight
    pairs = config.hidden_size // 2
    frequency = _LONGEST_WAVE ** (-torch.arange(pairs) / pairs)
    with torch.no_grad():
        angle = torch.arange(len(position))[:, None] * frequency
        scale = _POSITION_SCALE * config.initializer_range
        position[:, 0::2], position[:, 1::2] = scale * angle.sin(), scale * angle.cos()
        size = config.hidden_size // config.num_attention_heads
        for layer in encoder.encoder.layer[:layers]:
            attention = layer.attention.self
            for head in range(config.num_attention_heads):
                query, key = _shift(frequency[::2][: size // 2], _OFFSETS[head % len(_OFFSETS)], config.hidden_size)
                rows = slice(head * size, head * size + 2 * (size // 2))
                attention.query.weight[rows] = _SHARPNESS * query
                attention.key.weight[rows] = _SHARPNESS * key


def _shift(frequency: Float[Tensor, "K"], offset: int, width: int) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
    """Query and key projections [2K, width] whose product is largest `offset` positions back, at every other frequency."""
    query, key = torch.zeros(2 * len(frequency), width), torch.zeros(2 * len(frequency), width)
    for index, turn in enumerate((offset * frequency).tolist()):
        sine, cosine = torch.sin(torch.tensor(turn)), torch.cos(torch.tensor(turn))
        row, column = 2 * index, 4 * index
        key[row, column] = key[row + 1, column + 1] = 1
        query[row, column], query[row, column + 1] = cosine, -sine
        query[row + 1, column], query[row + 1, column + 1] = sine, cosine
    return query, key
