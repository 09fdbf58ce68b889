"""A tensor that knows what it is the sum of: `x = Σ_k x_k`, and who has its biases."""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

Waiting = Literal["nothing", "held", "attended"]
"""Which biases wait in the last part. "nothing": none, all parts have their shares. "held": those that are shared out as
soon as an operation needs the parts. "attended": those that attention has mixed, which wait until the residual sum."""


class Decomposed(Tensor):
    """An activation and its parts; made by `decomposed`. Under `part_rules.Parts` operations act on the parts as well.

    Attributes:
        parts: [N, *shape].
        waiting: which biases wait in the last part.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as torch documents it for subclasses

    parts: Tensor
    waiting: Waiting


def decomposed(whole: Tensor, parts: Tensor, waiting: Waiting = "nothing") -> Decomposed:
    """`whole` [*shape] with its `parts` [N, *shape]."""
    x: Decomposed = Tensor._make_subclass(Decomposed, whole.detach())
    x.parts, x.waiting = parts, waiting
    return x


def plain(value: Any) -> Any:
    """The value, or nested values, without their parts."""
    return pytree.tree_map_only(Decomposed, lambda x: x.as_subclass(Tensor), value)


def settled(x: Decomposed, but: Waiting | None = None) -> Decomposed:
    """x with its waiting bias b shared out, unless it waits as `but` says: part k gets `|b·x_k| / Σ_k |b·x_k|` of b.

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
