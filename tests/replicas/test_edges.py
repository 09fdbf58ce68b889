"""Edge scores against transcriptions of docs/protocols.md, sections 2 and 6: one cell at a time."""

import numpy as np
import pytest
import torch

from benchmark.errors import UserError
from methods.edges.attattr import AttAttr
from methods.edges.attention import Attention
from methods.edges.attention_times_gradient import AttentionTimesGradient
from methods.edges.attention_times_relevance import AttentionTimesRelevance
from methods.edges.grad_cam import GradCam
from methods.edges.gradient import Gradient
from methods.edges.relevance import Relevance
from methods.edges.relevance_times_gradient import RelevanceTimesGradient
from methods.shared.quadrature import nodes_and_weights
from tests.replicas.conftest import assert_same

RULES = ("left", "right", "midpoint", "trapezoid", "gauss_legendre")


def own_cells(edges, row, length):
    """[L H T T] of one example, padding cut off."""
    return torch.stack([layer[row, :, :length, :length] for layer in edges])


def compare(edges, model, batch, target, plain, slow):
    found = edges(model, batch, target)
    for row, example in enumerate(plain):
        assert_same(own_cells(found, row, example.length), slow(row, example))


def test_attention(model, batch, target, plain):
    compare(Attention(), model, batch, target, plain, lambda _, example: example.attentions_and_gradients()[0])


@pytest.mark.parametrize("part", ["signed", "positive"])
def test_gradient(model, batch, target, plain, part):
    def slow(_, example):
        gradient = example.attentions_and_gradients()[1]
        for cell in np.ndindex(*gradient.shape):
            if part == "positive" and gradient[cell] < 0:
                gradient[cell] = 0
        return gradient

    compare(Gradient(part), model, batch, target, plain, slow)


@pytest.mark.parametrize("part", ["signed", "positive"])
def test_attention_times_gradient(model, batch, target, plain, part):
    def slow(_, example):
        attention, gradient = example.attentions_and_gradients()
        result = torch.zeros_like(attention)
        for cell in np.ndindex(*attention.shape):
            product = attention[cell] * gradient[cell]
            result[cell] = product if part == "signed" or product > 0 else 0
        return result

    compare(AttentionTimesGradient(part), model, batch, target, plain, slow)


@pytest.mark.parametrize("mean_over", ["matrix", "read_row"])
def test_grad_cam(model, batch, target, plain, mean_over):
    def slow(_, example):
        attention, gradient = example.attentions_and_gradients()
        n = example.length
        result = torch.zeros_like(attention)
        for layer, head in np.ndindex(*attention.shape[:2]):
            if mean_over == "matrix":
                cells = [gradient[layer, head, i, j] for i in range(n) for j in range(n)]
            else:  # row CLS, without the special tokens at both ends
                cells = [gradient[layer, head, 0, j] for j in range(1, n - 1)]
            result[layer, head] = attention[layer, head] * sum(cells) / len(cells)
        return result

    compare(GradCam(mean_over), model, batch, target, plain, slow)


@pytest.mark.parametrize("rules", ["chefer2021", "lrp"])
def test_relevance_times_gradient_is_the_positive_part_of_its_parts(model, batch, target, plain, rules):
    relevance = Relevance(rules=rules)(model, batch, target)

    def slow(row, example):
        gradient = example.attentions_and_gradients()[1]
        result = torch.zeros_like(gradient)
        for layer, head, i, j in np.ndindex(*gradient.shape):
            product = gradient[layer, head, i, j] * relevance[layer][row, head, i, j]
            result[layer, head, i, j] = max(float(product), 0.0)
        return result

    compare(RelevanceTimesGradient(rules=rules), model, batch, target, plain, slow)


@pytest.mark.parametrize("part", ["positive", "signed"])
def test_attention_times_relevance_has_attention_in_the_place_of_its_gradient(model, batch, target, plain, part):
    relevance = Relevance()(model, batch, target)

    def slow(row, example):
        attention = example.attentions_and_gradients()[0]
        result = torch.zeros_like(attention)
        for layer, head, i, j in np.ndindex(*attention.shape):
            product = float(attention[layer, head, i, j] * relevance[layer][row, head, i, j])
            result[layer, head, i, j] = max(product, 0.0) if part == "positive" else product
        return result

    compare(AttentionTimesRelevance(part=part), model, batch, target, plain, slow)


def rule_by_hand(rule, m):
    """(α_k, w_k) for k = 1 … m, as written in docs/protocols.md, section 6."""
    if rule == "left":
        return [(k / m, 1 / m) for k in range(m)]
    if rule == "right":
        return [(k / m, 1 / m) for k in range(1, m + 1)]
    if rule == "midpoint":
        return [((2 * k + 1) / (2 * m), 1 / m) for k in range(m)]
    if rule == "trapezoid":
        return [(k / (m - 1), (0.5 if k in (0, m - 1) else 1.0) / (m - 1)) for k in range(m)]
    assert m == 3  # roots of the third Legendre polynomial
    root = np.sqrt(3 / 5)
    return [((1 - root) / 2, 5 / 18), (1 / 2, 8 / 18), ((1 + root) / 2, 5 / 18)]


def attribution_by_hand(model, single, target, rule, m):
    """Attr(A_l) = A_l ⊙ Σ_k w_k ∂F(α_k A_l)/∂A_l: a whole forward pass for every layer and step, nothing shared."""
    attention = model.run(single, record=("attentions",)).attentions
    result = []
    for layer in range(len(attention)):
        total = torch.zeros_like(attention[layer])
        for alpha, weight in rule_by_hand(rule, m):
            scaled = []

            def scale(index, probabilities, layer=layer, alpha=alpha, scaled=scaled):
                if index != layer:
                    return probabilities
                scaled.append((alpha * probabilities).detach().requires_grad_())
                return scaled[0]

            probability = model.run(single, edits=[scale], grad=True).probabilities[0, target]
            total += weight * torch.autograd.grad(probability, scaled)[0]
        result.append(attention[layer] * total)
    return torch.cat(result)


@pytest.mark.parametrize("rule", RULES)
def test_attribution(model, batch, target, plain, rule):
    def slow(row, example):
        single = model.encode([{"input_ids": example.ids[0]}])
        return attribution_by_hand(model, single, int(target[row]), rule, 3)

    compare(AttAttr(steps=3, quadrature=rule), model, batch, target, plain, slow)


def test_attribution_in_small_chunks_is_the_same(model, batch, target):
    whole = AttAttr(steps=7)(model, batch, target)
    tiny = type(model)(**{**vars(model), "memory_budget": 1})
    for one, other in zip(whole, AttAttr(steps=7)(tiny, batch, target), strict=True):
        assert_same(one, other)


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


def completeness_gaps(model, batch, target, edges):
    """Σ Attr(A_l) − (F(A_l) − F(0·A_l)) per layer and example."""
    chosen = torch.arange(len(batch))
    whole = model.run(batch).probabilities[chosen, target]
    gaps = []
    for layer, scores in enumerate(edges(model, batch, target)):
        without = model.run(batch, edits=[lambda index, a, layer=layer: 0 * a if index == layer else a])
        change = whole - without.probabilities[chosen, target]
        queries = batch.attention_mask[:, None, :, None]
        gaps.append((scores * queries).sum((1, 2, 3)) - change)
    return torch.stack(gaps)


def test_attribution_completes(model, batch, target):
    gaps = completeness_gaps(model, batch, target, AttAttr(steps=60, quadrature="gauss_legendre"))
    assert gaps.abs().max() < 1e-6
    coarse, fine = (
        completeness_gaps(model, batch, target, AttAttr(steps=m, quadrature="right")).abs().max() for m in (50, 400)
    )
    assert fine < coarse / 4  # a rule of first order: eight times the steps, about an eighth of the gap
    assert fine < 0.02
