"""What a pass tells its rules: that one graph serves two backward passes, and where |W|, W⁺ and W⁻ are kept.

The two passes are the plain gradient, and then the relevance of the rules. A rule's autograd function asks its phase which
of the two it is in. The forward pass, which both share, is made once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmark.models.precision import WeightPart, WeightParts


@dataclass
class Phase:
    """What backward passes through the graph give.

    Attributes:
        gradient: the operations' own gradients; otherwise what their rules say.
    """

    gradient: bool = False


_PHASE: ContextVar[Phase | None] = ContextVar("phase", default=None)


@contextmanager
def two_phases() -> Iterator[Phase]:
    """Rules that run in this block keep what the gradient needs too; afterwards the phase chooses."""
    phase = Phase()
    token = _PHASE.set(phase)
    try:
        yield phase
    finally:
        _PHASE.reset(token)


def counting_relevance() -> Callable[[], bool]:
    """Says of the backward pass that is running whether it is that of relevance, and not that of the gradient."""
    phase = _PHASE.get()
    return lambda: phase is None or not phase.gradient


_WEIGHT_PARTS: ContextVar[WeightParts | None] = ContextVar("weight_parts", default=None)


@contextmanager
def keeping(parts: WeightParts) -> Iterator[None]:
    """Rules that run in this block take |W|, W⁺ and W⁻ from here."""
    token = _WEIGHT_PARTS.set(parts)
    try:
        yield
    finally:
        _WEIGHT_PARTS.reset(token)


def weight_parts() -> Callable[[Tensor, WeightPart], Tensor]:
    """Gives a part of a weight, kept where the pass that is running says so; it serves the backward pass as well."""
    parts = _WEIGHT_PARTS.get()
    return (WeightParts(limit=0) if parts is None else parts).of


@dataclass(frozen=True)
class Graph:
    """An operation's own graph from copies of its operands.

    Attributes:
        result: of the operation.
        inputs: the copies; None for an operand that no gradient flows through.
    """

    result: Tensor
    inputs: Sequence[Tensor | None]

    def gradients(self, weights: Tensor) -> list[Tensor | None]:
        """`∂(Σ result · weights)/∂x` of each operand x."""
        active = [x for x in self.inputs if x is not None]
        found = iter(torch.autograd.grad(self.result, active, weights, retain_graph=True))
        return [None if x is None else next(found) for x in self.inputs]


def graph_of(operation: Callable[..., Tensor], operands: Sequence[Any]) -> Graph:
    """The graph of one operation."""
    needed = [isinstance(x, Tensor) and x.requires_grad for x in operands]
    values = [x.detach().requires_grad_() if need else x for x, need in zip(operands, needed, strict=True)]
    with torch.enable_grad():
        result = operation(*values)
    return Graph(result, [x if need else None for x, need in zip(values, needed, strict=True)])


class TwoPhased:
    """What the autograd functions of rules share: in forward `remember` the phase, in backward ask `is_gradient`."""

    @staticmethod
    def remember(ctx: Any) -> bool:
        """Whether a gradient will be asked for as well."""
        ctx.phase = _PHASE.get()
        return ctx.phase is not None

    @staticmethod
    def is_gradient(ctx: Any) -> bool:
        """Whether this backward pass is that of the gradient."""
        return ctx.phase is not None and bool(ctx.phase.gradient)
