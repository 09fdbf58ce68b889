"""Objectives by hand, planted scores whose tree is the parse, and what has no edges."""

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.analyses.graphs.graph_optimum import GraphOptimum
from benchmark.analyses.graphs.graph_syntax import CHAIN, GRAPH, RANDOM, GraphSyntax
from benchmark.analyses.graphs.summed_edges import SummedEdges, summed_edges
from benchmark.annotations import KEYS, Parse
from benchmark.errors import NotApplicable
from benchmark.settings.making import build
from benchmark.targets import ClassTarget
from benchmark.types import Example
from tests import text_models

TEXTS = ["a fine film , the untold story", "the plot was dull .", "good bad"]
EXPLAINER = build("methods/attattr", "edges.steps=2")
ONES = ClassTarget(torch.ones(3, dtype=torch.long))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def example(scores, units=None):
    return SummedEdges("one", scores, 0, list(range(scores.shape[1])) if units is None else units)


def greedy_misses():
    """A weak edge in the higher layer takes the key that a strong one below would have had."""
    scores = np.zeros((3, 4, 4))
    scores[1, 1, 2], scores[0, 1, 2], scores[0, 1, 3] = 0.5, 2.0, 1.0
    return scores


def test_objectives_by_hand():
    analysis = GraphOptimum(EXPLAINER, thresholds=(0.1,), penalties=(0.0, 0.25), draws=3)
    (values,) = analysis.objectives(example(greedy_misses()))
    best, greedy, chance, n_greedy, n_best = values.T
    assert best.tolist() == pytest.approx([3.0, 3.0 - 2 * 0.5])
    assert greedy.tolist() == pytest.approx([1.5, 1.5 - 2 * 0.5])
    assert (chance < best).all()
    assert n_greedy.tolist() == n_best.tolist() == [2, 2]
    by_share = GraphOptimum(EXPLAINER, thresholds=(0.1,), penalties=(0.0,), weights="share")
    assert by_share.objectives(example(greedy_misses()))[0, 0, :2].tolist() == pytest.approx([1.5, 1.5])


def test_an_optimum_may_be_empty_or_too_large():
    analysis = GraphOptimum(EXPLAINER, thresholds=(0.1, 1.0), penalties=(0.0, 1.0))
    values = analysis.objectives(example(greedy_misses()))
    assert values[0, 1, 0] == 0  # no edge is worth more than the best one
    assert np.isnan(values[1]).all()  # nothing exceeds τ = 1
    few = GraphOptimum(EXPLAINER, thresholds=(0.1,), penalties=(0.0,), most_edges=2)
    assert np.isnan(few.objectives(example(greedy_misses()))).all()
    assert np.isnan(analysis.objectives(example(-np.ones((3, 4, 4))))).all()


def test_greedy_never_exceeds_the_optimum(bert, given):
    (table,) = GraphOptimum(EXPLAINER, limit=None)(given(bert, [bert.encode(TEXTS[:2]), bert.encode(TEXTS[2:])]))
    shares = table.rows[table.rows["metric"] == "greedy over optimum"]["value"].dropna()
    assert len(shares)
    assert (shares <= 1 + 1e-9).all()


def planted(parse, units):
    """Scores of which the walk makes the parse: the root is the top node, each level of the tree a layer."""
    depth = {parse.heads.index(-1): 0}
    while len(depth) < len(parse.heads):
        depth |= {w: depth[h] + 1 for w, h in enumerate(parse.heads) if h in depth and w not in depth}
    place = {unit: token for token, unit in reversed([*enumerate(units)])}
    n_layers = max(depth.values()) + 1
    scores = np.zeros((n_layers, len(units), len(units)))
    for word, head in enumerate(parse.heads):
        if head >= 0:
            scores[n_layers - 1 - depth[word], place[head], place[word]] = 10.0 if depth[word] == 1 else 1.0
    return scores


PARSE = Parse(heads=(1, 2, -1, 4, 2), relations=("det", "nsubj", "root", "amod", "obj"))


def test_a_graph_that_is_the_parse_has_all_dependencies():
    units = [-1, 0, 1, 1, 2, 3, 4, -1]  # the second word is split
    analysis = GraphSyntax(EXPLAINER, thresholds=(0.4,), draws=50)
    (found,) = analysis.shared(example(planted(PARSE, units), units), PARSE)
    assert found[0].tolist() == [4, 4]
    assert found[1].tolist() == [3, 4]  # 0-1, 1-2, 3-4 of the chain; 2-3 is none
    assert 0.2 < found[2, 0] / found[2, 1] < 0.8


def test_punctuation_and_pieces_are_no_edges():
    parse = Parse(heads=(1, -1, 1), relations=("nsubj", "root", "punct"))
    scores = np.zeros((2, 6, 6))
    units = [-1, 0, 1, 1, 2, -1]
    scores[0, 2, 1] = scores[0, 2, 3] = scores[0, 2, 4] = scores[0, 2, 5] = 1.0
    (found,) = GraphSyntax(EXPLAINER, thresholds=(0.4,), draws=1).shared(example(scores, units), parse)
    assert found[0].tolist() == [1, 1]
    assert found[1].tolist() == [1, 1]


def parsed(bert):
    meta = {KEYS[Parse]: Parse(heads=(1, -1), relations=("amod", "root"))}
    return bert.encode_examples([Example(f"s{i}", ["good", "bad"], -1, meta=meta) for i in range(12)], ())


def test_the_table_of_a_model(bert, given):
    (table,) = GraphSyntax(EXPLAINER, limit=None, draws=2)(
        given(bert, [parsed(bert).select(range(8)), parsed(bert).select(range(8, 12))])
    )
    assert {*table.rows["tree"]} == {GRAPH, CHAIN, RANDOM}
    chain = table.rows[(table.rows["tree"] == CHAIN) & (table.rows["metric"] == "share that are dependencies")]
    assert (chain["value"] == 1).all()
    assert (chain["n"] == 12).all()


def test_what_scores_no_edges_has_no_graph(bert):
    batch = bert.encode(TEXTS)
    with pytest.raises(NotApplicable, match="scores no edges"):
        list(summed_edges(bert, batch, build("methods/gradient_x_input"), ONES))


def test_edges_are_summed_over_heads(bert):
    batch = bert.encode(TEXTS)
    scores = EXPLAINER.edge_scores(bert, batch, ONES).sum(2)
    for b, found in enumerate(summed_edges(bert, batch, EXPLAINER, ONES)):
        n = len(found.units)
        assert n == int(batch.attention_mask[b].sum())
        assert found.scores == pytest.approx(scores[b, :, :n, :n].numpy())
        assert found.terminal == 0
