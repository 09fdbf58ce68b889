"""Multipliers of operations that are not linear, as autograd functions whose backward pass is the rule (Shrikumar 2017).

The first half of every tensor along the batch dimension belongs to the inputs, the second half to their references. Every
rule is exact: `Σ m_in Δin = m_out Δout`, with Δ the difference between the row of an input and that of its reference.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the inputs and those of their references."""
    inputs, references = x.chunk(2)
    return inputs, references


def _middle(x: Tensor) -> Tensor:
    inputs, references = halves(x)
    return (inputs + references) / 2


def _doubled(multiplier: Tensor, like: Tensor) -> Tensor:
    """Multipliers of the inputs' rows, summed where `like` was broadcast; the references' rows get 0."""
    of_inputs = multiplier.sum_to_size(like.shape[0] // 2, *like.shape[1:])
    return torch.cat([of_inputs, torch.zeros_like(of_inputs)])


def _is_small(difference: Tensor) -> Tensor:
    """Where a quotient of differences loses more digits than the derivative half way between the two points."""
    tolerance: float = torch.finfo(difference.dtype).eps ** (1 / 3)
    return difference.abs() < tolerance


def _quotient(difference: Tensor, by: Tensor, otherwise: Tensor) -> Tensor:
    small = _is_small(by)
    return torch.where(small, otherwise, difference / by.masked_fill(small, 1))


class Secant(torch.autograd.Function):
    """An element-wise function f: `m = (f(x) − f(r))/(x − r)`, or `m = f'((x + r)/2)` where x and r all but coincide."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """f of both halves."""
        inputs, references = halves(x)
        with torch.enable_grad():
            middle = _middle(x.detach()).requires_grad_()
            (slope,) = torch.autograd.grad(function(middle).sum(), middle)
        result = function(x)
        ctx.save_for_backward(_quotient(result.chunk(2)[0] - result.chunk(2)[1], inputs - references, slope), x)
        return result

    @staticmethod
    def backward(ctx: Any, multiplier: Tensor) -> tuple[Tensor, None]:
        """Multipliers of x."""
        slope, x = ctx.saved_tensors
        return _doubled(halves(multiplier)[0] * slope, x), None


class ReciprocalRoot(torch.autograd.Function):
    """`f(x) = x^(−½)` of a variance: `m = −1/(√x √r (√x + √r))`, exact however close x and r are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """f of both halves."""
        ctx.save_for_backward(x)
        return x.rsqrt()

    @staticmethod
    def backward(ctx: Any, multiplier: Tensor) -> Tensor:
        """Multipliers of x."""
        (x,) = ctx.saved_tensors
        a, b = (half.sqrt() for half in halves(x))
        return _doubled(-halves(multiplier)[0] / (a * b * (a + b)), x)


class Product(torch.autograd.Function):
    """`a ⊙ b`: `Δ(ab) = Δa·(b + b_r)/2 + (a + a_r)/2·Δb`, which gives each factor its Shapley value."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """The product of both halves."""
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, multiplier: Tensor) -> tuple[Tensor, Tensor]:
        """Multipliers of both factors."""
        a, b = ctx.saved_tensors
        of_inputs = halves(multiplier)[0]
        return _doubled(of_inputs * _middle(b), a), _doubled(of_inputs * _middle(a), b)


class Normalised(torch.autograd.Function):
    """`y = c/σ`, given as c ⊙ r with `r = 1/σ`: the rule for the product `y σ = c`, solved for y.

    `Δy = (Δc − ȳ Δσ)/σ̄`, bars being means of input and reference. So `m_c = 1/σ̄ = 2 r r'/(r + r')` and
    `m_r = (y + y')/(r + r')`, primes marking the reference.

    The rule for the product c ⊙ r would be complete as well. But where a reference is constant over dimensions, as a zero
    embedding is, r' is huge, and that rule would spread two huge terms of opposite sign differently.
    """

    @staticmethod
    def forward(ctx: Any, c: Tensor, r: Tensor) -> Tensor:
        """The product of both halves."""
        y = c * r
        ctx.save_for_backward(c, r, y)
        return y

    @staticmethod
    def backward(ctx: Any, multiplier: Tensor) -> tuple[Tensor, Tensor]:
        """Multipliers of c and r."""
        c, r, y = ctx.saved_tensors
        of_inputs, (a, b) = halves(multiplier)[0], halves(r)
        return _doubled(of_inputs * 2 * a * b / (a + b), c), _doubled(of_inputs * _middle(y) / _middle(r), r)


class MatrixProduct(torch.autograd.Function):
    """`a b` of matrices, as a sum of products."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """The product of both halves."""
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx: Any, multiplier: Tensor) -> tuple[Tensor, Tensor]:
        """Multipliers of both factors."""
        a, b = ctx.saved_tensors
        of_inputs = halves(multiplier)[0]
        return _doubled(of_inputs @ _middle(b).mT, a), _doubled(_middle(a).mT @ of_inputs, b)


class Softmax(torch.autograd.Function):
    """`p_j = exp(z_j − log Σ_k exp z_k)` by the rescale rule at each of exp, Σ, log and the outer exp.

    Let e_j = exp z_j and s = Σ_k e_k, and let ℓ(v) be the logarithmic mean `(v − v')/(log v − log v')` of a value v and its
    reference v'. Then `m(z_j → log s) = ℓ(e_j)/ℓ(s)` and `m(z_j − log s → p_j) = ℓ(p_j)`. e_j and s are computed relative to
    the larger of s and s', so that no exponential overflows.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        """Softmax over the last dimension."""
        result = z.softmax(-1)
        p, q = halves(result)
        total, reference = halves(z.logsumexp(-1, keepdim=True))
        largest = torch.maximum(total, reference)
        s, t = (total - largest).exp(), (reference - largest).exp()
        change = (halves(z)[0] - halves(z)[1]).nan_to_num()  # a masked score is the same in both
        inner = _logarithmic_mean(p * s, q * t, change) / _logarithmic_mean(s, t, total - reference)
        ctx.save_for_backward(_logarithmic_mean(p, q, change - (total - reference)), inner, z)
        return result

    @staticmethod
    def backward(ctx: Any, multiplier: Tensor) -> Tensor:
        """Multipliers of z."""
        outer, inner, z = ctx.saved_tensors
        to_exponent = halves(multiplier)[0] * outer
        return _doubled(to_exponent - inner * to_exponent.sum(-1, keepdim=True), z)


def _logarithmic_mean(a: Tensor, b: Tensor, difference: Tensor) -> Tensor:
    """`(a − b)/difference` with difference = log a − log b; the geometric mean where a and b all but coincide."""
    return _quotient(a - b, difference, (a * b).sqrt())
