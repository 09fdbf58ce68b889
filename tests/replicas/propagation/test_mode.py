"""What a mode does with operations that it does not know, or knows in another form."""

from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmark.errors import NotApplicable
from methods.propagation.mode import propagating
from methods.propagation.operations import KINDS, Kind, module_kind
from methods.propagation.relevance_mode import RelevancePropagation
from methods.propagation.rule_sets import epsilon
from tests.replicas.conftest import assert_same, numbers


def relevance(operation, x, module=None):
    """(result, relevance of x) seeded with the result, by the ε-rule with ε = 0."""
    active = x.clone().requires_grad_()
    with propagating(module or nn.Identity(), RelevancePropagation(epsilon(0.0))):
        result = operation(active)
    return result.detach(), torch.autograd.grad(result, active, result.detach())[0]


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (torch.sin, "torch.sin"),
        (lambda x: torch.max(x, -1).values, "torch.max"),
        (lambda x: x.pow(2), "torch.Tensor.pow"),
        (lambda x: x.__iadd__(1), "torch.Tensor.add_"),
        (lambda x: torch.add(x, x, alpha=2), r"a scaled addition \(torch.add with alpha\)"),
        (lambda x: torch.addmm(torch.ones(3).double(), x, torch.eye(3).double(), alpha=2), "a scaled torch.addmm"),
        (lambda x: 1.0 / x, "torch.Tensor.__rtruediv__"),
        (lambda x: torch.div(torch.ones(2, 3), x), "a constant divided by an activation"),
        (lambda x: x[:, :1] * torch.ones(2, 3), "a product that broadcasts an activation"),
    ],
)
def test_what_has_no_rule_is_refused(operation, reason):
    with pytest.raises(NotApplicable, match=f"relevance propagation has no rule for {reason}, which this model uses"):
        relevance(lambda x: operation(x * 1.0), numbers(2, 3))


def test_sizes_indices_and_constants_are_no_activations():
    x = numbers(2, 3)

    def operation(active):
        assert active.size(1) == 3
        assert active.argmax() == x.argmax()
        assert torch.sin(x).shape == x.shape
        return active + 1.0

    assert_same(relevance(operation, x)[1], x + 1)


def test_a_linear_layer_may_be_called_with_names():
    x, weight, bias = numbers(2, 3), numbers(4, 3, seed=1), numbers(4, seed=2)
    _, positional = relevance(lambda a: F.linear(a, weight, bias), x)
    _, named = relevance(lambda a: F.linear(a, weight=weight, bias=bias), x)
    assert torch.equal(positional, named)


def test_a_difference_is_a_sum_of_the_negated():
    """R_a = a R/(a − b), R_b = −b R/(a − b); a constant takes none."""
    x = numbers(2, 3)
    assert_same(relevance(lambda a: a - 0.25 * a, x)[1], 0.75 * x)
    for constant in (lambda a: a - 1.0, lambda a: 1.0 - a, lambda a: torch.sub(a, 2)):
        result, share = relevance(constant, x)
        assert_same(share, result)


def test_a_mean_is_shared_as_the_sum_that_it_is_made_of():
    """R_i = x_i R / (Σ x + 1e-9), whatever the number of terms."""
    x = numbers(2, 3)
    mean, share = relevance(lambda a: a.mean(1, keepdim=True), x)
    assert torch.allclose(share, x * mean / (x.sum(1, keepdim=True) + 1e-9), atol=1e-14, rtol=0)
    assert torch.equal(mean, x.mean(1, keepdim=True))


def test_what_is_selected_takes_its_relevance_along():
    x, mask = numbers(2, 3), torch.tensor([[True, False, True], [False, False, True]])
    assert_same(relevance(lambda a: a.masked_fill(mask, 7.0), x)[1], x * ~mask)
    assert_same(relevance(lambda a: torch.where(mask, 7.0, a), x)[1], x * ~mask)


def test_activation_and_norm_modules_are_single_operations():
    class Norm(nn.Module):
        """Written with operations that have no rule."""

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    x = numbers(2, 3)
    assert [module_kind(module) for module in (Norm(), nn.GELU(), nn.Linear(2, 2))] == [
        "norm_module",
        "activation",
        None,
    ]
    result, share = relevance(norm := Norm(), x, norm)
    assert_same(share, result)
    assert "forward" not in vars(norm)


def test_every_kind_has_operations():
    assert {*KINDS.values(), "norm_module"} == set(get_args(Kind))
    assert KINDS[torch.softmax] == KINDS[F.softmax] == KINDS[torch.Tensor.softmax] == "softmax"
