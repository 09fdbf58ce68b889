"""How far two distributions are apart: total variation and Jensen–Shannon divergence, in nats."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

MOST = math.log(2)
"""No Jensen–Shannon divergence is larger; it is reached by distributions that share nothing."""


def total_variation(p: Float[Tensor, "*n C"], q: Float[Tensor, "*n C"]) -> Float[Tensor, "*n"]:
    """½ Σ_c |p_c − q_c|, in [0, 1]."""
    return (p - q).abs().sum(-1) / 2


def jensen_shannon(p: Float[Tensor, "*n C"], q: Float[Tensor, "*n C"]) -> Float[Tensor, "*n"]:
    """JSD(p, q) = H((p + q) / 2) − (H(p) + H(q)) / 2 with H(p) = −Σ_c p_c ln p_c, in [0, ln 2]; symmetric."""
    return (entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2).clamp(0, MOST)


def entropy(p: Float[Tensor, "*n C"]) -> Float[Tensor, "*n"]:
    """−Σ_c p_c ln p_c, with 0 ln 0 = 0; its gradient is 0 there."""
    return -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(-1)


def largest_jensen_shannon(p: Float[Tensor, "*n C"], movable: Bool[Tensor, "*n C"]) -> Float[Tensor, "*n"]:
    """The largest JSD(p, q) of all q that differ from p in the movable entries alone, with their sum kept.

    JSD is convex in q, so that its maximum lies at a corner: all of the sum m in one entry, the smallest p_j. With what is
    outside equal in both, only the movable entries count. 0 where none is movable.
    """
    inside = p * movable
    smallest = p.masked_fill(~movable, torch.inf).argmin(-1, keepdim=True)
    corner = torch.zeros_like(p).scatter(-1, smallest, inside.sum(-1, keepdim=True))
    return jensen_shannon(inside, corner)
