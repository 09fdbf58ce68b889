"""Relevance rules of linear layers against their equations, one number at a time."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.propagation.linear_rules import AlphaBeta, Gamma, PositiveLinear, SeparateLinear
from methods.propagation.rules import Proportional
from tests.replicas.conftest import assert_same, numbers
from tests.replicas.propagation.by_hand import EPSILON, divide, published_divide, relevance_of
from tests.replicas.registry import replicates


def positive(v):
    return v if v > 0 else 0.0


def negative(v):
    return v if v < 0 else 0.0


@pytest.fixture
def published_layer():
    """Two inputs of five features, three outputs; one feature is 0, so one output of the second input is 0 throughout."""
    x, weight, relevance = numbers(2, 5), numbers(3, 5, seed=1), numbers(2, 3, seed=2)
    x[0, 2] = 0
    x[1] = 0
    x[1, 0], weight[1, 0] = 1.0, 0.0
    return x, weight, numbers(3, seed=3), relevance


@replicates(PositiveLinear)
def test_positive_linear(published_layer):
    """S = R / (x⁺W⁺ᵀ + x⁻W⁻ᵀ), R_in = x⁺⊙(S W⁺) + x⁻⊙(S W⁻)."""
    x, weight, bias, relevance = published_layer
    slow = torch.zeros_like(x)
    for n, out in np.ndindex(*relevance.shape):
        pairs = [(float(x[n, k]), float(weight[out, k])) for k in range(5)]
        denominator = sum(positive(a) * positive(w) + negative(a) * negative(w) for a, w in pairs)
        share = published_divide(float(relevance[n, out]), denominator)
        for k, (a, w) in enumerate(pairs):
            slow[n, k] += positive(a) * share * positive(w) + negative(a) * share * negative(w)
    assert_same(relevance_of(PositiveLinear(), F.linear, relevance, x, weight, bias), slow)
    assert not slow[1, 1:].any()
    assert torch.equal(PositiveLinear()(F.linear, x, weight, bias), F.linear(x, weight) + bias)


@replicates(SeparateLinear)
def test_separate_linear(published_layer):
    """Each sign with its own denominator."""
    x, weight, bias, relevance = published_layer
    slow = torch.zeros_like(x)
    for n, out in np.ndindex(*relevance.shape):
        for sign in (positive, negative):
            pairs = [(sign(float(x[n, k])), sign(float(weight[out, k]))) for k in range(5)]
            share = published_divide(float(relevance[n, out]), sum(a * w for a, w in pairs))
            for k, (a, w) in enumerate(pairs):
                slow[n, k] += a * share * w
    assert_same(relevance_of(SeparateLinear(), F.linear, relevance, x, weight, bias), slow)


@pytest.fixture
def layer():
    """x [2, 5], W [3, 5], b [3], R [2, 3]; one input is 0, and one output of the second input has no contribution."""
    x, weight, bias, relevance = numbers(2, 5), numbers(3, 5, seed=1), numbers(3, seed=3), numbers(2, 3, seed=2)
    x[0, 2] = 0
    x[1, 1:] = 0
    weight[1, 0] = bias[1] = 0.0
    return x, weight, bias, relevance


def by_hand(layer, shares):
    """R_i = Σ_j shares(c_1j … c_nj, b_j)_i R_j, where c_ij = x_i w_ji."""
    x, weight, bias, relevance = layer
    slow = torch.zeros_like(x)
    for n, j in np.ndindex(*relevance.shape):
        contributions = [float(x[n, i] * weight[j, i]) for i in range(x.shape[1])]
        for i, part in enumerate(shares(contributions, float(bias[j]))):
            slow[n, i] += part * relevance[n, j]
    return slow


def epsilon_shares(contributions, bias):
    return [divide(c, sum(contributions) + bias) for c in contributions]


def alpha_beta_shares(alpha, beta):
    def shares(contributions, bias):
        inputs = [*contributions, bias]
        above, below = sum(c for c in inputs if c > 0), sum(c for c in inputs if c < 0)
        return [alpha * divide(max(c, 0.0), above) - beta * divide(min(c, 0.0), below) for c in contributions]

    return shares


def gamma_shares(gamma):
    def shares(contributions, bias):
        inputs = [*contributions, bias]
        sign = 1 if sum(inputs) > 0 else -1
        raised = [c * (1 + gamma) if c * sign > 0 else c for c in inputs]
        return [divide(c, sum(raised)) for c in raised[:-1]]

    return shares


@replicates(Proportional, signed=True, weight=1.0)
@replicates(AlphaBeta)
@replicates(Gamma)
@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        (Proportional(EPSILON), epsilon_shares),
        (AlphaBeta(2.0, 1.0, EPSILON), alpha_beta_shares(2, 1)),
        (AlphaBeta(1.0, 0.0, EPSILON), alpha_beta_shares(1, 0)),
        (Gamma(0.25, EPSILON), gamma_shares(0.25)),
        (Gamma(3.0, EPSILON), gamma_shares(3)),
    ],
)
@pytest.mark.parametrize("with_bias", [True, False])
def test_linear(layer, rule, shares, with_bias):
    x, weight, bias, relevance = layer
    used = bias if with_bias else None
    found = relevance_of(rule, F.linear, relevance, x, weight, used)
    assert_same(found, by_hand((x, weight, bias if with_bias else torch.zeros(3), relevance), shares))
    assert_same(rule(F.linear, x, weight, used), F.linear(x, weight, used))


WEIGHTS = st.lists(st.floats(-10, 10).filter(lambda v: v == 0 or abs(v) > 1e-3), min_size=12, max_size=12)


@settings(max_examples=60)
@given(weights=WEIGHTS, inputs=st.lists(st.floats(-10, 10), min_size=4, max_size=4), gamma=st.floats(0, 10))
def test_a_linear_layer_conserves_the_relevance_of_every_output_that_has_a_share(weights, inputs, gamma):
    """Σ_i R_i = Σ_j R_j ρ_j with ρ_j = z_j/(z_j + ε sign z_j); for α-β each sign with its own."""
    x, weight = torch.tensor([inputs], dtype=torch.float64), torch.tensor(weights, dtype=torch.float64).view(3, 4)
    relevance = torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.float64)

    def kept(z):
        return torch.where(z == 0, 0.0, z.abs() / (z.abs() + EPSILON))

    contributions = x[0] * weight
    above, below = contributions.clamp(min=0).sum(1), contributions.clamp(max=0).sum(1)
    z = F.linear(x, weight)[0]
    raised = z + gamma * torch.where(z > 0, above, below)
    for rule, share in (
        (Proportional(EPSILON), kept(z)),
        (AlphaBeta(2.5, 1.5, EPSILON), 2.5 * kept(above) - 1.5 * kept(below)),
        (Gamma(gamma, EPSILON), kept(raised)),
    ):
        total = relevance_of(rule, F.linear, relevance, x, weight, None).sum()
        scale = float(1 + contributions.abs().sum() * (1 + gamma) / EPSILON)
        assert float(total - (relevance[0] * share).sum()) == pytest.approx(0, abs=1e-13 * scale)


def test_relations_between_rules(layer):
    x, weight, bias, relevance = layer
    one = relevance_of(AlphaBeta(1.0, 0.0, 1e-9), F.linear, relevance, x, weight, None)
    assert_same(one, relevance_of(PositiveLinear(), F.linear, relevance, x, weight, None))
    none = relevance_of(Gamma(0.0, EPSILON), F.linear, relevance, x, weight, bias)
    assert_same(none, relevance_of(Proportional(EPSILON), F.linear, relevance, x, weight, bias))
