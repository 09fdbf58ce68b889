"""The controls on text: each scores words as its definition says, whatever the batch."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

import benchmark
from benchmark import units
from benchmark.errors import NotApplicable, UserError
from benchmark.types import Example
from methods.controls import Constant, FirstWord, Frequency, Inverted, LastWord, Oracle, Position, Random, Recency
from tests import text_models

TEXTS = ("the untoldly film was good", "a dull plot", "bad", "the " * 20 + "good")
RATIONALES = ([0, 1, 0, 0, 1], [0, 1, 0], [1], [0] * 20 + [1])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = text_models.save_bert(tmp_path_factory.mktemp("controls"), window=16)
    return benchmark.load_model(folder, dtype="float64", device="cpu")


@pytest.fixture(scope="module")
def batch(model):
    """The last text is longer than the window."""
    examples = [
        Example(f"review {i}", text, i % 2, np.array(rationale, dtype=bool))
        for i, (text, rationale) in enumerate(zip(TEXTS, RATIONALES, strict=True))
    ]
    return model.encode_examples(examples, label_map=[0, 1])


def explain(method, model, batch):
    return method(model, batch, torch.zeros(len(batch), dtype=torch.long))


def word_scores(method, model, batch):
    """Scores of the visible words of each example; every token of a word must have its score, and others 0."""
    tokens = explain(method, model, batch).tokens
    assert tokens.shape == batch.units.shape
    assert not tokens[batch.units < 0].any()
    pooled, visible = units.pool(tokens, batch.units)
    lowest, _ = units.pool(-tokens, batch.units)
    assert torch.equal(pooled[visible], -lowest[visible])
    return [row[seen].tolist() for row, seen in zip(pooled, visible, strict=True)]


def test_random_depends_on_the_example_and_the_seed_and_on_nothing_else(model, batch):
    scores = word_scores(Random(), model, batch)
    assert word_scores(Random(), model, batch) == scores
    order = [2, 0, 3, 1]
    assert word_scores(Random(), model, batch.select(order)) == [scores[i] for i in order]
    alone = model.encode_examples([Example("review 1", TEXTS[1], 0)], label_map=[0, 1])
    assert word_scores(Random(), model, alone) == [scores[1]]
    assert word_scores(Random(seed=1), model, batch) != scores
    renamed = replace(batch, uids=tuple(f"other {uid}" for uid in batch.uids))
    assert all(a != b for a, b in zip(word_scores(Random(), model, renamed), scores, strict=True))


def test_random_is_uniform_and_orders_the_heads_alike_for_all_examples(model, batch):
    examples = [Example(str(i), "the film was good", 0) for i in range(200)]
    many = model.encode_examples(examples, label_map=[0, 1])
    values = np.array(word_scores(Random(), model, many))
    assert values.min() >= 0
    assert values.max() < 1
    assert np.abs(values.mean(0) - 0.5).max() < 0.1
    assert np.abs(np.corrcoef(values.T) - np.eye(4)).max() < 0.25
    heads = explain(Random(), model, batch).heads
    assert heads.shape == (len(batch), model.n_layers, model.n_heads)
    assert torch.equal(heads, heads[:1].expand_as(heads))
    assert len(heads[0].unique()) == heads[0].numel()
    assert not torch.equal(heads, explain(Random(seed=1), model, batch).heads)


def test_oracle_is_the_rationale_and_inverted_its_negative(model, batch):
    visible = [5, 3, 1, 14]  # the last text loses its end, and with it its rationale
    expected = [[float(value) for value in rationale[:n]] for rationale, n in zip(RATIONALES, visible, strict=True)]
    assert word_scores(Oracle(), model, batch) == expected
    assert word_scores(Inverted(), model, batch) == [[-value for value in row] for row in expected]


@pytest.mark.parametrize("method", [Oracle(), Inverted()])
def test_without_rationales_they_say_so(model, method):
    with pytest.raises(NotApplicable, match="the task has no rationales"):
        explain(method, model, model.encode(["good"]))


def test_constant_scores_every_word_alike_and_no_head(model, batch):
    assert word_scores(Constant(), model, batch) == [[0.0] * n for n in (5, 3, 1, 14)]
    assert explain(Constant(), model, batch).heads is None


def test_position_falls_from_the_first_word_on(model, batch):
    for row, n in zip(word_scores(Position(), model, batch), (5, 3, 1, 21), strict=True):
        assert row == pytest.approx([-u / n for u in range(len(row))])


def test_recency_rises_to_the_last_word(model, batch):
    for row, n in zip(word_scores(Recency(), model, batch), (5, 3, 1, 21), strict=True):
        assert row == pytest.approx([u / n for u in range(len(row))])


def test_one_word_alone_is_the_first_or_the_last_that_is_rated_and_seen(model, batch):
    assert word_scores(FirstWord(), model, batch) == [[1.0] + [0.0] * (n - 1) for n in (5, 3, 1, 14)]
    assert word_scores(LastWord(), model, batch) == [[0.0] * (n - 1) + [1.0] for n in (5, 3, 1, 14)]
    rated = (np.array([0, 1, 0, 1, 0], dtype=bool), None, np.array([0], dtype=bool), None)
    asked = replace(batch, rated=rated, query_units=(0, 1, 0, 0))
    assert word_scores(FirstWord(), model, asked)[:3] == [[0, 1, 0, 0, 0], [0, 1, 0], [0]]
    assert word_scores(LastWord(), model, asked)[:3] == [[0, 0, 0, 1, 0], [0, 0, 1], [0]]


def test_frequency_counts_the_words_of_the_training_split(model, batch):
    training = [
        Example("a", "the film was good The", 0),
        Example("b", ("dull dull", ["the", "Plot"]), 1),
        Example("c", ["a", "film"], 1),
    ]
    fitted = Frequency().fit(training)
    assert fitted.counts == Counter(the=3, film=2, dull=2, was=1, good=1, plot=1, a=1)
    scores = word_scores(fitted, model, batch)
    assert scores[0] == pytest.approx([-np.log(4), 0, -np.log(3), -np.log(2), -np.log(2)])
    assert scores[1] == pytest.approx([-np.log(2), -np.log(3), -np.log(2)])
    assert Frequency().counts == Counter()  # fitting leaves the original alone


def test_frequency_counts_words_in_any_case():
    fitted = Frequency().fit([Example("a", "the THE The film", 0)])
    scores = fitted._scores(["The", "the", "FILM", "Plot"])
    assert scores == pytest.approx([-np.log(4), -np.log(4), -np.log(2), 0])


def test_frequency_without_words_says_so(model):
    ready = {"input_ids": [2, 5, 6, 3]}
    with pytest.raises(NotApplicable, match="no words to count"):
        Frequency().fit([Example("a", ready, 0)])
    with pytest.raises(NotApplicable, match="no words to count"):
        explain(Frequency(), model, model.encode([ready]))


def test_random_has_several_orders_of_heads_and_explains_with_the_first(model, batch):
    orders = Random().head_orders(model.n_layers, model.n_heads)
    assert orders.shape == (5, model.n_layers, model.n_heads)
    assert torch.equal(explain(Random(), model, batch).heads[0], orders[0].to(model.dtype))
    others = Random(seed=1).head_orders(model.n_layers, model.n_heads)
    everything = torch.cat([orders, others]).flatten(1)
    assert len({tuple(row.tolist()) for row in everything}) == 10
    longer = Random(orders=7).head_orders(model.n_layers, model.n_heads)
    assert torch.equal(longer[:5], orders)
    with pytest.raises(UserError, match=r"orders=4"):
        Random(orders=4)
