"""DeepLIFT's multipliers: each rule one number at a time, and captum's on what captum covers."""

import math

import numpy as np
import pytest
import torch
from captum.attr import DeepLift as CaptumDeepLift
from torch import nn

from benchmark.errors import NotApplicable
from methods.propagation.mode import propagating
from methods.propagation.multiplier_rules import Secant
from methods.propagation.multipliers import RescaleRule
from tests.replicas.conftest import assert_same, numbers


def multipliers(function, inputs, references, weight):
    """Multipliers of the inputs for Σ weight ⊙ function(inputs), as the mode gives them."""
    both = torch.cat([inputs, references]).requires_grad_()
    with propagating(nn.Identity(), RescaleRule()):
        out = function(both)
    (found,) = torch.autograd.grad(out[: len(inputs)], both, weight)
    assert not found[len(inputs) :].any()
    return found[: len(inputs)]


@pytest.mark.parametrize(
    ("function", "scalar"),
    [
        (torch.tanh, math.tanh),
        (torch.relu, lambda v: max(v, 0.0)),
        (nn.functional.gelu, lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2)))),
        (nn.functional.silu, lambda v: v / (1 + math.exp(-v))),
    ],
)
def test_an_activation_has_the_slope_of_its_secant(function, scalar):
    x, r, weight = numbers(2, 5), numbers(2, 5, seed=1), numbers(2, 5, seed=2)
    found = multipliers(function, x, r, weight)
    for place in np.ndindex(*x.shape):
        a, b = float(x[place]), float(r[place])
        assert float(found[place]) == pytest.approx(float(weight[place]) * (scalar(a) - scalar(b)) / (a - b), rel=1e-9)


def test_where_input_and_reference_coincide_the_slope_is_the_derivative():
    x = numbers(1, 6)
    found = multipliers(torch.tanh, x, x + torch.tensor([0, 1e-12, -1e-9, 1e-7, 1e-5, 1e-4]), torch.ones(1, 6).double())
    assert torch.allclose(found, 1 - x.tanh() ** 2, rtol=1e-3)
    assert torch.allclose(found[:, :3], 1 - x[:, :3].tanh() ** 2, rtol=1e-8)


def logarithmic_mean(a, b):
    return a if a == b else (a - b) / (math.log(a) - math.log(b))


def test_softmax_is_taken_apart_into_exp_sum_log_and_exp():
    x, r, weight = numbers(1, 4), numbers(1, 4, seed=1), numbers(1, 4, seed=2)
    found = multipliers(lambda z: torch.softmax(z, -1), x, r, weight)
    e, f = ([math.exp(v) for v in row[0]] for row in (x, r))
    outer = [logarithmic_mean(a / sum(e), b / sum(f)) for a, b in zip(e, f, strict=True)]
    to_log_sum = [logarithmic_mean(a, b) / logarithmic_mean(sum(e), sum(f)) for a, b in zip(e, f, strict=True)]
    slow = torch.zeros(1, 4, dtype=torch.float64)
    for j in range(4):
        for k in range(4):  # from the score j to the probability k
            slow[0, j] += float(weight[0, k]) * outer[k] * ((j == k) - to_log_sum[j])
    assert_same(found, slow)


def test_softmax_with_masked_and_with_far_scores_stays_finite_and_complete():
    low = torch.finfo(torch.float64).min
    x = torch.tensor([[1.0, 2.0, low, 0.0], [900.0, 1.0, -5.0, 3.0], [0.0, 0.0, 0.0, -torch.inf]]).double()
    r = torch.tensor([[0.0, 5.0, low, 0.0], [-900.0, 1.0, 700.0, 3.0], [0.0, 1.0, 0.0, -torch.inf]]).double()
    weight = numbers(3, 4)
    found = multipliers(lambda z: torch.softmax(z, -1), x, r, weight)
    assert bool(found.isfinite().all())
    change = (found * (x - r).nan_to_num()).sum(1)
    assert torch.allclose(change, (weight * (x.softmax(-1) - r.softmax(-1))).sum(1), atol=1e-12)


def test_products_of_activations_share_by_the_other_factors_mean():
    x, r, weight = numbers(2, 3, 6), numbers(2, 3, 6, seed=1), numbers(2, 3, 3, seed=2)
    found = multipliers(lambda z: z[..., :4] @ z[..., 2:].transpose(-1, -2), x, r, weight)
    slow = torch.zeros_like(x)
    for n, i, j, k in np.ndindex(2, 3, 3, 4):  # out[i, j] = Σ_k z[i, k] z[j, 2 + k]
        slow[n, i, k] += weight[n, i, j] * (x[n, j, 2 + k] + r[n, j, 2 + k]) / 2
        slow[n, j, 2 + k] += weight[n, i, j] * (x[n, i, k] + r[n, i, k]) / 2
    assert_same(found, slow)
    gate = numbers(2, 3, 3, seed=3)
    found = multipliers(lambda z: z[..., :3] * z[..., 3:], x, r, gate)
    assert_same(found[..., :3], gate * (x[..., 3:] + r[..., 3:]) / 2)
    assert_same(found[..., 3:], gate * (x[..., :3] + r[..., :3]) / 2)


def test_layer_norm_by_hand():
    x, r, weight = numbers(1, 5), 3 * numbers(1, 5, seed=1) + 1, numbers(1, 5, seed=2)
    gamma, beta, eps = numbers(5, seed=3), numbers(5, seed=4), 1e-3
    found = multipliers(lambda z: nn.functional.layer_norm(z, (5,), gamma, beta, eps), x, r, weight)
    (c, d) = ([float(v) - float(row[0].mean()) for v in row[0]] for row in (x, r))
    variances = [sum(v * v for v in row) / 5 + eps for row in (c, d)]
    roots = [v**0.5 for v in variances]
    root = sum(roots) / 2
    centred = [0.0] * 5
    for k in range(5):  # Δy = (Δc − ȳ Δσ)/σ̄, Δσ = Δv/2σ̄, Δv = mean of 2 c̄ Δc
        out = float(weight[0, k] * gamma[k])
        middle = (c[k] / roots[0] + d[k] / roots[1]) / 2
        centred[k] += out / root
        for j in range(5):
            centred[j] -= out * middle / root / (2 * root) * 2 * (c[j] + d[j]) / 2 / 5
    slow = [value - sum(centred) / 5 for value in centred]
    assert_same(found[0], torch.tensor(slow, dtype=torch.float64))


def test_root_mean_square_norm_is_as_steep_as_the_vectors_allow_from_a_reference_of_zero():
    """Written with single operations, as transformers does; the product rule would multiply by half of 1/√eps."""

    def norm(z):
        return z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6)

    x, weight = numbers(3, 5), numbers(3, 5, seed=2)
    found = multipliers(norm, x, torch.zeros_like(x), weight)
    scale = (x**2).mean(-1, keepdim=True).sqrt()
    assert float((found * scale).abs().max()) < 6 * float(weight.abs().max())
    assert torch.allclose((found * x).sum(1), (weight * norm(x)).sum(1), atol=1e-12)


@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks")  # captum's own, on every call
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid])
def test_captums_deeplift_on_a_network_that_captum_covers(activation):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 9), activation(), nn.Linear(9, 7), activation(), nn.Linear(7, 3)).double()
    network.requires_grad_(requires_grad=False)
    x, r = numbers(4, 6), numbers(4, 6, seed=1)
    expected = CaptumDeepLift(network).attribute(x.clone().requires_grad_(), r, target=1)
    both = torch.cat([x, r]).requires_grad_()
    with propagating(network, RescaleRule()):
        out = network(both)
    (found,) = torch.autograd.grad(out[:4, 1].sum(), both)
    assert torch.allclose(found[:4] * (x - r), expected, atol=1e-9)
    assert not any("forward" in vars(module) for module in network.modules())


@pytest.mark.parametrize(
    "operation",
    [torch.sin, lambda z: 1 / (z**2 + 1), lambda z: z**3, lambda z: torch.pow(z, exponent=3), lambda z: z.amax(-1)],
)
def test_an_operation_without_a_rule_is_no_silent_gradient(operation):
    with pytest.raises(NotApplicable, match="DeepLIFT has no rule for torch"):
        multipliers(operation, numbers(2, 3), numbers(2, 3, seed=1), None)


def test_the_secant_keeps_single_precision():
    """With Δ at the size of float32's rounding the quotient would be noise."""
    x = torch.linspace(-2, 2, 50)[None]
    r = x + 1e-6
    both = torch.cat([x, r]).requires_grad_()
    out = Secant.apply(both, torch.tanh)
    (found,) = torch.autograd.grad(out[:1].sum(), both)
    assert torch.allclose(found[:1], 1 - x.tanh() ** 2, atol=1e-4)
