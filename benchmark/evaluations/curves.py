"""Arithmetic of curves: how many units a fraction is, and the area under a curve."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Rounding = Literal["down", "up"]
Area = Literal["mean", "published"]
"""Which number stands for a curve: its mean height (`area`), or the integral times 100 (`published_area`)."""

TENTHS = tuple(k / 10 for k in range(1, 10))
"""0.1 … 0.9."""

_SLACK = 1e-9  # 0.1 · 70 is 7.000000000000001 in floating point: it still is 7 units


def counts(n: Int[Tensor, "B"], fractions: Sequence[float | int], rounding: Rounding = "down") -> Int[Tensor, "K B"]:
    """How many of n units each fraction is.

    `down`: ⌊fraction · n⌋, as `int(n * fraction)` in the published perturbation test (Chefer 2021a) and head pruning
    (Hao 2021). `up`: ⌈fraction · n⌉, at least one unit for a positive fraction (ERASER's shares of 1 % would
    otherwise be empty for texts under 100 words).

    Args:
        n: units of each example.
        fractions: K fractions between 0 and 1.
        rounding: `down` or `up`.
    """
    exact = torch.as_tensor(list(fractions), dtype=torch.float64)[:, None] * n.cpu()[None, :]
    rounded = torch.floor(exact + _SLACK) if rounding == "down" else torch.ceil(exact - _SLACK)
    return rounded.long().to(n.device)


def area(values: Float[Tensor, "*B K"], x: Sequence[float | int]) -> Float[Tensor, "*B"]:
    """Area under the curve by the trapezoid rule, divided by the range of x: `∫ y dx / (x_K − x_1)`.

    It is the mean height of the curve, so it lies within the curve's bounds whatever the range of x. The integral
    itself is this times x_K − x_1. With one x it is the value there.
    """
    if values.shape[-1] == 1:
        return values[..., 0]
    position = torch.as_tensor(list(x), dtype=values.dtype, device=values.device)
    return torch.trapezoid(values, position) / (position[-1] - position[0])


def published_area(values: Float[Tensor, "*B K"], x: Sequence[float | int]) -> Float[Tensor, "*B"]:
    """Area under the curve by the trapezoid rule, times 100: `100 · ∫ y dx`, not divided by the range of x.

    The tables of Chefer 2021a hold this number for x = 0, 0.1 … 0.9, with the accuracy of the unperturbed input at 0 (the
    authors' answer in issue 31 of their repository). A curve in [0, 1] gives 0 to 100 · (x_K − x_1), so at most 90 there.
    """
    return 100 * torch.trapezoid(values, torch.as_tensor(list(x), dtype=values.dtype, device=values.device))


def with_zero(fractions: Sequence[float | int]) -> tuple[float, ...]:
    """The fractions, preceded by 0 where they do not begin with it: what a curve needs to start at the whole input."""
    return tuple(fractions) if fractions[0] == 0 else (0.0, *fractions)
