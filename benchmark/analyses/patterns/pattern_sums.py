"""How much attention a head gives to what: kernels over one layer of one batch."""

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.analyses.patterns.token_roles import Role

Ends = Literal["left out", "counted"]
"""What becomes of a query that has no previous (next) token: it counts for nothing, or counts with 0 (Clark et al. 2019)."""

SMOOTHING = 1e-4
OFFSETS: Mapping[str, int] = {"previous token": -1, "next token": 1, "same token": 0}
TO_ROLE: Mapping[str, Role] = {
    "to the start token": "start token",
    "to separators": "separators",
    "to punctuation": "punctuation",
}
BETWEEN: Mapping[str, tuple[bool, Role]] = {
    "separators to separators": (True, "separators"),
    "others to separators": (False, "separators"),
}
SINK = "to the first token"
PATTERNS: tuple[str, ...] = (*OFFSETS, *TO_ROLE, *BETWEEN, SINK)


def pattern_shares(
    attention: Float[Tensor, "B H T T"],
    mask: Bool[Tensor, "B T"],
    roles: Mapping[Role, Bool[Tensor, "B T"]],
    ends: Ends,
) -> Float[Tensor, "B P H"]:
    """The mean over queries i of the attention that goes to the keys S_i of each of `PATTERNS`, in [0, 1]; NaN without any.

        share = mean_{i ∈ Q} Σ_{j ∈ S_i} A[i, j]

    With n tokens, special ones included: `previous token` has S_i = {i − 1}, `next token` {i + 1}, `same token` {i}; the
    mean is over the queries that have such a token, or over all n where `ends` are counted. To a role: S_i are all tokens of
    it, Q all queries; `separators to separators` and `others to separators` have Q = the separators, and the rest.
    `to the first token` is the attention sink: S_i = {0}, Q all queries but the first.

    Args:
        attention: of one layer.
        mask: tokens that are no padding.
        roles: tokens of each role that the input has.
        ends: see above.
    """
    queries = mask.to(attention.dtype)
    shares = [_offset_share(attention, mask, steps, ends) for steps in OFFSETS.values()]
    nothing = attention.new_full(attention.shape[:2], torch.nan)
    for role in TO_ROLE.values():
        shares.append(_mean(_mass(attention, roles[role]), queries) if role in roles else nothing)
    for among, role in BETWEEN.values():
        if role not in roles:
            shares.append(nothing)
            continue
        chosen = roles[role] if among else mask & ~roles[role]
        shares.append(_mean(_mass(attention, roles[role]), chosen.to(attention.dtype)))
    later = queries.clone()
    later[:, 0] = 0
    shares.append(_mean(attention[..., 0], later))
    return torch.stack(shares, dim=1)


def entropies(
    attention: Float[Tensor, "B H T T"], permitted: Bool[Tensor, "B T T"], mask: Bool[Tensor, "B T"]
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
    """Entropy in nats of (1 − ε) A + ε / n over the n keys that a query may attend to, ε = 0.0001.

    Args:
        attention: of one layer.
        permitted: the keys that each query may attend to.
        mask: tokens that are no padding.

    Returns:
        The mean over queries, and that of the first query, in [0, ln n].

    Source: Clark et al. 2019, section 3.3, and the authors' code, which has n tokens for every query.
    """
    counts = permitted.sum(-1, keepdim=True).clamp(min=1)[:, None].to(attention.dtype)
    smoothed = (1 - SMOOTHING) * attention + SMOOTHING / counts
    terms = torch.where(permitted[:, None], smoothed * smoothed.clamp_min(torch.finfo(attention.dtype).tiny).log(), 0)
    rows = -terms.sum(-1)
    return _mean(rows, mask.to(attention.dtype)), rows[..., 0]


def uniform_entropies(
    permitted: Bool[Tensor, "B T T"], mask: Bool[Tensor, "B T"]
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"]]:
    """What attention that is the same to all n keys has, ln n: the mean over queries, and that of the first query."""
    rows = permitted.sum(-1).clamp(min=1).double().log()
    return (rows * mask).sum(-1) / mask.sum(-1), rows[:, 0]


def permitted_keys(permitted: Bool[Tensor, "B 1 T T"], mask: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T T"]:
    """The keys of each query that are no padding and that the layer's mask leaves to it; none of a query of padding."""
    return permitted[:, 0].bool() & mask[:, None, :] & mask[:, :, None]


def _offset_share(
    attention: Float[Tensor, "B H T T"], mask: Bool[Tensor, "B T"], steps: int, ends: Ends
) -> Float[Tensor, "B H"]:
    diagonal = attention.diagonal(steps, dim1=-2, dim2=-1)
    has = mask[:, 1:] if steps else mask  # the tokens stand at the left, so that a pair is there where its later one is
    weights = has.to(attention.dtype)
    total = (diagonal * weights[:, None]).sum(-1)
    queries = mask if ends == "counted" else has
    count = queries.sum(-1)[:, None].to(attention.dtype)
    return torch.where(count > 0, total / count.clamp(min=1), torch.nan)


def _mass(attention: Float[Tensor, "B H T T"], keys: Bool[Tensor, "B T"]) -> Float[Tensor, "B H T"]:
    return (attention @ keys.to(attention.dtype)[:, None, :, None]).squeeze(-1)


def _mean(values: Float[Tensor, "B H T"], weights: Float[Tensor, "B T"]) -> Float[Tensor, "B H"]:
    """Over queries of weight 1; NaN where there is none."""
    count = weights.sum(-1)[:, None]
    total = torch.where(weights[:, None] > 0, values, 0).sum(-1)
    return torch.where(count > 0, total / count.clamp(min=1), torch.nan)
