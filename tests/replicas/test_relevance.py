"""The published relevance rules against docs/protocols.md, section 5, one number at a time."""

import numpy as np
import pytest
import torch

from methods.lrp import Lrp
from methods.relevance import relevance_pass, rule_set
from methods.relevance import rules as R
from methods.relevance.rule_sets import lrp as rule_set_with_mask
from tests.replicas.conftest import assert_same


def divide(a, b):
    """The published stabiliser."""
    return 0.0 if b == 0 else a / (b + 1e-9)


def positive(v):
    return v if v > 0 else 0.0


def negative(v):
    return v if v < 0 else 0.0


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def layer():
    """Two inputs of five features, three outputs; one feature is 0, so one output of the second input is 0 throughout."""
    x, weight, relevance = numbers(2, 5), numbers(3, 5, seed=1), numbers(2, 3, seed=2)
    x[0, 2] = 0
    x[1] = 0
    x[1, 0], weight[1, 0] = 1.0, 0.0
    return x, weight, numbers(3, seed=3), relevance


def relevance_of(rule, relevance, *inputs):
    active = inputs[0].clone().requires_grad_()
    return torch.autograd.grad(rule.apply(active, *inputs[1:]), active, relevance)[0]


def test_positive_linear(layer):
    """S = R / (x⁺W⁺ᵀ + x⁻W⁻ᵀ), R_in = x⁺⊙(S W⁺) + x⁻⊙(S W⁻)."""
    x, weight, bias, relevance = layer
    slow = torch.zeros_like(x)
    for n, out in np.ndindex(*relevance.shape):
        pairs = [(float(x[n, k]), float(weight[out, k])) for k in range(5)]
        denominator = sum(positive(a) * positive(w) + negative(a) * negative(w) for a, w in pairs)
        share = divide(float(relevance[n, out]), denominator)
        for k, (a, w) in enumerate(pairs):
            slow[n, k] += positive(a) * share * positive(w) + negative(a) * share * negative(w)
    assert_same(relevance_of(R.PositiveLinear, relevance, x, weight, bias), slow)
    assert not slow[1, 1:].any()
    assert torch.equal(R.PositiveLinear.apply(x, weight, bias), torch.nn.functional.linear(x, weight) + bias)


def test_separate_linear(layer):
    """Each sign with its own denominator."""
    x, weight, bias, relevance = layer
    slow = torch.zeros_like(x)
    for n, out in np.ndindex(*relevance.shape):
        for sign in (positive, negative):
            pairs = [(sign(float(x[n, k])), sign(float(weight[out, k]))) for k in range(5)]
            share = divide(float(relevance[n, out]), sum(a * w for a, w in pairs))
            for k, (a, w) in enumerate(pairs):
                slow[n, k] += a * share * w
    assert_same(relevance_of(R.SeparateLinear, relevance, x, weight, bias), slow)


def test_halved_matmul():
    """S = R/(a b); R_a = a⊙(S bᵀ)/2, R_b = b⊙(aᵀ S)/2."""
    a, b, relevance = numbers(3, 4), numbers(4, 2, seed=1), numbers(3, 2, seed=2)
    a[0] = 0  # a product of 0 swallows its relevance
    slow_a, slow_b = torch.zeros_like(a), torch.zeros_like(b)
    for i, j in np.ndindex(*relevance.shape):
        share = divide(float(relevance[i, j]), sum(float(a[i, k] * b[k, j]) for k in range(4)))
        for k in range(4):
            slow_a[i, k] += a[i, k] * share * b[k, j] / 2
            slow_b[k, j] += b[k, j] * share * a[i, k] / 2
    a.requires_grad_(), b.requires_grad_()
    found = torch.autograd.grad(R.HalvedMatmul.apply(a, b), (a, b), relevance)
    assert_same(found[0], slow_a)
    assert_same(found[1], slow_b)
    (alone,) = torch.autograd.grad(R.HalvedMatmul.apply(a, b.detach()), a, relevance)
    assert_same(alone, slow_a)


def sums():
    """Two examples of two rows and three columns; in one cell the sum is 0."""
    a, b, relevance = numbers(2, 2, 3), numbers(2, 2, 3, seed=1), numbers(2, 2, 3, seed=2)
    b[1, 0, 0] = -a[1, 0, 0]
    return a, b, relevance


def shares(a, b, relevance):
    parts = [torch.zeros_like(a), torch.zeros_like(b)]
    for cell in np.ndindex(*a.shape):
        share = divide(float(relevance[cell]), float(a[cell] + b[cell]))
        parts[0][cell], parts[1][cell] = a[cell] * share, b[cell] * share
    return parts


def apply_to_sum(rule, a, b, relevance):
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    return torch.autograd.grad(rule.apply(a, b), (a, b), relevance)


def test_proportional_add():
    a, b, relevance = sums()
    for found, slow in zip(apply_to_sum(R.ProportionalAdd, a, b, relevance), shares(a, b, relevance), strict=True):
        assert_same(found, slow)


def test_normalised_add_sums_over_one_example():
    """Both parts rescaled so that Σ R_a = |ΣR_a|/(|ΣR_a|+|ΣR_b|)·ΣR, over one example and never over the batch."""
    a, b, relevance = sums()
    found = apply_to_sum(R.NormalisedAdd, a, b, relevance)
    for n in range(len(a)):
        parts = [part[n] for part in shares(a, b, relevance)]
        totals = [float(part.sum()) for part in parts]
        for own, part, total in zip(found, parts, totals, strict=True):
            wanted = divide(abs(total), abs(totals[0]) + abs(totals[1])) * float(relevance[n].sum())
            assert_same(own[n], part * divide(wanted, total))
            assert float(own[n].sum()) == pytest.approx(wanted, abs=1e-7)
        assert float(found[0][n].sum() + found[1][n].sum()) == pytest.approx(float(relevance[n].sum()), abs=1e-7)


def test_normalised_add_of_a_broadcast_input():
    """Position embeddings [1 T D] are added to a batch: their relevance is summed over it."""
    a, b, relevance = sums()
    shared = b[:1].clone().requires_grad_()
    (found,) = torch.autograd.grad(R.NormalisedAdd.apply(a, shared), shared, relevance)
    whole = apply_to_sum(R.NormalisedAdd, a, b[:1].expand_as(a), relevance)[1]
    assert_same(found, whole.sum(0, keepdim=True))


def test_masked_softmax():
    """Scores and mask through the rule for sums, R_x = x·R/(x + 0), then softmax as it is; hidden keys have none."""
    scores, relevance = numbers(2, 3), numbers(2, 3, seed=1)
    scores[0, 1], scores[1, 0], scores[1, 2] = 0.0, 3e-9, torch.finfo(torch.float64).min
    relevance[1, 2] = 0.0
    slow = torch.zeros_like(scores)
    for i, j in np.ndindex(*scores.shape):
        slow[i, j] = float(scores[i, j]) * divide(float(relevance[i, j]), float(scores[i, j]))
    result = scores.softmax(-1)
    assert_same(relevance_of(R.MaskedSoftmax, relevance, scores, result, -1), slow)
    assert torch.equal(R.MaskedSoftmax.apply(scores, result, -1), result)
    assert float(slow[1, 0] / relevance[1, 0]) == pytest.approx(0.75)


def test_the_mask_moves_lrp_a_little_and_padding_does_not(model, batch, target):
    summed = Lrp(rule_set_with_mask("sum"))
    found, passed = (method(model, batch, target).tokens for method in (summed, Lrp()))
    largest = float(passed.abs().max())
    assert 0 < float((found - passed).abs().max()) < 1e-4 * largest
    for row in range(len(batch)):
        alone = model.encode([{"input_ids": batch.tensors["input_ids"][row][batch.attention_mask[row]].tolist()}])
        single = summed(model, alone, target[row : row + 1]).tokens[0]
        assert float((single - found[row, : len(single)]).abs().max()) < 1e-9 * largest


def test_split_product_and_proportional_sum():
    a, b, relevance = numbers(2, 3), numbers(2, 3, seed=1), numbers(2, 3, seed=2)
    a.requires_grad_(), b.requires_grad_()
    for found in torch.autograd.grad(R.SplitProduct.apply(a, b), (a, b), relevance):
        assert_same(found, relevance / 2)
    mean = a.detach().mean(1)
    (found,) = torch.autograd.grad(R.ProportionalSum.apply(a, mean, (1,)), a, relevance[:, 0])
    slow = torch.zeros(2, 3, dtype=torch.float64)
    for n, k in np.ndindex(2, 3):
        slow[n, k] = a[n, k].item() * divide(float(relevance[n, 0]), sum(float(v) for v in a[n].detach()))
    assert_same(found, slow)


def test_lrp_sums_the_relevance_of_the_first_blocks_input(model, batch, target):
    _, hidden = relevance_pass(model, batch, target, rule_set("lrp"), "hidden")
    tokens = Lrp()(model, batch, target).tokens
    for b, t in np.ndindex(*batch.units.shape):
        expected = sum(float(r) for r in hidden[0][b, t]) if batch.attention_mask[b, t] else 0.0
        assert float(tokens[b, t]) == pytest.approx(expected, rel=1e-9, abs=1e-9)
