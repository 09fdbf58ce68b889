"""Relevance rules of linear layers that tell signs apart; called as `rule(F.linear, x, weight, bias)`, see `rules`.

c_ij = x_i w_ji is what input i contributes to output j; c⁺ and c⁻ are its positive and negative parts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmark.models.precision import WeightPart
from methods.propagation.mode import apply
from methods.propagation.phases import TwoPhased, weight_parts
from methods.propagation.rules import STABILISER, divide


@dataclass(frozen=True)
class PositiveLinear:
    """α = 1, both signs of x in one denominator (Chefer 2021a, eq. 6-7 as in their code; bias ignored).

    `R_i = Σ_j c_ij⁺ R_j / Σ_i c_ij⁺`, which is α-β with β = 0. As Σ c⁺ = Z/2 with Z = xWᵀ + |x||W|ᵀ, it is computed from
    S = R/Z as `R_x = x ⊙ (S W) + |x| ⊙ (S|W|)`: the same with half of the products.
    """

    epsilon: ClassVar[float] = STABILISER
    shares_with_bias: ClassVar[bool] = False

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """`x Wᵀ + b`."""
        x, weight, *bias = operands
        result: Tensor = apply(_PositiveLinear, x, weight, weight_parts()(weight, "magnitude"), *bias)
        return result


class _PositiveLinear(TwoPhased, torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, magnitude: Tensor, bias: Tensor | None = None) -> Tensor:
        _PositiveLinear.remember(ctx)
        product = F.linear(x, weight)
        ctx.save_for_backward(x, weight, magnitude, F.linear(x.abs(), magnitude).add_(product))
        return product if bias is None else product.add_(bias)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, magnitude, twice = ctx.saved_tensors
        if _PositiveLinear.is_gradient(ctx):
            return relevance @ weight, None, None, None
        shares = divide(relevance, twice, 2 * STABILISER)
        signed = (shares @ weight).mul_(x)
        return signed.addcmul_(x.abs(), shares @ magnitude), None, None, None


@dataclass(frozen=True)
class SeparateLinear:
    """α = 1, each sign of x with its own denominator (the baseline "full LRP"; bias ignored; not conservative).

    `R_x = x⁺ ⊙ (R/(x⁺W⁺ᵀ) W⁺) + x⁻ ⊙ (R/(x⁻W⁻ᵀ) W⁻)`.
    """

    conserves: ClassVar[bool] = False
    shares_with_bias: ClassVar[bool] = False

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """`x Wᵀ + b`."""
        result: Tensor = apply(_SeparateLinear, *operands)
        return result


class _SeparateLinear(TwoPhased, torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        _SeparateLinear.remember(ctx)
        ctx.part_of = weight_parts()
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        if _SeparateLinear.is_gradient(ctx):
            return relevance @ weight, None, None

        def of(x_part: Tensor, part: WeightPart) -> Tensor:
            weights: Tensor = ctx.part_of(weight, part)
            return (divide(relevance, F.linear(x_part, weights)) @ weights).mul_(x_part)

        positive, negative = of(x.clamp(min=0), "positive"), of(x.clamp(max=0), "negative")
        return positive.add_(negative), None, None


class SignSplitting(ABC):
    """`R_i = Σ_j c_ij⁺ s_j⁺ + c_ij⁻ s_j⁻`; a subclass makes the shares s of R and of the sums Σ c⁺, Σ c⁻.

    A bias counts as one more input, of activation 1. Its share of the relevance goes nowhere.
    """

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """`x Wᵀ + b`."""
        result: Tensor = apply(_SignSplitting, self, *operands)
        return result

    @abstractmethod
    def shares(self, relevance: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
        """Of the positive and of the negative contributions."""


class _SignSplitting(TwoPhased, torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rule: SignSplitting, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        _SignSplitting.remember(ctx)
        halves = torch.cat((x.clamp(min=0), x.clamp(max=0)), -1)
        ctx.part_of = weight_parts()
        up, down = ctx.part_of(weight, "positive"), ctx.part_of(weight, "negative")
        positive, negative = F.linear(halves, torch.cat((up, down), 1)), F.linear(halves, torch.cat((down, up), 1))
        if bias is not None:
            positive, negative = positive + bias.clamp(min=0), negative + bias.clamp(max=0)
        ctx.rule = rule
        ctx.save_for_backward(x, weight, positive, negative)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, positive, negative = ctx.saved_tensors
        if _SignSplitting.is_gradient(ctx):
            return None, relevance @ weight, None, None
        to_positive, to_negative = ctx.rule.shares(relevance, positive, negative)
        up, down = ctx.part_of(weight, "positive"), ctx.part_of(weight, "negative")
        above, below = to_positive @ up + to_negative @ down, to_positive @ down + to_negative @ up
        return None, x.clamp(min=0).mul_(above).add_(x.clamp(max=0).mul_(below)), None, None


@dataclass(frozen=True)
class AlphaBeta(SignSplitting):
    """α-β rule (Bach 2015, eq. 60): `R_i = Σ_j (α c_ij⁺/z_j⁺ − β c_ij⁻/z_j⁻) R_j`, z⁺ = Σ c⁺ and z⁻ = Σ c⁻ with the bias.

    Attributes:
        alpha: α.
        beta: β.
        epsilon: stabiliser of either denominator.
    """

    alpha: float
    beta: float
    epsilon: float

    def shares(self, relevance: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
        """Of the positive and of the negative contributions."""
        above, below = (divide(relevance, z, self.epsilon, signed=True) for z in (positive, negative))
        return self.alpha * above, -self.beta * below


@dataclass(frozen=True)
class Gamma(SignSplitting):
    """γ-rule: the contributions that agree in sign with their sum z_j = Σ_i c_ij count 1 + γ times.

    `R_i = Σ_j (c_ij + γ c_ij^s) R_j / (z_j + γ z_j^s)`, s the sign of z_j and c^s the part of c of that sign. For x ≥ 0 and
    z > 0 this is the rule of Montavon 2019 (section 10.2.3: W + γW⁺). That definition leaves signed inputs open.

    Attributes:
        gamma: γ.
        epsilon: stabiliser of the denominator.
    """

    gamma: float
    epsilon: float

    def shares(self, relevance: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
        """Of the positive and of the negative contributions."""
        z = positive + negative
        raised_sum = z + self.gamma * torch.where(z > 0, positive, negative)
        plain = divide(relevance, raised_sum, self.epsilon, signed=True)
        raised = (1 + self.gamma) * plain
        return torch.where(z > 0, raised, plain), torch.where(z > 0, plain, raised)
