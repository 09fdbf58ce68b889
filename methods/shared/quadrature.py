"""Quadrature rules on [0, 1] for path-integrated methods (docs/protocols.md, section 6)."""

from typing import Literal, get_args

import numpy as np

from benchmark.errors import UserError

Quadrature = Literal["left", "right", "midpoint", "trapezoid", "gauss_legendre"]


def nodes_and_weights(rule: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """`∫₀¹ f(α) dα ≈ Σ_k w_k f(α_k)` with `steps` evaluations of f; the weights sum to 1.

    Args:
        rule: `left` (α = k/m, k = 0..m−1: the published ATTATTR script), `right` (k = 1..m: the paper's formula),
            `midpoint`, `trapezoid` (both ends included: m − 1 intervals), or `gauss_legendre`.
        steps: number m of evaluations, at least 1 (2 for the trapezoid).

    Returns:
        (α, w), two arrays of length `steps`.

    Raises:
        UserError: too few steps, or an unknown rule.
    """
    fewest = 2 if rule == "trapezoid" else 1
    if steps < fewest:
        raise UserError(f"steps={steps} is too small: the quadrature rule '{rule}' needs at least {fewest}")
    k = np.arange(steps, dtype=np.float64)
    equal = np.full(steps, 1.0 / steps)
    if rule == "left":
        return k / steps, equal
    if rule == "right":
        return (k + 1) / steps, equal
    if rule == "midpoint":
        return (k + 0.5) / steps, equal
    if rule == "trapezoid":
        weights = np.full(steps, 1.0 / (steps - 1))
        weights[[0, -1]] /= 2
        return k / (steps - 1), weights
    if rule == "gauss_legendre":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        return (nodes + 1) / 2, weights / 2
    raise UserError(f"quadrature={rule} is unknown; allowed: {', '.join(get_args(Quadrature))}")
