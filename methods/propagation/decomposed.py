"""A tensor that knows what it is the sum of: `x = Σ_k x_k`, and who has its biases."""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

Waiting = Literal["nothing", "held", "attended"]
"""Which biases wait in the last part: none, all parts have theirs; those that the next operation that needs its parts has
shared out; or those that attention has mixed, which wait until the residual sum."""


class Decomposed(Tensor):
    """An activation and its parts; made by `decomposed`. Under `part_rules.Parts` operations act on the parts as well.

    Attributes:
        parts: [N, *shape].
        waiting: which biases wait in the last part.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    parts: Tensor
    waiting: Waiting


def decomposed(whole: Tensor, parts: Tensor, waiting: Waiting = "nothing") -> Decomposed:
    """`whole` [*shape] with its `parts` [N, *shape]."""
    made: Decomposed = Tensor._make_subclass(Decomposed, whole.detach())
    made.parts, made.waiting = parts, waiting
    return made


def plain(value: Any) -> Any:
    """The value, or nested values, without their parts."""
    return pytree.tree_map_only(Decomposed, lambda x: x.as_subclass(Tensor), value)


def settled(x: Decomposed, but: Waiting | None = None) -> Decomposed:
    """x with no bias waiting, unless it waits as `but` says: part k gets the share `|b·x_k| / Σ_k |b·x_k|` of a bias b.

    The last part keeps what no other part has a share of.
    """
    if x.waiting in ("nothing", but):
        return x
    parts, bias = x.parts[:-1], x.parts[-1]
    weights = torch.linalg.vecdot(parts, bias).abs().unsqueeze(-1)
    total = weights.sum(0)
    nobody = total == 0
    weights = weights / total.masked_fill(nobody, 1.0)
    rest = bias * nobody.to(weights.dtype)
    return decomposed(plain(x), torch.cat([torch.addcmul(parts, weights, bias), rest[None]]))
