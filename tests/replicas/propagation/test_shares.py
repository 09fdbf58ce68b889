"""Shares of relevance per layer: what is captured at the residual additions, and the shares, one element at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmark.checking import small_models
from benchmark.models.parts import blocks_parts
from benchmark.targets import ClassTarget
from methods.propagation.relevance import relevance_pass
from methods.propagation.rule_sets import rule_set
from methods.propagation.shares import RelevanceShares, block_shares, relevance_of_operands

TARGET = ClassTarget(torch.tensor([0, 2, 1]))
FAMILIES = ("bert", "distilbert", "gpt2", "vit")


@pytest.fixture(scope="module", params=FAMILIES)
def loaded(request, tmp_path_factory):
    model = small_models.load(request.param, tmp_path_factory.mktemp("models"))
    return model, model.encode(small_models.inputs(request.param, (5, 4, 6)))


def slow_shares(first, second, branches):
    """One example, one block: every element of the hidden state by itself."""
    attention, past_attention = first[branches[0]], first[1 - branches[0]]
    feed_forward, past = second[branches[1]], second[1 - branches[1]]
    sums = [0.0, 0.0, 0.0]
    for t, d in np.ndindex(*past.shape):
        a, x = abs(float(attention[t, d])), abs(float(past_attention[t, d]))
        share = a / (a + x) if a + x > 0 else 0.0
        sums[0] += abs(float(past[t, d])) * share
        sums[1] += abs(float(feed_forward[t, d]))
        sums[2] += abs(float(past[t, d])) * (1 - share)
    return [value / sum(sums) for value in sums]


@pytest.mark.parametrize("rules", ["chefer2021", "lrp"])
def test_shares_equal_a_loop_over_elements_and_sum_to_one(loaded, rules):
    model, batch = loaded
    found = RelevanceShares(rules)(model, batch, TARGET)
    assert found.shape == (3, model.n_layers, 3)
    assert torch.allclose(found.sum(-1), torch.ones(3, model.n_layers, dtype=torch.float64), atol=1e-12)
    assert (found > 0.001).all()
    pairs, blocks = relevance_of_operands(model, batch, TARGET, rule_set(rules)), blocks_parts(model, batch)
    for example, layer in np.ndindex(3, model.n_layers):
        first, second = ([operand[example] for operand in pairs[2 * layer + part]] for part in (0, 1))
        slow = slow_shares(first, second, blocks[layer].branches)
        assert found[example, layer].tolist() == pytest.approx(slow, abs=1e-12)


def test_the_operands_share_what_arrives_at_the_top_of_a_block(loaded):
    """Proportional shares add up to R element by element, up to the stabiliser; R is read at the next block's input."""
    model, batch = loaded
    pairs = relevance_of_operands(model, batch, TARGET, rule_set("lrp"))
    hidden = relevance_pass(model, batch, TARGET, rule_set("lrp"), "hidden").layers
    for layer in range(model.n_layers - 1):
        total = sum(pairs[2 * layer + 1])
        assert (total - hidden[layer + 1]).abs().max() < 1e-6 * hidden[layer + 1].abs().max()


def test_both_sublayers_and_the_stream_meet_at_the_bottom_of_a_block(loaded):
    """What goes past the attention is a part of the input's relevance; the rest came back through the attention."""
    model, batch = loaded
    pairs, blocks = relevance_of_operands(model, batch, TARGET, rule_set("chefer2021")), blocks_parts(model, batch)
    hidden = relevance_pass(model, batch, TARGET, rule_set("chefer2021"), "hidden").layers
    for layer, block in enumerate(blocks):
        first, second = pairs[2 * layer], pairs[2 * layer + 1]
        through = first[block.branches[0]].sum((1, 2))
        past = first[1 - block.branches[0]].sum((1, 2))
        arrived = second[0].sum((1, 2)) + second[1].sum((1, 2))  # the rule set conserves
        assert torch.allclose(through + past, arrived, rtol=1e-4, atol=1e-6)
        assert torch.allclose(hidden[layer].sum((1, 2)), arrived, rtol=1e-2, atol=1e-3)


def test_shares_do_not_depend_on_padding_batch_or_chunks(loaded):
    model, batch = loaded
    found = RelevanceShares()(model, batch, TARGET)
    chunked = RelevanceShares()(replace(model, memory_budget=1), batch, TARGET)
    assert torch.allclose(found, chunked, atol=1e-6)
    family = model.config.model_type
    for example, single in enumerate(small_models.inputs(family, (5, 4, 6))):
        alone = RelevanceShares()(model, model.encode([single]), TARGET[example : example + 1])
        assert torch.allclose(found[example], alone[0], atol=1e-6)


def test_nothing_through_a_path_is_a_share_of_zero():
    ones, zeros = torch.ones(1, 2, 3), torch.zeros(1, 2, 3)
    assert block_shares((zeros, ones), (zeros, ones), (0, 0)).tolist() == [[0, 0, 1]]
    assert block_shares((zeros, ones), (ones, zeros), (0, 0)).tolist() == [[0, 1, 0]]
    assert block_shares((ones, zeros), (zeros, -ones), (0, 0)).tolist() == [[1, 0, 0]]
    assert block_shares((zeros, ones), (ones, zeros), (1, 1)).tolist() == [[1, 0, 0]]
