"""Relevance rules: the forward pass is the operation itself, the backward pass is the rule (docs/protocols.md, section 5).

A rule is called as `rule(operation, *operands)`. In the equations R is the relevance that reaches the operation's result;
what a rule gives is the relevance of its operands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from methods.propagation.conservative import FrozenNorms
from methods.propagation.mode import apply
from methods.propagation.phases import Graph, TwoPhased, graph_of

STABILISER = 1e-9


@runtime_checkable
class Rule(Protocol):
    """An operation whose backward pass is a relevance rule."""

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """`operation(*operands)`."""
        ...


def divide(relevance: Tensor, z: Tensor, epsilon: float = STABILISER, *, signed: bool = False) -> Tensor:
    """`R / (z + ε)`, or `R / (z + ε sign z)` where `signed`; 0 where z = 0, since a sum of zero has nothing to share out.

    Unsigned with ε = 1e-9 it is the stabiliser of Chefer 2021a's code; leaving it out moves results by about 1e-3.
    """
    counted = torch.ne(z, 0, out=torch.empty_like(z))  # as numbers: torch fills by a mask at an eighth of this speed
    apart = epsilon * z.sign() + (1 - counted) if signed or not epsilon else epsilon
    return (relevance * counted).div_(z + apart)


def unbroadcast(relevance: Tensor, shape: torch.Size) -> Tensor:
    """Relevance in the shape of an operand that was broadcast."""
    return relevance if relevance.shape == shape else relevance.sum_to_size(shape)


@dataclass(frozen=True)
class Passing:
    """Relevance passes unchanged, whatever the operation: `R_x = w R` for each operand.

    Attributes:
        weight: w; ½ gives each factor of a product its half.
    """

    weight: float = 1.0

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """The operation's result."""
        passed: Tensor = apply(_Pass, self.weight, operation, None, *operands)
        return passed

    def scaled(self, operation: Callable[[Tensor], Tensor], x: Tensor, factor: Any) -> Tensor:
        """The result of an operation that multiplies x by a constant: its gradient needs no copy of x."""
        passed: Tensor = apply(_Pass, self.weight, operation, factor, x)
        return passed


class _Pass(TwoPhased, torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: float, operation: Callable[..., Tensor], factor: Any, *operands: Tensor) -> Tensor:
        ctx.weight, ctx.shapes, ctx.factor = weight, [operand.shape for operand in operands], factor
        ctx.graph = graph_of(operation, operands) if _Pass.remember(ctx) and factor is None else None
        if ctx.graph is not None:
            graph: Graph = ctx.graph
            return graph.result.detach()
        result = operation(*operands)
        return result.view_as(result)  # an operand itself may be the result

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, ...]:
        if _Pass.is_gradient(ctx):
            if ctx.graph is None:
                return None, None, None, unbroadcast(relevance * ctx.factor, *ctx.shapes)
            return None, None, None, *ctx.graph.gradients(relevance)
        weighted = relevance if ctx.weight == 1 else relevance * ctx.weight
        return None, None, None, *(unbroadcast(weighted, shape) for shape in ctx.shapes)


@dataclass(frozen=True)
class Proportional:
    """Shares in proportion to contributions to first order: `R_x = w x ⊙ Jᵀ(R / (z + ε sign z))`, z the result, J = ∂z/∂x.

    Where z is linear in x, the contributions are the terms of the sum z. This is the ε-rule of a linear layer (its bias is
    one of the terms), of either factor of a product of matrices, of a sum, and of a mean. For a softmax with ε = 0 it is the
    Taylor expansion at the input (Achtibat 2024, proposition 3.1), `R_x = x ⊙ (R − z Σ R)`, which loses what the constant
    term takes.

    Attributes:
        epsilon: stabiliser ε.
        weight: w; ½ for products, where each factor gets half of the relevance.
        signed: whether ε takes the sign of z.
    """

    epsilon: float = 0.0
    weight: float = 1.0
    signed: bool = True

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """The operation's result."""
        return self.of(operation, operation, *operands)

    def of(self, operation: Callable[..., Tensor], shared: Callable[..., Tensor], *operands: Any) -> Tensor:
        """The result of `shared`, the same function of the operands as `operation`, whose Jacobian gives the shares."""
        result: Tensor = apply(_Share, self, operation, shared, *operands)
        return result


class _Share(TwoPhased, torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rule: Proportional, operation: Callable[..., Tensor], shared: Callable[..., Tensor], *operands: Any
    ) -> Tensor:
        graph = graph_of(shared, operands)
        ctx.rule, ctx.shared = rule, graph
        if _Share.remember(ctx):
            ctx.own = graph if shared is operation else graph_of(operation, operands)
        return graph.result.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, ...]:
        if _Share.is_gradient(ctx):
            return None, None, None, *ctx.own.gradients(relevance)
        rule, shared = ctx.rule, ctx.shared
        shares = divide(relevance, shared.result.detach(), rule.epsilon, signed=rule.signed).mul_(rule.weight)
        pairs = zip(shared.inputs, shared.gradients(shares), strict=True)
        return None, None, None, *(None if x is None else x.detach() * gradient for x, gradient in pairs)


PASS, HALVES = Passing(), Passing(0.5)
SUM, HALVED_SUM = Proportional(STABILISER, signed=False), Proportional(STABILISER, 0.5, signed=False)
"""Shares as Chefer 2021a's code stabilises them."""


@dataclass(frozen=True)
class FrozenNorm:
    """Normalisation layer y = γ (x − m)/σ + β: identity for the division by σ, the ε-rule for all that is linear in x.

    `R_x = x ⊙ Jᵀ(R / (y + ε sign y))` with J the Jacobian for constant σ (Achtibat 2024, proposition 3.4; the rule that Ali
    2022 derives). An RMS norm, which subtracts no mean, passes relevance unchanged.

    Attributes:
        epsilon: stabiliser ε.
    """

    epsilon: float

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """The layer's result."""

        def frozen(x: Tensor) -> Tensor:
            with FrozenNorms():
                return operation(x)

        return Proportional(self.epsilon).of(operation, frozen, *operands)


@dataclass(frozen=True)
class MaskedSoftmax:
    """Softmax that passes relevance through the sum of scores and mask as the published code does: `R_x = x R/(x + 1e-9)`.

    The mask is 0 where a key is visible, so that the rule for sums would leave R as it is but for the stabiliser. That loses
    about 1e-9/x: much where a score x is near 0, and all where it is 0. Keys that are not visible have no relevance.
    """

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """The softmax; the operand is scores and mask together."""
        return PASS(operation, SUM(torch.clone, *operands))


@dataclass(frozen=True)
class NormalisedAdd:
    """Sum of two activations (Chefer 2021a, eq. 8-10): proportional shares, then both rescaled to conserve.

    S = R/(a+b), R_a = aS, R_b = bS. Then R_a is scaled so that Σ R_a becomes |ΣR_a|/(|ΣR_a|+|ΣR_b|)·ΣR, and R_b likewise.
    Sums are over one example.
    """

    epsilon: ClassVar[float] = STABILISER

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """`a + b`."""
        result: Tensor = apply(_NormalisedAdd, *operands)
        return result


class _NormalisedAdd(TwoPhased, torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        _NormalisedAdd.remember(ctx)
        ctx.save_for_backward(a, b)
        return a + b

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        if _NormalisedAdd.is_gradient(ctx):
            return unbroadcast(relevance, a.shape), unbroadcast(relevance, b.shape)
        proportional = divide(relevance, a + b)
        parts = (a * proportional, b * proportional)
        sums = [_per_example(part) for part in parts]
        total, magnitude = _per_example(relevance), sums[0].abs() + sums[1].abs()
        return tuple(
            unbroadcast(part * divide(divide(part_sum.abs(), magnitude) * total, part_sum), operand.shape)
            for part, part_sum, operand in zip(parts, sums, (a, b), strict=True)
        )


def _per_example(relevance: Tensor) -> Tensor:
    """Sum over one example, kept broadcastable: never over the batch, so that results are batch-invariant."""
    return relevance.flatten(1).sum(1).view(-1, *[1] * (relevance.dim() - 1))
