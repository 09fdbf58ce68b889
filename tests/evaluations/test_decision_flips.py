"""Flips of the decision, log-odds and the relative area: slow loops over texts that are spelled out, and known cases."""

import itertools

import numpy as np
import pytest

from benchmark.evaluations.decision_flips import DecisionFlips
from benchmark.evaluations.racu import Racu
from benchmark.randomness import generator
from tests.evaluations.conftest import attribution_of, figure_of, planted, values_of


def without(model, words, gone):
    """Logits of a text without some of its words."""
    ids = model.tokenizer(" ".join(w for w, lost in zip(words, gone, strict=True) if not lost), return_tensors="pt")
    return model.run({"input_ids": ids["input_ids"]}).logits[0].double()


def best(scores, count):
    return np.argsort(np.argsort(-np.asarray(scores))) < count


def test_flips_equal_a_loop(tiny, batch):
    scores = [np.random.default_rng(b).permutation(len(words)).astype(float) for b, words in enumerate(batch.words)]
    rows = DecisionFlips(operator="delete", steps=7, fractions=(0.2, 0.5)).rows(
        tiny, batch, attribution_of(batch, scores, [1] * 5)
    )
    for b, uid in enumerate(batch.uids):
        words, n = list(batch.words[b]), len(batch.words[b])
        whole = without(tiny, words, [False] * n)
        steps = [-(-j * n // 7) for j in range(1, 8)]
        flips = [k for k in steps if int(without(tiny, words, best(scores[b], k)).argmax()) != int(whole.argmax())]
        assert values_of(rows, "flip_share")[uid] == pytest.approx(min(flips) / n if flips else 1.0)
        assert values_of(rows, "never")[uid] == float(not flips)
        first = int(without(tiny, words, best(scores[b], 1)).argmax()) != int(whole.argmax())
        assert values_of(rows, "flip_first")[uid] == float(first)
        odds = [
            float(without(tiny, words, best(scores[b], -(-int(10 * q) * n // 10))).log_softmax(0)[1])
            for q in (0.2, 0.5)
        ]
        assert values_of(rows, "log_odds")[uid] == pytest.approx(
            np.mean(odds) - float(whole.log_softmax(0)[1]), abs=1e-6
        )


def test_flips_rank_the_planted_truth(sentiment, reviews):
    figures = {
        kind: DecisionFlips().reduce(DecisionFlips().rows(sentiment, reviews, planted(reviews, kind)))
        for kind in ("oracle", "random", "inverted")
    }
    for name, sign in (("flip_share", -1), ("log_odds", -1)):
        found = [sign * figure_of(figures[kind], name).value for kind in ("oracle", "random", "inverted")]
        assert found == sorted(found, reverse=True), name


def test_relative_area_equals_a_loop(tiny, batch):
    scores = [np.random.default_rng(b).permutation(len(words)).astype(float) for b, words in enumerate(batch.words)]
    evaluation = Racu(operator="delete", fractions=(0.25, 0.5))
    rows = evaluation.rows(tiny, batch, attribution_of(batch, scores))
    points, gains, rooms = (0.0, 0.25, 0.5, 1.0), [], []
    for b, uid in enumerate(batch.uids):
        words, n, label = list(batch.words[b]), len(batch.words[b]), int(batch.label[b])
        if label < 0:
            assert uid not in values_of(rows, "accuracy_at", 0.5)
            continue
        order = generator(0, "random removal", uid).random(n)

        def right(by, share, words=words, n=n, label=label):
            if share == 1:
                return np.nan
            return float(int(without(tiny, words, best(by, int(share * n))).argmax()) == label)

        own, random = values_of(rows, "accuracy_at", 0.5)[uid], values_of(rows, "random_accuracy_at", 0.5)[uid]
        assert own == right(scores[b], 0.5)
        assert random == right(order, 0.5)
        a = [values_of(rows, "accuracy_at", x)[uid] for x in points]
        r = [values_of(rows, "random_accuracy_at", x)[uid] for x in points]
        assert a[-1] == r[-1]
        gains.append(np.trapezoid(np.array(r) - np.array(a), points))
        rooms.append(np.trapezoid(np.array(r) - r[-1], points))
    expected = np.sum(gains) / np.sum(rooms) if np.sum(rooms) else np.nan
    found = figure_of(evaluation.reduce(rows), "racu").value
    assert found == pytest.approx(expected, nan_ok=True)


def test_relative_area_ranks_the_planted_truth_and_random_is_nothing(sentiment, reviews):
    figures = {}
    for kind in ("oracle", "random", "inverted"):
        evaluation = Racu()
        figures[kind] = figure_of(
            evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, kind))), "racu"
        )
    for better, worse in itertools.pairwise(figures[kind] for kind in ("oracle", "random", "inverted")):
        assert better.low > worse.high
    assert figures["random"].low <= 0 <= figures["random"].high


def test_random_removals_are_shared_by_methods(tiny, batch):
    evaluation, before = Racu(), tiny.cost.forward_passes
    evaluation.rows(tiny, batch, attribution_of(batch, [range(len(w)) for w in batch.words]))
    first = tiny.cost.forward_passes - before
    evaluation.rows(tiny, batch, attribution_of(batch, [range(len(w)) for w in batch.words]))
    assert tiny.cost.forward_passes - before - first < first
