"""The linear datamodelling score and the drops beside one text per subset, and what controls get."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, rankdata, spearmanr

from benchmark import build, load_model
from benchmark.evaluations.context_attribution import ContextAttribution, datamodelling, source_scores
from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Example
from benchmark.units import pool
from tests import text_models
from tests.evaluations.conftest import spelled_probability

TEXT = "the film was great it was bad"
WORDS = TEXT.split()


def explained(batch, rows, target):
    """The scores of words [B U] at the first token of each word."""
    tokens = torch.zeros(batch.units.shape, dtype=torch.float64)
    for b, scores in enumerate(rows):
        for unit, score in enumerate(scores):
            tokens[b, int((batch.units[b] == unit).nonzero()[0])] = score
    return Attribution(target=ClassTarget(torch.as_tensor(target)), tokens=tokens)


def log_probability(model, kept, target):
    words = [word if place in kept else "[MASK]" for place, word in enumerate(WORDS)]
    return math.log(spelled_probability(model, " ".join(words), target))


def values(rows, metric):
    part = rows[rows.metric == metric]
    return dict(zip(zip(part.uid, part.x.fillna(-1), strict=True), part.value, strict=True))


def test_all_subsets_of_few_sources(tiny):
    """Seven words have 128 subsets."""
    batch = tiny.encode([TEXT])
    scores = np.random.default_rng(0).normal(size=7)
    rows = ContextAttribution(samples=128).rows(tiny, batch, explained(batch, [scores], [1]))
    subsets = [s for k in range(8) for s in itertools.combinations(range(7), k)]
    left = [log_probability(tiny, kept, 1) for kept in subsets]
    expected = spearmanr([scores[list(kept)].sum() for kept in subsets], left).statistic
    assert values(rows, "lds")["0", -1] == pytest.approx(expected, abs=1e-9)
    number = rankdata([len(kept) for kept in subsets])
    of_sums, of_values = (
        rankdata(column) - np.polyval(np.polyfit(number, rankdata(column), 1), number)
        for column in ([scores[list(kept)].sum() for kept in subsets], left)
    )
    expected = pearsonr(of_sums, of_values).statistic
    assert values(rows, "lds_given_number")["0", -1] == pytest.approx(expected, abs=1e-9)
    best = np.argsort(-scores)
    whole = log_probability(tiny, range(7), 1)
    for k in (1, 3, 5):
        drop = whole - log_probability(tiny, set(range(7)) - set(best[:k]), 1)
        assert values(rows, "top_drop")["0", k] == pytest.approx(drop, abs=1e-9)


def test_drawn_subsets_follow_the_example_alone(tiny):
    texts = [TEXT, "a dull plot", "it was a lovely story of a great film"]
    batch = tiny.encode(texts)
    test = ContextAttribution(samples=16)
    scores = [np.random.default_rng(n).normal(size=len(text.split())) for n, text in enumerate(texts)]
    together = test.rows(tiny, batch, explained(batch, scores, [0, 1, 1]))
    for row in (0, 1, 2):
        alone = batch.select([row])
        found = test.rows(tiny, alone, explained(alone, scores[row : row + 1], [[0, 1, 1][row]]))
        for metric in ("lds", "lds_given_number", "top_drop"):
            own = {key: value for key, value in values(together, metric).items() if key[0] == str(row)}
            assert own == pytest.approx(values(found, metric), abs=1e-9)
    assert ("1", 1) in values(together, "top_drop")
    assert ("1", 3) not in values(together, "top_drop"), "a source has to be left"
    other = ContextAttribution(samples=16, seed=1).rows(tiny, batch, explained(batch, scores, [0, 1, 1]))
    assert values(other, "lds")["0", -1] != values(together, "lds")["0", -1]


def test_true_shares_of_a_sum_have_one_and_constant_maps_none(sentiment):
    """The model counts good and bad words: scores of ±1 order its answers as they are."""
    batch = sentiment.encode(["great film bad awful fine story"])
    polarity = [[1, 0, -1, -1, 1, 0]]
    test = ContextAttribution(samples=64, operator="attention")
    rows = test.rows(sentiment, batch, explained(batch, polarity, [1]))
    assert values(rows, "lds")["0", -1] > 0.9
    inverted = test.rows(sentiment, batch, explained(batch, [[-s for s in polarity[0]]], [1]))
    assert values(inverted, "lds")["0", -1] == pytest.approx(-values(rows, "lds")["0", -1], abs=1e-9)
    constant = test.rows(sentiment, batch, explained(batch, [[0] * 6], [1]))
    assert values(constant, "lds")["0", -1] == 0


@pytest.mark.parametrize("control", ["random", "recency", "position", "constant"])
def test_controls_have_nothing_where_the_number_is_held_constant(sentiment, control):
    """Though every word speaks for the class, so that more words make it surer."""
    draw = np.random.default_rng(1)
    texts = [" ".join(draw.permutation(["great", "fine", "lovely", "good", "film", "story"])) for _ in range(40)]
    batch = sentiment.encode(texts)
    attribution = build(f"methods/{control}")(sentiment, batch, torch.ones(40, dtype=torch.long))
    rows = ContextAttribution(operator="attention").rows(sentiment, batch, attribution)
    found = np.array(list(values(rows, "lds_given_number").values()))
    assert len(found) == 40
    assert abs(found.mean()) < 3.5 * found.std() / math.sqrt(40) + 1e-12
    if control == "recency":
        assert np.mean(list(values(rows, "lds").values())) > 0.2, "the published figure rises with the number"


def test_a_score_of_a_whole_source_is_counted_once(tiny):
    """leave_one_out gives each piece of "untold" the score of the word."""
    batch = tiny.encode(["the untold story was bad"])
    attribution = build("methods/leave_one_out")(tiny, batch, torch.tensor([1]))
    of_pieces = attribution.tokens[0, batch.units[0] == 1]
    assert len(of_pieces) == 2
    assert of_pieces[0] == of_pieces[1] != 0
    scores, _ = source_scores(attribution.tokens, batch.units, "sum")
    assert torch.equal(scores, pool(attribution.tokens, batch.units, "max")[0])
    halves = attribution.tokens.clone()
    halves[0, (batch.units[0] == 1).nonzero()[0]] += 1
    assert not torch.equal(source_scores(halves, batch.units, "sum")[0], pool(halves, batch.units, "max")[0]), (
        "tokens of their own scores are summed"
    )


def test_rounding_is_no_change_of_the_answer():
    sums, number = np.arange(8.0), np.array([0, 1, 1, 2, 1, 2, 2, 3])
    noise = -0.7 + 1e-16 * np.array([1, -1, 1, 1, -1, 1, -1, 1])
    assert datamodelling(sums, noise, number, 100 * 2.2e-16) is None
    assert datamodelling(np.zeros(8), sums, number, 1e-14) == (0.0, 0.0)
    assert datamodelling(number * 0.1 + 1e-17 * sums, sums, number, 1e-14)[1] == 0.0, "it follows from the number"
    assert datamodelling(sums, sums, number, 1e-14) == (1.0, 1.0)


@pytest.mark.parametrize(("label", "rated"), [(-1, [1, 1, 1]), (1, [0, 0, 0])])
def test_what_has_no_class_or_no_source_has_no_row(tiny, label, rated):
    batch = tiny.encode_examples([Example("one", "a dull plot", 0, rated=rated)], [0, 1])
    rows = ContextAttribution(samples=8).rows(tiny, batch, explained(batch, [[0.1, 0.2, 0.3]], [label]))
    assert rows.empty


def test_what_is_not_rated_may_have_any_score(tiny):
    batch = tiny.encode_examples([Example("one", "a dull plot", 0, rated=[1, 1, 0])], [0, 1])
    rows = ContextAttribution(samples=8).rows(tiny, batch, explained(batch, [[0.1, 0.2, math.nan]], [1]))
    assert set(rows["metric"]) == {"lds", "lds_given_number", "top_drop"}
    assert rows["value"].notna().all()


def test_one_source_says_nothing(tiny):
    batch = tiny.encode(["great"])
    rows = ContextAttribution().rows(tiny, batch, explained(batch, [[1.0]], [1]))
    assert rows.empty


def test_sentences_that_are_not_rated_stay(tmp_path):
    """Of a question behind its context: only the sources are removed, and their scores alone are summed."""
    model = load_model(text_models.save_gpt2(tmp_path), "float64")
    examples = [Example("one", "the story was good a fine film good", 0, rated=[1, 1, 1, 0, 0, 0, 0, 0])]
    batch = model.encode_examples(examples, [0, 1])
    scores = [[0.3, -0.2, 0.5, 9.0, 9.0, -9.0, 9.0, 9.0]]
    test = ContextAttribution(samples=8, operator="attention", best=[1, 2])
    rows = test.rows(model, batch, explained(batch, scores, [1]))
    left, sums = [], []
    for kept in itertools.product((True, False), repeat=3):
        mask = batch.tensors["attention_mask"].clone()
        for unit, stays in enumerate(kept):
            mask[batch.units == unit] = int(stays)
        left.append(float(model.run({**batch.tensors, "attention_mask": mask}).logits.log_softmax(-1)[0, 1]))
        sums.append(sum(score for score, stays in zip(scores[0], kept, strict=False) if stays))
    assert values(rows, "lds")["one", -1] == pytest.approx(spearmanr(sums, left).statistic, abs=1e-9)
    assert set(values(rows, "top_drop")) == {("one", 1), ("one", 2)}
