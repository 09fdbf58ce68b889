"""Maximum flow against networkx, and the flows that are known."""

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmark.errors import UserError
from methods.readouts.flow import UNIT, Flow, flows
from tests.replicas.conftest import assert_same
from tests.replicas.readouts.by_hand import (
    B,
    L,
    T,
    flow_by_hand,
    one_hot,
    random_edges,
)
from tests.replicas.registry import replicates

ROUNDED = (L * T * T + 1) / (2 * UNIT)


@replicates(Flow)
def test_flow(any_edges, read):
    found = Flow()(any_edges, read)
    means = torch.stack(any_edges, dim=1).mean(2)
    for b in range(B):
        assert float((found[b] - flow_by_hand(means[b], read[b])).abs().max()) <= ROUNDED


def test_flow_from_one_token_in_the_papers_own_graph():
    """With a node for the read token itself in the last layer, rather than its row."""
    attention = torch.stack(random_edges(), dim=1).softmax(-1)
    found = Flow()(tuple(attention.unbind(1)), one_hot(2))
    for b in range(B):
        graph = networkx.DiGraph()
        for layer, i, j in np.ndindex(L, T, T):
            capacity = (float(attention[b, layer, :, i, j].mean()) + (i == j)) / 2
            graph.add_edge((layer + 1, i), (layer, j), capacity=capacity)
        for j in range(T):
            slow = networkx.maximum_flow_value(graph, (L, 2), (0, j))
            assert float(found[b, j]) == pytest.approx(slow, abs=ROUNDED)


def test_flow_of_one_layer_is_the_read_row(read):
    layer = random_edges(1)[0].softmax(-1)
    expected = torch.einsum("bi,bij->bj", read, torch.eye(T, dtype=torch.float64) + layer.mean(1)) / 2
    assert_same(Flow()((layer,), read), expected)


def test_flow_of_two_layers_is_what_fits_through_each_token_between():
    attention = [layer.softmax(-1).mean(1) for layer in random_edges(2)]
    lower, upper = ((torch.eye(T, dtype=torch.float64) + layer) / 2 for layer in attention)
    found = Flow()(tuple(layer.unsqueeze(1) for layer in attention), one_hot(0))
    for b, j in np.ndindex(B, T):
        slow = sum(min(float(upper[b, 0, k]), float(lower[b, k, j])) for k in range(T))
        assert float(found[b, j]) == pytest.approx(slow, abs=ROUNDED)


@settings(max_examples=60)
@given(
    edges=st.integers(1, 4).flatmap(lambda n: arrays(np.float64, (n, T, T), elements=st.floats(0, 5))),
    position=st.integers(0, T - 1),
)
def test_flow_is_bounded_by_cuts_from_above_and_by_rollout_from_below(edges, position):
    """No more than what leaves the read token or enters the input token; no less than rollout, which is one such flow."""
    read = np.eye(T)[position]
    found = flows(edges, read)
    mixing = edges + np.eye(T)
    mixing /= mixing.sum(-1, keepdims=True)
    entering = mixing[0].sum(0) if len(edges) > 1 else mixing[0][position]
    row = read
    for layer in mixing[::-1]:
        row = row @ layer
    slack = (edges.size + 1) / UNIT
    assert (found <= np.minimum(mixing[-1][position].sum(), entering) + slack).all()
    assert (found >= row - slack).all()


def test_flow_of_padding_and_of_negative_edges(read):
    """Padding has no edges and no flow, and changes nothing for the others; negative edges have no capacity."""
    edges = random_edges()
    padded = tuple(torch.nn.functional.pad(layer, (0, 3, 0, 3)) for layer in edges)
    found = Flow(max_tokens=T)(padded, torch.nn.functional.pad(read, (0, 3)))
    assert_same(found[:, :T], Flow()(edges, read))
    assert not found[:, T:].any()
    assert_same(Flow()(tuple(layer.mean(1, keepdim=True).clamp(min=0) for layer in edges), read), Flow()(edges, read))


def test_flow_refuses_long_texts(any_edges, read):
    with pytest.raises(UserError, match=r"readout\.max_tokens=4 is too small: a text has 5 tokens"):
        Flow(max_tokens=4)(any_edges, read)
    with pytest.raises(UserError, match="max_tokens=0: allowed are whole numbers from 1"):
        Flow(max_tokens=0)
