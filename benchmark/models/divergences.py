"""How far two outputs, or two attentions, lie apart (docs/protocols.md, section 16). Natural logarithms."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Divergence = Literal["kl_adversary_base", "kl_base_adversary", "jsd"]

Measure = Callable[[Tensor, Tensor], Tensor]

LARGEST_JSD = math.log(2)
"""It is reached by distributions that share nothing."""


def total_variation(first: Float[Tensor, "*n K"], second: Float[Tensor, "*n K"]) -> Float[Tensor, "*n"]:
    """½ Σ_k |p_k − q_k|, in [0, 1]."""
    return (first - second).abs().sum(-1) / 2


def kl(first: Float[Tensor, "*n K"], second: Float[Tensor, "*n K"]) -> Float[Tensor, "*n"]:
    """KL(p ‖ q) = Σ_k p_k (log p_k − log q_k), at least 0; q_k counts as the smallest normal number where it underflows.

    The logarithm is bounded, so that a key of probability 0 (padding) adds 0 to the value and no NaN to the gradient.
    """
    return (first * (_log(first) - _log(second))).sum(-1)


def jsd(first: Float[Tensor, "*n K"], second: Float[Tensor, "*n K"]) -> Float[Tensor, "*n"]:
    """H((p + q) / 2) − (H(p) + H(q)) / 2 = ½ KL(p ‖ m) + ½ KL(q ‖ m) with m = (p + q) / 2, in [0, ln 2]; symmetric."""
    return (entropy((first + second) / 2) - (entropy(first) + entropy(second)) / 2).clamp(0, LARGEST_JSD)


def entropy(p: Float[Tensor, "*n K"]) -> Float[Tensor, "*n"]:
    """−Σ_k p_k log p_k, with 0 log 0 = 0; a probability of 0 gives the gradient no NaN."""
    return -(p * _log(p)).sum(-1)


def largest_jsd(p: Float[Tensor, "*n K"], movable: Bool[Tensor, "*n K"]) -> Float[Tensor, "*n"]:
    """The largest JSD(p, q) of all q that differ from p in the movable entries alone, with their sum kept.

    JSD is convex in q, so that its maximum lies at a corner: all of the sum m in one entry, the smallest p_j. With what is
    outside equal in both, only the movable entries count. 0 where none is movable.
    """
    inside = p * movable
    smallest = p.masked_fill(~movable, torch.inf).argmin(-1, keepdim=True)
    corner = torch.zeros_like(p).scatter(-1, smallest, inside.sum(-1, keepdim=True))
    return jsd(inside, corner)


MEASURES: Mapping[Divergence, Measure] = {
    "kl_adversary_base": kl,
    "kl_base_adversary": lambda adversary, base: kl(base, adversary),
    "jsd": jsd,
}
"""Of the adversary's attention and the base model's, in this order."""


def over_rows(values: Float[Tensor, "*#n T"], rows: Float[Tensor, "*#n T"]) -> Float[Tensor, "*m"]:
    """Mean of a value of each query over the queries, with weights that sum to 1; queries of weight 0 count for nothing."""
    return torch.where(rows > 0, values * rows, 0).sum(-1)


def even_rows(mask: Bool[Tensor, "B T"], dtype: torch.dtype) -> Float[Tensor, "B T"]:
    """The same weight for every query that is no padding."""
    weights = mask.to(dtype)
    return weights / weights.sum(-1, keepdim=True)


def attention_divergence(
    first: Sequence[Float[Tensor, "B H T T"]],
    second: Sequence[Float[Tensor, "B H T T"]],
    rows: Float[Tensor, "B T"],
    measure: Measure,
) -> Float[Tensor, "B L H"]:
    """A divergence of each query's attention in two models, mean over queries, for each layer and head.

    Args:
        first: attention of each layer of one model.
        second: of the other, for the same examples.
        rows: weight of each query, 0 at padding; sums to 1.
        measure: of two distributions.
    """
    pairs = zip(first, second, strict=True)
    return torch.stack([over_rows(measure(a, b), rows[:, None].to(a.dtype)) for a, b in pairs], dim=1)


def _log(values: Tensor) -> Tensor:
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()
