"""AttCAT, one layer, token and head at a time."""

import pytest
import torch

from methods.attcat import AttCat
from tests.replicas.conftest import assert_same
from tests.replicas.registry import replicates


@replicates(AttCat)
@pytest.mark.parametrize("queries", ["mean", "read"])
def test_attcat(model, batch, target, plain, queries):
    found = AttCat(queries)(model, batch, target).tokens
    for row, example in enumerate(plain):
        output = example.logits(output_attentions=True, output_hidden_states=True)
        states = output.hidden_states[:-1]  # inputs of the blocks
        gradients = torch.autograd.grad(output.logits[0, example.target], states)
        states = [state.detach() for state in states]
        slow = torch.zeros(example.length, dtype=torch.float64)
        for attention, state, gradient in zip(output.attentions, states, gradients, strict=True):
            for j in range(example.length):
                activation = sum(float(g * h) for g, h in zip(gradient[0, j], state[0, j], strict=True))
                for head in attention[0].detach():
                    column = head[:, j].tolist() if queries == "mean" else [float(head[0, j])]
                    slow[j] += activation * sum(column) / len(column) / len(attention[0])
        assert_same(found[row, : example.length], slow)
        assert not found[row, example.length :].any()


def test_attcat_in_small_chunks_is_the_same(model, batch, target):
    small = type(model)(**{**vars(model), "memory_budget": 1})
    assert_same(AttCat()(small, batch, target).tokens, AttCat()(model, batch, target).tokens)
