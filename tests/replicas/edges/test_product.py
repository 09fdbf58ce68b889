"""Products of attention, its gradient and its relevance, one cell at a time."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmark.catalogue import entry
from benchmark.settings.identity import digest_of
from benchmark.targets import ClassTarget
from methods.edges.product import FactorProduct
from methods.propagation.relevance import relevances
from methods.propagation.rule_sets import rule_set
from tests.replicas.edges.by_hand import compare
from tests.replicas.registry import replicates


def test_attention(model, batch, target, plain):
    compare(FactorProduct(), model, batch, target, plain, lambda _, example: example.attentions_and_gradients()[0])


FACTORS = ("attention", "gradient", "relevance")


SETS = [chosen for size in (1, 2, 3) for chosen in itertools.combinations(FACTORS, size)]


WITH_LRP = [(chosen, "lrp") for chosen in SETS if "relevance" in chosen]


@replicates(FactorProduct)
@pytest.mark.parametrize("part", ["signed", "positive"])
@pytest.mark.parametrize(("factors", "rules"), [(chosen, "chefer2021") for chosen in SETS] + WITH_LRP)
def test_product(model, batch, target, plain, factors, rules, part):
    """Cell by cell, of A and its gradient as transformers computes them, and of the relevance that a pass alone gives."""
    relevance = (
        relevances(model, batch, ClassTarget(target), rule_set(rules), "attentions") if "relevance" in factors else None
    )

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


def explainer(factors):
    """The settings of an attention explainer with such edges."""
    edges = {"_target_": "methods.edges.product.FactorProduct", "factors": list(factors)}
    return {
        "_target_": "methods.attention_explainer.AttentionExplainer", "edges": edges,
        "readout": {"_target_": "methods.readouts.rollout.Rollout"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("factors", "passes"),
    [
        (("attention",), (1, 0)), (("gradient",), (1, 1)), (("attention", "gradient"), (1, 1)), (("relevance",), (1, 1)),
        (("attention", "relevance"), (1, 1)), (("gradient", "relevance"), (1, 2)), (FACTORS, (1, 2)),
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
