"""Quadrature rules integrate polynomials up to their degree."""

import pytest

from benchmark.errors import UserError
from methods.edges.attattr import AttAttr
from methods.shared.quadrature import nodes_and_weights


@pytest.mark.parametrize(
    ("rule", "steps", "degree"),
    [
        ("left", 1, 0), ("left", 7, 0), ("right", 1, 0), ("right", 7, 0), ("midpoint", 1, 1), ("midpoint", 7, 1),
        ("trapezoid", 2, 1), ("trapezoid", 7, 1), *(("gauss_legendre", m, 2 * m - 1) for m in (1, 2, 3, 5)),
    ],
)  # fmt: skip
def test_quadrature_is_exact_up_to_its_degree_and_not_beyond(rule, steps, degree):
    nodes, weights = nodes_and_weights(rule, steps)
    assert len(nodes) == len(weights) == steps
    errors = [abs(float(weights @ nodes**power) - 1 / (power + 1)) for power in range(degree + 2)]
    assert max(errors[:-1]) < 1e-12
    assert errors[-1] > 1e-7


@pytest.mark.parametrize(
    ("rule", "steps"),
    [("left", 0), ("right", -1), ("midpoint", 0), ("trapezoid", 1), ("gauss_legendre", 0), ("best", 3)],
)
def test_too_few_steps_and_unknown_rules(rule, steps):
    with pytest.raises(
        UserError,
        match=r"steps=-?\d: allowed are|steps=1 is too small|quadrature=best is unknown; allowed: left, right",
    ):
        AttAttr(steps=steps, quadrature=rule) if rule != "best" else nodes_and_weights(rule, steps)
