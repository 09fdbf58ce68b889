"""Relevance rules as autograd functions: the forward pass is the operation itself, the backward pass is the rule.

In the equations R is the relevance that reaches the output; what a rule returns is the relevance of its inputs.
`divide` is the published stabiliser. Defined in docs/protocols.md, section 5.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

STABILISER = 1e-9


def divide(a: Tensor, b: Tensor) -> Tensor:
    """`a / (b + 1e-9)`, and 0 where b = 0 (Chefer 2021a's code; leaving it out moves results by about 1e-3)."""
    return torch.where(b == 0, 0.0, a / (b + STABILISER))


class Identity(torch.autograd.Function):
    """Relevance passes unchanged through an operation that was computed outside the graph: R_x = R."""

    @staticmethod
    def forward(_ctx: Any, _x: Tensor, result: Tensor) -> Tensor:
        """The result of the operation."""
        return result.view_as(result)

    @staticmethod
    def backward(_ctx: Any, relevance: Tensor) -> tuple[Tensor, None]:
        """R_x = R."""
        return relevance, None


class PositiveLinear(torch.autograd.Function):
    """Linear layer, α = 1, both signs in one denominator (Chefer 2021a, eq. 6-7 as in their code; bias ignored).

    S = R / (x⁺W⁺ᵀ + x⁻W⁻ᵀ), R_x = x⁺⊙(S W⁺) + x⁻⊙(S W⁻). Computed as Z = (xWᵀ + |x||W|ᵀ)/2 and
    R_x = (x⊙(S W) + |x|⊙(S|W|))/2, which is the same and halves the products.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x Wᵀ + b`."""
        product = F.linear(x, weight)
        magnitude = weight.abs()
        denominator = F.linear(x.abs(), magnitude).add_(product).mul_(0.5)
        ctx.save_for_backward(x, weight, magnitude, denominator)
        return product if bias is None else product + bias

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None]:
        """R_x."""
        x, weight, magnitude, denominator = ctx.saved_tensors
        share = divide(relevance, denominator)
        signed = (share @ weight).mul_(x)
        return torch.addcmul(signed, x.abs(), share @ magnitude).mul_(0.5), None, None


class SeparateLinear(torch.autograd.Function):
    """Linear layer, α = 1, each sign with its own denominator (the baseline "full LRP"; bias ignored; not conservative).

    R_x = x⁺⊙(R/(x⁺W⁺ᵀ) W⁺) + x⁻⊙(R/(x⁻W⁻ᵀ) W⁻).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x Wᵀ + b`."""
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None]:
        """R_x."""
        x, weight = ctx.saved_tensors

        def part(x_part: Tensor, weight_part: Tensor) -> Tensor:
            return x_part * (divide(relevance, F.linear(x_part, weight_part)) @ weight_part)

        return part(x.clamp(min=0), weight.clamp(min=0)) + part(x.clamp(max=0), weight.clamp(max=0)), None, None


class HalvedMatmul(torch.autograd.Function):
    """Product of two activations: S = R/(ab), R_a = a⊙(S bᵀ)/2, R_b = b⊙(aᵀ S)/2."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """`a b`."""
        product = torch.matmul(a, b)
        ctx.save_for_backward(a, b, product)
        return product

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """(R_a, R_b)."""
        a, b, product = ctx.saved_tensors
        share = divide(relevance, product).mul_(0.5)
        left = (share @ b.transpose(-1, -2)).mul_(a) if ctx.needs_input_grad[0] else None
        right = (a.transpose(-1, -2) @ share).mul_(b) if ctx.needs_input_grad[1] else None
        return left, right


def _per_example(relevance: Tensor) -> Tensor:
    """Sum over one example, kept broadcastable: never over the batch, so that results are batch-invariant."""
    return relevance.flatten(1).sum(1).view(-1, *[1] * (relevance.dim() - 1))


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """`a + b`."""
        ctx.save_for_backward(a, b)
        return a + b


def add_shares(ctx: Any, parts: tuple[Tensor, Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """The parts in the shapes of the operands; None for one that needs no relevance."""
    a, b = (
        _unbroadcast(part, operand.shape) if needed else None
        for part, operand, needed in zip(parts, ctx.saved_tensors, ctx.needs_input_grad[:2], strict=True)
    )
    return a, b


class NormalisedAdd(_Add):
    """Sum of two activations (Chefer 2021a, eq. 8-10): proportional shares, then both rescaled to conserve.

    S = R/(a+b), R_a = aS, R_b = bS; then Σ R_a is scaled to |ΣR_a|/(|ΣR_a|+|ΣR_b|)·ΣR and R_b likewise, the sums
    being over one example.
    """

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """(R_a, R_b)."""
        a, b = ctx.saved_tensors
        share = divide(relevance, a + b)
        parts = (a * share, b * share)
        sums = [_per_example(part) for part in parts]
        total, magnitude = _per_example(relevance), sums[0].abs() + sums[1].abs()
        left, right = (
            part * divide(divide(part_sum.abs(), magnitude) * total, part_sum)
            for part, part_sum in zip(parts, sums, strict=True)
        )
        return add_shares(ctx, (left, right))


class ProportionalAdd(_Add):
    """Sum of two activations without rescaling: R_a = a·R/(a+b), R_b = b·R/(a+b)."""

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """(R_a, R_b)."""
        a, b = ctx.saved_tensors
        share = divide(relevance, a + b)
        return add_shares(ctx, (a * share, b * share))


class MaskedSoftmax(torch.autograd.Function):
    """Softmax that passes relevance through the sum of scores and mask as the published code does: R_x = x·R/(x + 1e-9).

    The mask is 0 where a key is seen, so that the rule for sums leaves R but for the stabiliser: it loses about 1e-9/x,
    which is much where a score x is near 0, and all where it is 0. Keys that are not seen have no relevance.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, result: Tensor, _dim: int) -> Tensor:
        """The result, which was computed outside the graph; x are scores and mask together."""
        ctx.save_for_backward(x)
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None]:
        """R_x."""
        (x,) = ctx.saved_tensors
        return x * divide(relevance, x), None, None


class SplitProduct(torch.autograd.Function):
    """Elementwise product of two activations (gated feed-forward layers): half the relevance to each factor."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """`a ⊙ b`."""
        ctx.shapes = a.shape, b.shape
        return a * b

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """(R/2, R/2)."""
        half = relevance * 0.5
        return _unbroadcast(half, ctx.shapes[0]), _unbroadcast(half, ctx.shapes[1])


class ProportionalSum(torch.autograd.Function):
    """Sum or mean over dimensions (mean pooling): R_x = x·R/Σx."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, result: Tensor, dims: tuple[int, ...]) -> Tensor:
        """The result, which was computed outside the graph."""
        ctx.save_for_backward(x)
        ctx.dims = dims
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None]:
        """R_x."""
        (x,) = ctx.saved_tensors
        total = x.sum(ctx.dims, keepdim=True)
        return x * divide(relevance.view(total.shape), total), None, None


def _unbroadcast(relevance: Tensor, shape: torch.Size) -> Tensor:
    return relevance if relevance.shape == shape else relevance.sum_to_size(shape)
