"""Permutations keep the weights of a row; their effect equals a slow computation."""

import numpy as np
import pytest
import torch

import benchmark
from benchmark.analyses.debate import permutation
from tests.analyses.debate.conftest import told, within


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
@pytest.mark.parametrize("number", [0, -1])
def test_every_row_keeps_its_multiset_of_weights(family, number, unedited):
    selected = within(unedited(family), number)
    example = torch.tensor([0, 1, 2, 2])
    for layer, new in permutation.permuted(selected, example, [0, 0, 0, 1], seed=0).items():
        own, rows = selected.weights[layer][example], selected.rows[layer]
        assert torch.equal(new.sort(-1).values, own.sort(-1).values)
        outside = ~rows.movable[example][:, None].expand_as(new)
        assert torch.equal(new[outside], own[outside]), "masked and padded keys and queries keep theirs"
        assert not torch.equal(new[2], new[3])


def test_the_order_is_uniform(unedited):
    selected = within(unedited("bert", (3,)), 0)
    new = permutation.permuted(selected, torch.zeros(600, dtype=torch.long), list(range(600)), seed=0)[2]
    first = (new[:, 0, 0, :1] == selected.weights[2][0, 0, 0]).double().mean(0)
    assert first.tolist() == pytest.approx([1 / 3] * 3, abs=0.07)


def test_an_example_is_permuted_alike_in_any_batch(unedited):
    together = permutation.permuted_changes(within(unedited("bert"), -1), 4, seed=1)
    base = unedited("bert")
    alone = base.batch.select([1])
    alone = type(base).of(base.model, alone)
    assert torch.allclose(permutation.permuted_changes(within(alone, -1), 4, seed=1)[:, 0], together[:, 1], atol=1e-9)


def test_two_tokens_by_hand(unedited):
    """Two weights of a row stay or change places; the output of each head's choice is computed on its own."""
    base = unedited("bert", (2,))
    changes = permutation.permuted_changes(within(base, 0), 12, seed=0)[:, 0]
    possible = []
    for choice in range(2**4):
        swapped = [head for head in range(4) if choice >> head & 1]

        def swap(layer, attention, swapped=swapped):
            attention = attention.clone()
            if layer == 2:
                attention[:, swapped, 0] = attention[:, swapped, 0].flip(-1)
            return attention

        p = base.model.run(base.batch, edits=[swap]).logits.double().softmax(-1)[0]
        possible.append(0.5 * sum(abs(float(a) - float(b)) for a, b in zip(p, base.probabilities[0], strict=True)))
    for change in changes.tolist():
        assert min(abs(change - value) for value in possible) < 1e-9
    largest = float(base.attentions[2][0, :, 0].max(-1).values.mean())
    assert permutation.largest_weights(within(base, 0)).item() == pytest.approx(largest)


def test_the_tables(context):
    means, points = benchmark.build("analyses/permutation", "limit=null", "permutations=3")(context())
    assert told(means)
    assert told(points)
    points.check()
    assert not points.printed
    one = points.rows.query("scope == 'all layers' and metric == 'median change of the output'")
    every = means.rows.query("scope == 'all layers' and `predicted class` == 'all' and `largest weight` == 'any'").iloc[
        0
    ]
    assert every["value"] == pytest.approx(one["value"].mean())
    assert every["n"] == len(one) == 5
    bins = means.rows.query("scope == 'layer 0' and `predicted class` == 'all' and `largest weight` != 'any'")
    assert bins["n"].sum() == 5
    assert np.isfinite(points.rows["value"]).all()
