"""Flow, generic, maximum and single-head readouts, and the methods made of them, against slow transcriptions."""

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import benchmark
from benchmark.errors import UserError
from methods.readouts.flow import UNIT, Flow, flows
from methods.readouts.generic import Generic
from methods.readouts.read_row import ReadRow
from methods.readouts.rollout import Rollout
from tests.replicas.conftest import assert_same

B, L, H, T = 2, 3, 4, 5
ROUNDED = (L * T * T + 1) / (2 * UNIT)


def random_edges(n_layers=L, n_heads=H, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(B, n_heads, T, T, generator=generator, dtype=torch.float64) for _ in range(n_layers))


@pytest.fixture(scope="module", params=[H, 1])
def edges(request):
    return random_edges(n_heads=request.param)


@pytest.fixture(scope="module", params=["first", "last", "mean"])
def read(request):
    weights = torch.zeros(B, T, dtype=torch.float64)
    if request.param == "mean":
        return weights + 1 / T
    weights[:, 0 if request.param == "first" else -1] = 1
    return weights


def one_hot(position):
    return torch.nn.functional.one_hot(torch.full((B,), position), T).double()


def flow_by_hand(edges, read):
    """networkx on the graph of the paper: node (l, i) is token i's state after layer l, (0, j) the input token j.

    `edges` [L T T] are means over heads, `read` [T]. A source that reads several tokens takes the place of the last row.
    """
    n_layers, n_tokens = edges.shape[:2]
    graph = networkx.DiGraph()
    rows = {}
    for layer, i in np.ndindex(n_layers, n_tokens):
        row = [max(float(edges[layer, i, j]), 0.0) + (i == j) for j in range(n_tokens)]
        rows[layer, i] = [cell / sum(row) for cell in row]
    for layer, i in np.ndindex(n_layers, n_tokens):
        for j in range(n_tokens):
            if layer < n_layers - 1:
                graph.add_edge((layer + 1, i), (layer, j), capacity=rows[layer, i][j])
    for j in range(n_tokens):
        capacity = sum(float(read[i]) * rows[n_layers - 1, i][j] for i in range(n_tokens))
        graph.add_edge("read", (n_layers - 1, j), capacity=capacity)
    return torch.tensor(
        [networkx.maximum_flow_value(graph, "read", (0, j)) for j in range(n_tokens)], dtype=torch.float64
    )


def test_flow(edges, read):
    found = Flow()(edges, read)
    means = torch.stack(edges, dim=1).mean(2)
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


@settings(max_examples=60, deadline=None)
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


def test_flow_refuses_long_texts(edges, read):
    with pytest.raises(UserError, match=r"readout\.max_tokens=4 is too small: a text has 5 tokens"):
        Flow(max_tokens=4)(edges, read)
    with pytest.raises(UserError, match="max_tokens=0: allowed are whole numbers from 1"):
        Flow(max_tokens=0)


def generic_by_hand(edges):
    """The whole matrix R of one example; `edges` [L H T T]."""
    n_tokens = edges.shape[-1]
    relevance = [[float(i == j) for j in range(n_tokens)] for i in range(n_tokens)]
    for layer in edges:
        mean = [[sum(max(float(head[i, j]), 0.0) for head in layer) / len(layer) for j in range(n_tokens)]
                for i in range(n_tokens)]  # fmt: skip
        added = [[sum(mean[i][k] * relevance[k][j] for k in range(n_tokens)) for j in range(n_tokens)]
                 for i in range(n_tokens)]  # fmt: skip
        relevance = [[relevance[i][j] + added[i][j] for j in range(n_tokens)] for i in range(n_tokens)]
    return torch.tensor(relevance, dtype=torch.float64)


def test_generic(edges, read):
    found = Generic()(edges, read)
    for b in range(B):
        matrix = generic_by_hand(torch.stack(edges, dim=1)[b])
        slow = [sum(float(read[b, i] * matrix[i, j]) for i in range(T)) for j in range(T)]
        assert_same(found[b], torch.tensor(slow, dtype=torch.float64))


def test_generic_of_one_layer_is_the_row_plus_the_identity_and_of_several_an_unnormalised_rollout(edges, read):
    positive = tuple(layer.clamp(min=0) for layer in edges)
    one = read + torch.einsum("bi,bij->bj", read, positive[0].mean(1))
    assert_same(Generic()(edges[:1], read), one)
    assert_same(Generic()(edges, read), Rollout(normalize="none")(positive, read))


def test_the_maximum_over_layers(edges, read):
    found = ReadRow("max")(edges, read)
    for b, j in np.ndindex(B, T):
        rows = [
            sum(float(read[b, i] * layer[b, h, i, j]) for i in range(T) for h in range(layer.shape[1])) / layer.shape[1]
            for layer in edges
        ]
        assert float(found[b, j]) == pytest.approx(max(rows), abs=1e-12)


@pytest.mark.parametrize("head", [0, 2, -1])
@pytest.mark.parametrize("layer", [0, -1])
def test_a_single_head(read, layer, head):
    edges = random_edges()
    found = ReadRow(layer, "positive", head)(edges, read)
    for b, j in np.ndindex(B, T):
        slow = sum(float(read[b, i] * edges[layer % L][b, head % H, i, j]) for i in range(T))
        assert float(found[b, j]) == pytest.approx(max(slow, 0.0), abs=1e-12)


@pytest.mark.parametrize(
    ("readout", "message"),
    [
        (ReadRow(head=4), r"readout\.head=4 is out of range: these edge scores have 4 heads; -4 to 3 are allowed"),
        (ReadRow(head=-5), r"readout\.head=-5 is out of range"),
        (ReadRow(layer=3), r"readout\.layer=3 is out of range: the model has 3 layers; -3 to 2 are allowed"),
    ],
)
def test_a_layer_or_head_that_does_not_exist(readout, message):
    with pytest.raises(UserError, match=message) as caught:
        readout(random_edges(), one_hot(0))
    assert "\n" not in str(caught.value)


def by_hand(name, attention, gradient):
    """Token scores of one example from A and ∂y_t/∂A [L H n n]; BERT reads token 0."""
    n_layers, n_heads, n = attention.shape[:3]
    if name == "attention_flow":
        return flow_by_hand(attention.mean(1), torch.eye(n)[0])
    if name == "generic_attention":
        return generic_by_hand(attention * gradient)[0]
    slow = torch.zeros(n, dtype=torch.float64)
    for j in range(n):
        if name == "max_attention":
            slow[j] = max(sum(float(head[0, j]) for head in layer) / n_heads for layer in attention)
        if name == "attention_gradient":
            slow[j] = sum(float(gradient[-1, h, 0, j]) for h in range(n_heads)) / n_heads
        if name == "grad_sam":  # the sum in place of the mean over layers, heads and queries
            queries = np.ndindex(n_layers, n_heads, n)
            slow[j] = sum(float(attention[at][j]) * max(float(gradient[at][j]), 0.0) for at in queries)
    return slow


@pytest.mark.parametrize(
    "name", ["attention_flow", "generic_attention", "max_attention", "attention_gradient", "grad_sam"]
)
def test_methods(model, batch, target, plain, name):
    found = benchmark.build(f"methods/{name}")(model, batch, target).tokens
    for row, example in enumerate(plain):
        slow = by_hand(name, *example.attentions_and_gradients())
        assert float((found[row, : example.length] - slow).abs().max()) < (1e-7 if name == "attention_flow" else 1e-9)
        assert not found[row, example.length :].any()
