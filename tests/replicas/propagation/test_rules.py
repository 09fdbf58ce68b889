"""Each relevance rule against its equation, one number at a time (docs/protocols.md, section 5)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from methods.propagation import rules
from methods.propagation.rules import (
    HALVED_SUM,
    HALVES,
    SUM,
    FrozenNorm,
    MaskedSoftmax,
    NormalisedAdd,
    Passing,
    Proportional,
)
from tests.replicas.conftest import assert_same, numbers
from tests.replicas.propagation.by_hand import EPSILON, divide, published_divide, relevance_of
from tests.replicas.registry import replicates


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_a_sum_of_zero_shares_out_nothing(epsilon, signed):
    """R / (z + ε) or R / (z + ε sign z), and 0 where z = 0, of either sign."""
    z, relevance = torch.tensor([2.0, 0.0, -3.0, -0.0]), torch.tensor([1.0, 5.0, -1.0, 7.0])
    apart = torch.tensor([epsilon, 0, -epsilon if signed else epsilon, 0])
    expected = torch.where(z == 0, 0.0, relevance / (z + apart))
    assert torch.equal(rules.divide(relevance, z, epsilon, signed=signed), expected)


def softmax(scores):
    return scores.softmax(-1)


@replicates(Proportional, signed=False, weight=0.5)
def test_halved_matmul():
    """S = R/(a b); R_a = a⊙(S bᵀ)/2, R_b = b⊙(aᵀ S)/2."""
    a, b, relevance = numbers(3, 4), numbers(4, 2, seed=1), numbers(3, 2, seed=2)
    a[0] = 0  # a product of 0 swallows its relevance
    slow_a, slow_b = torch.zeros_like(a), torch.zeros_like(b)
    for i, j in np.ndindex(*relevance.shape):
        share = published_divide(float(relevance[i, j]), sum(float(a[i, k] * b[k, j]) for k in range(4)))
        for k in range(4):
            slow_a[i, k] += a[i, k] * share * b[k, j] / 2
            slow_b[k, j] += b[k, j] * share * a[i, k] / 2
    a.requires_grad_(), b.requires_grad_()
    found = torch.autograd.grad(HALVED_SUM(torch.matmul, a, b), (a, b), relevance)
    assert_same(found[0], slow_a)
    assert_same(found[1], slow_b)
    (alone,) = torch.autograd.grad(HALVED_SUM(torch.matmul, a, b.detach()), a, relevance)
    assert_same(alone, slow_a)


@replicates(Proportional, signed=True, weight=0.5)
def test_matmul_gives_half_to_each_factor():
    """R_ik = Σ_j a_ik b_kj R_ij / (2 (z_ij + ε sign z_ij))."""
    a, b, relevance = numbers(3, 4), numbers(4, 2, seed=1), numbers(3, 2, seed=2)
    a[0] = 0
    slow_a, slow_b = torch.zeros_like(a), torch.zeros_like(b)
    for i, j, k in np.ndindex(3, 2, 4):
        z = sum(float(a[i, m] * b[m, j]) for m in range(4))
        part = divide(float(a[i, k] * b[k, j] * relevance[i, j]), z) / 2
        slow_a[i, k] += part
        slow_b[k, j] += part
    a.requires_grad_(), b.requires_grad_()
    found = torch.autograd.grad(Proportional(EPSILON, 0.5)(torch.matmul, a, b), (a, b), relevance)
    assert_same(found[0], slow_a)
    assert_same(found[1], slow_b)


def sums():
    """Two examples of two rows and three columns; in one cell the sum is 0."""
    a, b, relevance = numbers(2, 2, 3), numbers(2, 2, 3, seed=1), numbers(2, 2, 3, seed=2)
    b[1, 0, 0] = -a[1, 0, 0]
    return a, b, relevance


def shares(a, b, relevance):
    parts = [torch.zeros_like(a), torch.zeros_like(b)]
    for cell in np.ndindex(*a.shape):
        share = published_divide(float(relevance[cell]), float(a[cell] + b[cell]))
        parts[0][cell], parts[1][cell] = a[cell] * share, b[cell] * share
    return parts


def apply_to_sum(rule, a, b, relevance):
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    return torch.autograd.grad(rule(torch.add, a, b), (a, b), relevance)


@replicates(Proportional, signed=False, weight=1.0)
def test_proportional_add():
    a, b, relevance = sums()
    for found, slow in zip(apply_to_sum(SUM, a, b, relevance), shares(a, b, relevance), strict=True):
        assert_same(found, slow)


@replicates(NormalisedAdd)
def test_normalised_add_sums_over_one_example():
    """Both parts rescaled so that Σ R_a = |ΣR_a|/(|ΣR_a|+|ΣR_b|)·ΣR, over one example and never over the batch."""
    a, b, relevance = sums()
    found = apply_to_sum(NormalisedAdd(), a, b, relevance)
    for n in range(len(a)):
        parts = [part[n] for part in shares(a, b, relevance)]
        totals = [float(part.sum()) for part in parts]
        for own, part, total in zip(found, parts, totals, strict=True):
            wanted = published_divide(abs(total), abs(totals[0]) + abs(totals[1])) * float(relevance[n].sum())
            assert_same(own[n], part * published_divide(wanted, total))
            assert float(own[n].sum()) == pytest.approx(wanted, abs=1e-7)
        assert float(found[0][n].sum() + found[1][n].sum()) == pytest.approx(float(relevance[n].sum()), abs=1e-7)


def test_normalised_add_of_a_broadcast_input():
    """Position embeddings [1 T D] are added to a batch: their relevance is summed over it."""
    a, b, relevance = sums()
    shared = b[:1].clone().requires_grad_()
    (found,) = torch.autograd.grad(NormalisedAdd()(torch.add, a, shared), shared, relevance)
    whole = apply_to_sum(NormalisedAdd(), a, b[:1].expand_as(a), relevance)[1]
    assert_same(found, whole.sum(0, keepdim=True))


def test_add_of_a_broadcast_input():
    a, b, relevance = numbers(2, 3), numbers(1, 3, seed=1), numbers(2, 3, seed=2)
    a[0, 0] = -b[0, 0]
    slow_a, slow_b = torch.zeros_like(a), torch.zeros_like(b)
    for n, k in np.ndindex(2, 3):
        z = float(a[n, k] + b[0, k])
        slow_a[n, k] = divide(float(a[n, k] * relevance[n, k]), z)
        slow_b[0, k] += divide(float(b[0, k] * relevance[n, k]), z)
    a.requires_grad_(), b.requires_grad_()
    found = torch.autograd.grad(Proportional(EPSILON)(torch.add, a, b), (a, b), relevance)
    assert_same(found[0], slow_a)
    assert_same(found[1], slow_b)


@replicates(Proportional, epsilon=0.0, weight=1.0)
def test_softmax():
    """R_i = x_i (R_i − s_i Σ_k R_k), which is x ⊙ Jᵀ(R / s); and 0 for a masked key."""
    x, relevance = numbers(2, 4), numbers(2, 4, seed=1)
    x[1, 3], relevance[1, 3] = torch.finfo(torch.float64).min, 0.0  # a masked key has no relevance: its A is 0
    s = x.softmax(-1)
    slow = torch.zeros_like(x)
    for n, i in np.ndindex(2, 4):
        if s[n, i] > 0:
            slow[n, i] = x[n, i] * (relevance[n, i] - s[n, i] * sum(float(r) for r in relevance[n]))
    assert_same(relevance_of(Proportional(), softmax, relevance, x), slow)
    active = x[:1].clone().requires_grad_()
    (jacobian,) = torch.autograd.grad(active.softmax(-1), active, relevance[:1] / s[:1])
    assert_same(x[:1] * jacobian, slow[:1])


@replicates(MaskedSoftmax)
def test_masked_softmax():
    """Scores and mask through the rule for sums, R_x = x·R/(x + 0), then softmax as it is; hidden keys have none."""
    scores, relevance = numbers(2, 3), numbers(2, 3, seed=1)
    scores[0, 1], scores[1, 0], scores[1, 2] = 0.0, 3e-9, torch.finfo(torch.float64).min
    relevance[1, 2] = 0.0
    slow = torch.zeros_like(scores)
    for i, j in np.ndindex(*scores.shape):
        slow[i, j] = float(scores[i, j]) * published_divide(float(relevance[i, j]), float(scores[i, j]))
    result = scores.softmax(-1)
    assert_same(relevance_of(MaskedSoftmax(), softmax, relevance, scores), slow)
    assert torch.equal(MaskedSoftmax()(softmax, scores), result)
    assert float(slow[1, 0] / relevance[1, 0]) == pytest.approx(0.75)


@replicates(FrozenNorm)
@pytest.mark.parametrize("mean", [True, False])
def test_norm(mean):
    """R_i = Σ_j x_i J_ji R_j / (y_j + ε sign y_j), J_ji = γ_j (δ_ij − 1/n)/σ, without 1/n where no mean is subtracted."""
    norm = (nn.LayerNorm(5, eps=0.1) if mean else nn.RMSNorm(5, eps=0.1)).double().requires_grad_(requires_grad=False)
    x, relevance, gain, bias = numbers(2, 5), numbers(2, 5, seed=1), numbers(5, seed=2), numbers(5, seed=3)
    norm.weight.copy_(gain)
    if mean:
        norm.bias.copy_(bias)
    slow = torch.zeros_like(x)
    for n in range(2):
        values = [float(v) for v in x[n]]
        centre = sum(values) / 5 if mean else 0.0
        deviation = (sum((v - centre) ** 2 for v in values) / 5 + 0.1) ** 0.5
        for i, j in np.ndindex(5, 5):
            y = float(gain[j]) * (values[j] - centre) / deviation + (float(bias[j]) if mean else 0.0)
            slope = float(gain[j]) * ((i == j) - (1 / 5 if mean else 0)) / deviation
            slow[n, i] += values[i] * slope * divide(float(relevance[n, j]), y)
    assert_same(relevance_of(FrozenNorm(EPSILON), norm, relevance, x), slow)
    assert_same(FrozenNorm(EPSILON)(norm, x), norm(x))
    if not mean:
        assert_same(relevance_of(FrozenNorm(0.0), norm, relevance, x), relevance)
    else:
        norm.bias.zero_()
        total = relevance_of(FrozenNorm(0.0), norm, relevance, x).sum(1)
        assert_same(total, relevance.sum(1))


@replicates(Passing)
def test_a_product_is_halved_and_a_sum_shared():
    a, b, relevance = numbers(2, 3), numbers(2, 3, seed=1), numbers(2, 3, seed=2)
    a.requires_grad_(), b.requires_grad_()
    for found in torch.autograd.grad(HALVES(torch.mul, a, b), (a, b), relevance):
        assert_same(found, relevance / 2)
    (found,) = torch.autograd.grad(SUM(lambda x: x.sum(1), a), a, relevance[:, 0])
    slow = torch.zeros(2, 3, dtype=torch.float64)
    for n, k in np.ndindex(2, 3):
        slow[n, k] = a[n, k].item() * published_divide(float(relevance[n, 0]), sum(float(v) for v in a[n].detach()))
    assert_same(found, slow)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_matmul_and_softmax_conserve_what_they_say(seed):
    a, b, relevance = numbers(3, 4, seed=seed), numbers(4, 2, seed=seed + 1), numbers(3, 2, seed=seed + 2)
    a.requires_grad_(), b.requires_grad_()
    halves = torch.autograd.grad(Proportional(0.0, 0.5)(torch.matmul, a, b), (a, b), relevance)
    magnitude = float((relevance / (a @ b)).abs().sum().detach())
    for half in halves:
        assert float(half.sum()) == pytest.approx(float(relevance.sum()) / 2, abs=1e-12 * (1 + magnitude))
    scores, own = numbers(3, 5, seed=seed), numbers(3, 5, seed=seed + 1)
    result = scores.softmax(-1)
    found = relevance_of(Proportional(), softmax, own, scores)
    shifted = relevance_of(Proportional(), softmax, own, scores + 7.5)
    assert_same(
        shifted.sum(-1), found.sum(-1)
    )  # a constant in the scores changes who gets it, but not how much there is
    assert_same((result.log() * (own - result * own.sum(-1, keepdim=True))).sum(-1), found.sum(-1))


@pytest.mark.parametrize("a", [1.0, 5.0, 10.0, 20.0])
def test_relevance_of_a_sum_of_opposites_does_not_explode(a):
    """Chefer et al. 2021a, equation 8: u = (e^a, e^b) and v = (1 − e^a, 1 − e^b) add up to 1, whatever a and b are.

    In proportion R_u = (e^a, e^b) grows without bound, and R_v with it, though their sum stays what it was. Rescaled sums
    are |ΣR_u| / (|ΣR_u| + |ΣR_v|) of ΣR = 2, so that ΣR_u = 2 s / (s + s − 2) with s = e^a + e^b.
    """
    b = a + 1
    s = np.exp(a) + np.exp(b)
    relevance = torch.ones(1, 2, dtype=torch.float64)

    def shares(rule):
        u = torch.tensor([[np.exp(a), np.exp(b)]], dtype=torch.float64)
        v = (1 - u).requires_grad_()
        return torch.autograd.grad(rule(torch.add, u.requires_grad_(), v), (u, v), relevance)

    plain_u, plain_v = shares(SUM)
    assert plain_u[0].tolist() == pytest.approx([np.exp(a), np.exp(b)], rel=1e-6)
    assert plain_v[0].tolist() == pytest.approx([1 - np.exp(a), 1 - np.exp(b)], rel=1e-6)
    rescaled_u, rescaled_v = shares(NormalisedAdd())
    assert float(rescaled_u.sum()) == pytest.approx(2 * s / (2 * s - 2), rel=1e-6)
    assert float(rescaled_v.sum()) == pytest.approx(2 * (s - 2) / (2 * s - 2), rel=1e-6)
    assert rescaled_u[0].tolist() == pytest.approx([2 * np.exp(a) / (2 * s - 2), 2 * np.exp(b) / (2 * s - 2)], rel=1e-6)
    both = torch.cat([rescaled_u, rescaled_v])
    assert (both >= 0).all()
    assert float(both.max()) <= 2, "no more than there was"
    assert float(both.sum()) == pytest.approx(2, rel=1e-6)
