"""Relevance rules with settings: ε, α-β and γ (Bach 2015; Montavon 2019), softmax and normalisation (Achtibat 2024).

As in `rules`, the forward pass is the operation itself and the backward pass is the rule. A bias counts as one more input
of activation 1: it takes its share of the relevance, which then goes nowhere.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from methods.relevance.conservative import FrozenNorms
from methods.relevance.rules import add_shares


def share(relevance: Tensor, z: Tensor, epsilon: float) -> Tensor:
    """`R / (z + ε sign(z))`, and 0 where z = 0: a sum of zero has nothing to share out."""
    return torch.where(z == 0, 0.0, relevance / (z + epsilon * z.sign()))


class EpsilonLinear(torch.autograd.Function):
    """Linear layer, ε-rule (Bach 2015, eq. 58): R_i = Σ_j x_i w_ji R_j / (z_j + ε sign z_j), z = xWᵀ + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> Tensor:
        """`x Wᵀ + b`."""
        z = F.linear(x, weight, bias)
        ctx.save_for_backward(x, weight, z)
        ctx.epsilon = epsilon
        return z

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None, None]:
        """R_x."""
        x, weight, z = ctx.saved_tensors
        return (share(relevance, z, ctx.epsilon) @ weight).mul_(x), None, None, None


def _positive_and_negative(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of the positive and of the negative contributions x_i w_ji; exactly 0 where there are none."""
    halves = torch.cat((x.clamp(min=0), x.clamp(max=0)), -1)
    up, down = weight.clamp(min=0), weight.clamp(max=0)
    return F.linear(halves, torch.cat((up, down), 1)), F.linear(halves, torch.cat((down, up), 1))


def _back(x: Tensor, weight: Tensor, to_positive: Tensor, to_negative: Tensor) -> Tensor:
    """`Σ_j (x_i w_ji)⁺ to_positive_j + (x_i w_ji)⁻ to_negative_j`."""
    up, down = weight.clamp(min=0), weight.clamp(max=0)
    above, below = to_positive @ up + to_negative @ down, to_positive @ down + to_negative @ up
    return x.clamp(min=0).mul_(above).add_(x.clamp(max=0).mul_(below))


class AlphaBetaLinear(torch.autograd.Function):
    """Linear layer, α-β rule (Bach 2015, eq. 60): R_i = Σ_j (α (x_i w_ji)⁺/z_j⁺ − β (x_i w_ji)⁻/z_j⁻) R_j.

    z⁺ and z⁻ are the sums of the positive and of the negative contributions, the bias among them.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, alpha: float, beta: float, epsilon: float
    ) -> Tensor:
        """`x Wᵀ + b`."""
        positive, negative = _positive_and_negative(x, weight)
        if bias is not None:
            positive, negative = positive + bias.clamp(min=0), negative + bias.clamp(max=0)
        ctx.save_for_backward(x, weight, positive, negative)
        ctx.settings = alpha, beta, epsilon
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        """R_x."""
        x, weight, positive, negative = ctx.saved_tensors
        alpha, beta, epsilon = ctx.settings
        parts = alpha * share(relevance, positive, epsilon), -beta * share(relevance, negative, epsilon)
        return _back(x, weight, *parts), None, None, None, None, None


class GammaLinear(torch.autograd.Function):
    """Linear layer, γ-rule: the contributions c_ij = x_i w_ji that agree in sign with z_j = Σ_i c_ij count 1 + γ times.

    R_i = Σ_j (c_ij + γ c_ij^s) R_j / (z_j + γ z_j^s), s the sign of z_j, c^s the part of c of that sign. For x ≥ 0 and
    z > 0 this is Montavon 2019 (section 10.2.3: W + γW⁺), whose definition leaves signed inputs open.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, gamma: float, epsilon: float) -> Tensor:
        """`x Wᵀ + b`."""
        positive, negative = _positive_and_negative(x, weight)
        if bias is not None:
            positive, negative = positive + bias.clamp(min=0), negative + bias.clamp(max=0)
        z = F.linear(x, weight, bias)
        ctx.save_for_backward(x, weight, z, z + gamma * torch.where(z > 0, positive, negative))
        ctx.settings = gamma, epsilon
        return z

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None, None, None]:
        """R_x."""
        x, weight, z, denominator = ctx.saved_tensors
        gamma, epsilon = ctx.settings
        shares = share(relevance, denominator, epsilon)
        raised = (1 + gamma) * shares
        parts = torch.where(z > 0, raised, shares), torch.where(z > 0, shares, raised)
        return _back(x, weight, *parts), None, None, None, None


class EpsilonMatmul(torch.autograd.Function):
    """Product of two activations, ε and uniform rule (Achtibat 2024, proposition 3.3): half of the ε-rule's R to each.

    S = R/(2(ab + ε sign)), R_a = a⊙(S bᵀ), R_b = b⊙(aᵀ S).
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, epsilon: float) -> Tensor:
        """`a b`."""
        product = torch.matmul(a, b)
        ctx.save_for_backward(a, b, product)
        ctx.epsilon = epsilon
        return product

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """(R_a, R_b)."""
        a, b, product = ctx.saved_tensors
        shares = share(relevance, product, ctx.epsilon).mul_(0.5)
        left = (shares @ b.transpose(-1, -2)).mul_(a) if ctx.needs_input_grad[0] else None
        right = (a.transpose(-1, -2) @ shares).mul_(b) if ctx.needs_input_grad[1] else None
        return left, right, None


class EpsilonAdd(torch.autograd.Function):
    """Sum of two activations, ε-rule: R_a = a R / (a + b + ε sign), R_b = b R / (a + b + ε sign)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, epsilon: float) -> Tensor:
        """`a + b`."""
        ctx.save_for_backward(a, b)
        ctx.epsilon = epsilon
        return a + b

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """(R_a, R_b)."""
        a, b = ctx.saved_tensors
        shares = share(relevance, a + b, ctx.epsilon)
        return *add_shares(ctx, (a * shares, b * shares)), None


class TaylorSoftmax(torch.autograd.Function):
    """Softmax, Taylor expansion at its input x (Achtibat 2024, proposition 3.1): R_x = x ⊙ (R − s Σ R), s the result.

    What the expansion's constant term takes is lost: Σ R_x = Σ x ⊙ (R − s Σ R), whatever constant is added to x. Where
    s = 0 (a masked key, whose x is the least number there is) relevance is 0.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, result: Tensor, dim: int) -> Tensor:
        """The result, which was computed outside the graph."""
        ctx.save_for_backward(x, result)
        ctx.dim = dim
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None]:
        """R_x."""
        x, result = ctx.saved_tensors
        total = relevance.sum(ctx.dim, keepdim=True)
        return torch.where(result == 0, 0.0, x * (relevance - result * total)), None, None


class FrozenNorm(torch.autograd.Function):
    """Normalisation layer y = γ (x − m)/σ + β: identity for the division by σ, the ε-rule for all that is linear in x.

    R_x = x ⊙ Jᵀ(R / (y + ε sign y)) with J the Jacobian for constant σ (Achtibat 2024, proposition 3.4; the rule that Ali
    2022 derives). An RMS norm, which subtracts no mean, passes relevance unchanged.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, norm: Callable[[Tensor], Tensor], epsilon: float) -> Tensor:
        """`norm(x)`."""
        ctx.x = x.detach().requires_grad_()
        with torch.enable_grad(), FrozenNorms():
            y = norm(ctx.x)
        ctx.y, ctx.epsilon = y, epsilon
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, None, None]:
        """R_x."""
        shares = share(relevance, ctx.y.detach(), ctx.epsilon)
        (gradient,) = torch.autograd.grad(ctx.y, ctx.x, shares, retain_graph=True)
        return gradient.mul_(ctx.x.detach()), None, None
