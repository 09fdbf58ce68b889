"""Distances between heads, the plane they are drawn in, and clusters of words: by hand and on heads that are set by hand."""

import math

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.analyses.patterns.head_clusters import HeadClusters, plane
from benchmark.analyses.patterns.head_distances import head_distances
from benchmark.analyses.patterns.word_clusters import Occurrences, WordClusters, silhouette
from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.models.words import hidden_states, word_states
from tests import text_models
from tests.planted_heads import SEP_KIND, WORD_KIND, Nowhere, Offset, ToKind, save_planted_heads

TEXTS = ["a fine film , the untold story", "the plot was dull .", "good"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def test_distances_equal_loops_over_queries(bert):
    found = head_distances(bert, bert.encode(TEXTS))
    for row, text in enumerate(TEXTS):
        attentions = bert.run(bert.encode([text]), record=("attentions",)).attentions
        heads = np.concatenate([layer[0].numpy() for layer in attentions])
        n = heads.shape[-1]
        smoothed = 0.999 * heads + 0.001 / n
        for a in range(4):
            for b in range(4):
                m = (smoothed[a] + smoothed[b]) / 2
                terms = smoothed[a] * np.log(smoothed[a] / m) + smoothed[b] * np.log(smoothed[b] / m)
                assert found[row, a, b].item() == pytest.approx(terms.sum(-1).mean() / 2, abs=1e-12)


def test_a_small_budget_gives_the_same_distances(bert):
    from dataclasses import replace

    batch = bert.encode(TEXTS)
    assert torch.allclose(
        head_distances(replace(bert, memory_budget=1), batch), head_distances(bert, batch), atol=1e-12
    )


def test_the_plane_keeps_distances_that_fit_into_it():
    points = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0], [3.0, 4.0]])
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    found, stress = plane(distances, seed=0)
    assert stress < 1e-3
    assert np.linalg.norm(found[:, None] - found[None], axis=-1) == pytest.approx(distances, abs=1e-2)
    assert np.array_equal(found, plane(distances, seed=0)[0])
    apart = 1 - np.eye(6)  # six points of equal distances fill five dimensions
    assert plane(apart, seed=0)[1] > 0.1


def test_heads_are_named_by_what_they_do_and_equal_ones_lie_together(tmp_path, given):
    rules = [[Offset(-1), ToKind(SEP_KIND), Nowhere()], [Offset(-1), Offset(1), Nowhere()]]
    words = dict.fromkeys(("a", "fine", "film", "dull"), WORD_KIND)
    model = load_model(save_planted_heads(tmp_path, words, rules), "float64")
    batch = model.encode(["a fine film dull film", "dull film a film", "a fine dull film"])
    distances, shown = HeadClusters(limit=None)(given(model, [batch]))
    does = shown.rows.drop_duplicates(["layer", "head"]).set_index(["layer", "head"])["behaviour"]
    assert does.to_dict() == {
        (0, 0): "previous token", (0, 1): "to separators", (0, 2): "attends broadly",
        (1, 0): "previous token", (1, 1): "next token", (1, 2): "attends broadly",
    }  # fmt: skip
    at = shown.rows.pivot(index=["layer", "head"], columns="metric", values="value")
    assert at.loc[(0, 0)].to_numpy() == pytest.approx(at.loc[(1, 0)].to_numpy(), abs=0.05)
    assert np.linalg.norm(at.loc[(0, 0)].to_numpy() - at.loc[(0, 1)].to_numpy()) > 0.2
    figures = distances.rows.set_index("metric")["value"]
    assert figures["same less different"] == pytest.approx(figures["same layer"] - figures["different layers"])
    assert 0 < figures["same layer"] <= math.log(2)
    for table in (distances, shown):
        table.check()


def test_every_query_weighs_alike_as_in_a_sum_over_queries_and_documents(bert, given):
    """The published program adds up over queries and documents; its sum over the number of queries is the mean here."""
    batch = bert.encode(TEXTS)
    found = head_distances(bert, batch).numpy()
    queries = batch.attention_mask.sum(1).numpy()
    assert queries.tolist() == [10, 7, 3]
    total = sum(n * distances for n, distances in zip(queries, found, strict=True))
    for weigh, mean in (("queries", total / 20), ("documents", found.mean(0))):
        distances, shown = HeadClusters(limit=None, weigh=weigh)(given(bert, [batch]))
        figures = distances.rows.set_index("metric")
        same, other = (mean[0, 1] + mean[2, 3]) / 2, mean[:2, 2:].mean()
        assert figures.loc["same layer", "value"] == pytest.approx(same, abs=1e-9)
        assert figures.loc["different layers", "value"] == pytest.approx(other, abs=1e-9)
        assert figures.loc["same less different", "value"] == pytest.approx(same - other, abs=1e-9)
        assert (figures["low"] < figures["value"]).all()
        assert (figures["value"] < figures["high"]).all()
        points = shown.rows.pivot(index=["layer", "head"], columns="metric", values="value").to_numpy()
        assert points == pytest.approx(plane(mean, 0)[0], abs=1e-6)


def test_states_of_a_word_are_the_mean_over_its_pieces(bert):
    batch = bert.encode(["untoldly good"])
    states = hidden_states(bert, batch)
    assert len(states) == 3
    found = word_states(states[1], batch.units)
    assert torch.allclose(found[0, 0], states[1][0, 1:4].mean(0))
    assert torch.allclose(found[0, 1], states[1][0, 4])


def test_silhouettes_of_two_groups_by_hand():
    """Unit vectors at 0°, 10°, 90° and 100°: two groups of two, in three examples."""
    degrees = np.radians([0, 10, 90, 100])
    states = np.stack([np.cos(degrees), np.sin(degrees)], axis=1)
    occurrences = Occurrences(states[None], np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2]), ("x", "y"))

    def distance(a, b):
        return 1 - math.cos(degrees[a] - degrees[b])

    def one(i, mate, others):
        a, b = distance(i, mate), sum(distance(i, o) for o in others) / 2
        return (b - a) / max(a, b)

    s = [one(0, 1, (2, 3)), one(1, 0, (2, 3)), one(2, 3, (0, 1)), one(3, 2, (0, 1))]
    found = silhouette(states, occurrences)
    assert found.value == pytest.approx(((s[0] + s[1]) / 2 + s[2] + s[3]) / 3)
    assert found.n == 3


def test_words_lie_together_where_states_hardly_change(bert, given):
    texts = ["the film was good", "the plot was bad", "good film", "bad film the plot", "a good plot"]
    table, places = WordClusters(words=["film", "plot", "Good", "bad"], limit=None)(given(bert, [bert.encode(texts)]))
    rows = table.rows.set_index(["layer", "metric"])
    assert (rows["n"] == 5).all()
    assert rows["value"].between(-1, 1).all()
    assert set(table.rows["layer"]) == {0, 1, 2}
    assert "film (3)" in " ".join(table.sentences)
    assert len(places.rows) == 3 * 2 * (3 + 3 + 3 + 2)
    table.check()
    places.check()


def test_one_word_by_label(bert, given):
    texts = ["the film was good", "the film was bad", "good film", "bad film"]
    batch = bert.encode(texts, labels=[1, 0, 1, 0])
    table, _ = WordClusters(words=["film"], by="label", limit=None)(given(bert, [batch]))
    assert "bad (2), good (2)" in " ".join(table.sentences)
    with pytest.raises(NotApplicable, match="fewer than two groups"):
        WordClusters(words=["film"], limit=None)(given(bert, [batch]))


def test_images_have_no_words(tmp_path, given):
    model = small_models.load("vit", tmp_path)
    with pytest.raises(NotApplicable, match="no words"):
        WordClusters(limit=None)(given(model, [model.encode(small_models.inputs("vit"))]))
