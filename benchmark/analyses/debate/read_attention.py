"""The attention of the token that the classifier reads, by layer and head, as scores of words."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.base import rated_units
from benchmark.models import Classifier
from benchmark.types import Batch
from benchmark.units import Pool, pool


@dataclass(frozen=True)
class ReadAttention:
    """Attention and hidden states of a batch.

    Attributes:
        words: for each example [L H n], the attention from the read token to each of its n rated words.
        conicity: [B L], of the states of words' tokens that the attention of each layer reads; NaN without words.
    """

    words: list[NDArray[np.float64]]
    conicity: Float[Tensor, "B L"]


def read_attention(model: Classifier, batch: Batch, how: Pool) -> ReadAttention:
    """One forward pass; NotApplicable for an encoder–decoder, whose calls attend to two sequences.

    Args:
        model: the classifier.
        batch: the examples.
        how: from the attention to a word's tokens to that to the word.
    """
    if model.streams.count > 1:
        raise NotApplicable("the model has an encoder and a decoder, whose attention has no single sequence of words")
    words: list[NDArray[np.float64]] = []
    cones = []
    for part, _ in model.parts(batch):
        trace = model.run(part, record=("attentions", "hidden"))
        read = model.read_weights(part)[:, None, None]
        rows = torch.stack([(read @ layer.to(model.scores_dtype)).squeeze(2) for layer in trace.attentions], dim=1)
        words += words_of(part, rows, how)
        states = [state.to(model.scores_dtype) for state in trace.hidden]
        words_alone = part.attention_mask & (part.units >= 0)  # special tokens are what stands at the ends
        cones.append(torch.stack([conicity(state, words_alone) for state in states], dim=1))
    return ReadAttention(words, torch.cat(cones))


def words_of(batch: Batch, scores: Float[Tensor, "B L H T"], how: Pool) -> list[NDArray[np.float64]]:
    """For each example the scores of its n rated words, [L H n]."""
    leading = scores.shape[1:3]
    units = batch.units.repeat_interleave(leading.numel(), dim=0)
    pooled, visible = pool(scores.flatten(0, 2), units, how)
    pooled, visible = pooled.view(len(batch), *leading, -1), visible[:: leading.numel()]
    rated = rated_units(batch, visible)
    return [row[..., keep].double().cpu().numpy() for row, keep in zip(pooled, rated, strict=True)]


def conicity(states: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B"]:
    """`mean_i |cos(h_i, mean_j h_j)|` over the tokens of each example that the mask keeps; in [0, 1].

    1 says that all states lie on one line: attention then weighs things that are alike. NaN where no token is kept.

    Source: Mohankumar et al. 2020 (ACL); the magnitude, and that the tokens at both ends are left out, follow the authors'
    code (`_conicity`).
    """
    counts = mask.sum(1)
    mean = (states * mask[..., None]).sum(1) / counts[:, None]
    cosines = torch.cosine_similarity(states, mean[:, None], dim=-1)
    return (cosines.abs() * mask).sum(1) / counts
