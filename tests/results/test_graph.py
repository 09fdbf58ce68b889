import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.errors import UserError
from benchmark.results.graph import (
    AttributionGraph,
    RationaleAgreement,
    agreement,
    attribution_graph,
    check_threshold,
    layer_shares,
)
from tests.conftest import shared


@pytest.fixture(scope="module")
def golden():
    trees = json.loads(shared("golden/attattr_tree.json").read_text())
    numbers = np.load(shared("golden/attattr_bert.npz"))
    return [(numbers[f"attr_{i}"].sum(axis=1), tree) for i, tree in enumerate(trees)]


def test_script_equals_the_published_trees(golden):
    compared = 0
    for scores, trees in golden:
        for threshold, tree in trees.items():
            graph = attribution_graph(scores, float(threshold), construction="script")
            assert graph.top == tree["top"]
            assert [[edge.query, edge.key] for edge in graph.edges] == tree["edges"]
            assert [edge.layer for edge in graph.edges] == tree["edge_layers"]
            compared += 1
    assert compared == 18


def test_paper_differs_from_the_script_on_published_attributions(golden):
    pairs = [
        [attribution_graph(scores, float(tau), construction=name).edges for name in ("paper", "script")]
        for scores, trees in golden
        for tau in trees
    ]
    assert any(paper != script for paper, script in pairs)


def slow_sums(scores, terminal):
    """Positive part of the scores summed over layers, summed over the other keys; 0 for the terminal."""
    sums = []
    for i in range(len(scores[0])):
        total = 0.0
        for j in range(len(scores[0])):
            over_layers = sum(layer[i][j] for layer in scores)
            if i != j and over_layers > 0:
                total += over_layers
        sums.append(0.0 if i == terminal else total)
    return sums


def slow_graph(scores, threshold, construction, terminal):
    """Algorithm 1, cell by cell: (top, [(query, key, layer)], states)."""
    n_layers, n_tokens = len(scores), len(scores[0])
    sums = slow_sums(scores, terminal)
    if max(sums) <= 0:
        return None, [], ["not-appeared"] * n_tokens
    top = sums.index(max(sums))
    states = ["not-appeared"] * n_tokens
    states[top] = "appeared"
    edges = []
    for layer in reversed(range(n_layers - 1)):
        largest = max(
            (scores[layer][i][j] for i in range(n_tokens) if i != terminal for j in range(n_tokens)), default=0.0
        )
        for i in range(n_tokens):
            for j in range(n_tokens):
                if i == j or largest <= 0 or not scores[layer][i][j] / largest > threshold:
                    continue
                if construction == "script" and (i == terminal or (layer == n_layers - 2 and i != top)):
                    continue
                if states[i] in ("appeared", "fixed") and states[j] == "not-appeared":
                    edges.append((i, j, layer))
                    states[i], states[j] = "fixed", "appeared"
    return top, edges, states


@st.composite
def examples(draw):
    n_layers, n_tokens = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    generator = np.random.default_rng(draw(st.integers(0, 999)))
    scores = generator.normal(draw(st.sampled_from([-3.0, 0.0, 0.5])), 1.0, size=(n_layers, n_tokens, n_tokens))
    scores *= generator.random(scores.shape) < draw(st.sampled_from([0.2, 1.0]))
    return scores, draw(st.sampled_from([None, 0, n_tokens - 1]))


@settings(max_examples=150)
@given(examples(), st.sampled_from([0.0, 0.1, 0.4, 1.0]), st.sampled_from(["paper", "script"]))
def test_equals_the_slow_transcription(example, threshold, construction):
    scores, terminal = example
    graph = attribution_graph(scores, threshold, construction=construction, terminal=terminal)
    top, edges, states = slow_graph(scores.tolist(), threshold, construction, terminal)
    assert graph.top == top
    assert [(edge.query, edge.key, edge.layer) for edge in graph.edges] == edges
    assert list(graph.states) == states


@settings(max_examples=80)
@given(examples(), st.sampled_from(["paper", "script"]))
def test_laws(example, construction):
    """A tree below the top node; fixed tokens have children; a lower τ loses no node; scale does not matter."""
    scores, terminal = example
    graphs = [attribution_graph(scores, t / 4, construction=construction, terminal=terminal) for t in range(5)]
    for graph in graphs:
        keys = [edge.key for edge in graph.edges]
        assert len(set(keys)) == len(keys)
        assert set(graph.nodes) == ({graph.top, *keys} if graph.top is not None else set())
        assert {i for i, state in enumerate(graph.states) if state == "fixed"} == {edge.query for edge in graph.edges}
        layers = [edge.layer for edge in graph.edges]
        assert layers == sorted(layers, reverse=True)
        assert graph.depth <= len(graph.edges)
        assert all(graph.threshold < edge.share for edge in graph.edges)
        assert AttributionGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph
    assert graphs[-1].edges == () or terminal is not None  # rows of the terminal alone can exceed the maximum
    for lower, higher in pairwise(graphs):
        assert set(higher.nodes) <= set(lower.nodes)
    doubled = attribution_graph(4 * scores, 0.25, construction=construction, terminal=terminal)
    assert [(e.query, e.key, e.layer) for e in doubled.edges] == [(e.query, e.key, e.layer) for e in graphs[1].edges]


CHAIN = np.zeros((3, 5, 5))
CHAIN[2, 0, 1:] = 1.0  # the terminal's row of the last layer: never walked
CHAIN[1, 2, 3] = 0.9  # top → 3
CHAIN[1, 2, 1] = 0.5
CHAIN[1, 3, 4] = 1.0  # 3 → 4 in the same layer
CHAIN[0, 1, 0] = 0.8  # 1 → terminal
CHAIN[0, 2, 2] = 1.0  # a self edge


def test_a_chain_by_hand():
    paper = attribution_graph(CHAIN, 0.4, tokens=["[CLS]", "a", "b", "c", "[SEP]"], units=[-1, 0, 1, 2, -1])
    assert [(e.query, e.key, e.layer, e.score) for e in paper.edges] == [
        (2, 1, 1, 0.5),
        (2, 3, 1, 0.9),
        (3, 4, 1, 1.0),
        (1, 0, 0, 0.8),
    ]
    assert paper.top == 2
    assert paper.states == ("appeared", "fixed", "fixed", "fixed", "appeared")
    assert paper.terminal_edge == (0, 2, 2)
    assert paper.depth == 2
    script = attribution_graph(CHAIN, 0.4, construction="script")
    assert [(e.query, e.key, e.layer) for e in script.edges] == [(2, 1, 1), (2, 3, 1), (1, 0, 0)]


def test_the_terminal_is_a_query_in_the_paper_alone():
    scores = np.zeros((3, 3, 3))
    scores[1, 1, 0] = scores[0, 0, 2] = 1.0
    scores[0, 2, 0] = 0.5
    found = {name: attribution_graph(scores, construction=name).edges for name in ("paper", "script")}
    assert [(e.query, e.key) for e in found["paper"]] == [(1, 0), (0, 2)]
    assert [(e.query, e.key) for e in found["script"]] == [(1, 0)]


def test_agreement_with_a_rationale():
    graph = attribution_graph(CHAIN, 0.4, construction="script", units=[-1, 0, 1, 2, -1])
    assert graph.nodes == (0, 1, 2, 3)
    rationale = np.array([True, False, False, True])  # the fourth unit lies beyond the window
    assert agreement(graph, rationale) == RationaleAgreement(recall=0.5, precision=1 / 3, f1=0.4)
    assert agreement(graph, rationale, query_units=1) == RationaleAgreement(0.0, 0.0, 0.0)
    assert agreement(attribution_graph(np.zeros((2, 3, 3))), rationale[:3]) == RationaleAgreement(0.0, 0.0, 0.0)


def test_nothing_above_the_threshold_leaves_the_top_node():
    graph = attribution_graph(CHAIN, 1.0)
    assert (graph.top, graph.edges, graph.nodes, graph.depth) == (2, (), (2,), 0)
    assert graph.terminal_edge == (0, 2, 2)


@pytest.mark.parametrize("scores", [np.zeros((3, 4, 4)), -np.ones((3, 4, 4)), np.ones((2, 1, 1))])
def test_no_positive_row_leaves_nothing(scores):
    graph = attribution_graph(scores, 0.0)
    assert (graph.top, graph.edges, graph.nodes, graph.depth) == (None, (), (), 0)
    assert graph.terminal_edge is None
    assert AttributionGraph.from_json(graph.to_json()) == graph


def test_a_layer_without_positive_scores_has_no_shares():
    scores = np.stack([-np.ones((3, 3)), np.eye(3)])
    assert (layer_shares(scores, 0)[0] == 0).all()
    assert layer_shares(scores, 0)[1].max() == 1


def test_one_layer_is_never_walked():
    assert attribution_graph(np.ones((1, 4, 4))).edges == ()


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_thresholds_out_of_range(threshold):
    with pytest.raises(UserError, match=r"^threshold=.*: allowed are numbers from 0 to 1$"):
        attribution_graph(CHAIN, threshold)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.full((2, 3, 3), np.nan), "NaN"),
        (np.full((2, 3, 3), np.inf), "infinity"),
        (np.ones((2, 0, 0)), "shape"),
    ],
)
def test_scores_that_cannot_be_read(scores, message):
    with pytest.raises(UserError, match=message):
        attribution_graph(scores)


def test_a_threshold_that_is_no_number():
    with pytest.raises(UserError, match=r"^evaluations.x.thresholds=high: allowed are numbers from 0 to 1$"):
        check_threshold("high", "evaluations.x.thresholds")


def test_an_unknown_construction():
    with pytest.raises(UserError, match=r"construction=flow is unknown; allowed: paper, script"):
        attribution_graph(CHAIN, construction="flow")


@pytest.mark.parametrize("change", [{"states": ["gone"] * 5}, {"units": [1]}, {"edges": [[1, 2]]}])
def test_json_of_another_form(change):
    with pytest.raises(ValueError, match=r"states|length|unpack"):
        AttributionGraph.from_json(attribution_graph(CHAIN).to_json() | change)
