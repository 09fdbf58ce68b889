"""Edge scores against transcriptions of docs/protocols.md, sections 2 and 6: one cell at a time."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmark.catalogue import entry
from benchmark.errors import UserError
from benchmark.settings.identity import digest_of
from methods.edges.attattr import AttAttr
from methods.edges.grad_cam import GradCam
from methods.edges.product import FactorProduct
from methods.propagation.relevance import relevances
from methods.propagation.rule_sets import rule_set
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
    compare(FactorProduct(), model, batch, target, plain, lambda _, example: example.attentions_and_gradients()[0])


FACTORS = ("attention", "gradient", "relevance")
SETS = [chosen for size in (1, 2, 3) for chosen in itertools.combinations(FACTORS, size)]
WITH_LRP = [(chosen, "lrp") for chosen in SETS if "relevance" in chosen]


@pytest.mark.parametrize("part", ["signed", "positive"])
@pytest.mark.parametrize(("factors", "rules"), [(chosen, "chefer2021") for chosen in SETS] + WITH_LRP)
def test_product(model, batch, target, plain, factors, rules, part):
    """Cell by cell, of A and its gradient as transformers computes them, and of the relevance that a pass alone gives."""
    relevance = relevances(model, batch, target, rule_set(rules), "attentions") if "relevance" in factors else None

    def slow(row, example):
        attention, gradient = example.attentions_and_gradients()
        result = torch.zeros_like(attention)
        for layer, head, i, j in np.ndindex(*attention.shape):
            product = 1.0
            if "attention" in factors:
                product *= float(attention[layer, head, i, j])
            if "gradient" in factors:
                product *= float(gradient[layer, head, i, j])
            if relevance is not None:
                product *= float(relevance[layer][row, head, i, j])
            result[layer, head, i, j] = product if part == "signed" or product > 0 else 0
        return result

    compare(FactorProduct(factors, part, rules), model, batch, target, plain, slow)


@pytest.mark.parametrize("factors", itertools.permutations(FACTORS))
def test_the_order_of_factors_makes_no_difference(factors):
    assert FactorProduct(factors) == FactorProduct(list(factors)) == FactorProduct(FACTORS)
    assert digest_of(FactorProduct(factors)) == digest_of(FactorProduct(FACTORS))


@pytest.mark.parametrize(
    ("factors", "passes"),
    [
        (("attention",), (1, 0)), (("gradient",), (1, 1)), (("attention", "gradient"), (1, 1)), (("relevance",), (1, 1)),
        (("attention", "relevance"), (1, 1)), (("gradient", "relevance"), (2, 2)), (FACTORS, (2, 2)),
    ],
)  # fmt: skip
def test_a_product_makes_the_passes_that_its_factors_need(model, batch, target, factors, passes):
    before = replace(model.cost)
    FactorProduct(factors)(model, batch, target)
    forward, backward = (
        (getattr(model.cost, name) - getattr(before, name)) / len(batch)
        for name in ("forward_passes", "backward_passes")
    )
    assert (forward, backward) == passes
    text = entry("mine", explainer(factors)).cost
    assert text.startswith(f"{forward:.0f} forward pass")
    assert ("backward" in text) == (backward > 0)
    assert FactorProduct(factors).class_specific == (factors != ("attention",))


def explainer(factors):
    """The settings of an attention explainer with such edges."""
    edges = {"_target_": "methods.edges.product.FactorProduct", "factors": list(factors)}
    return {
        "_target_": "methods.attention_explainer.AttentionExplainer", "edges": edges,
        "readout": {"_target_": "methods.readouts.rollout.Rollout"},
    }  # fmt: skip


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
