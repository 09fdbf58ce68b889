import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.documents import documents, matched_spans, precision_recall_area, spans
from benchmark.evaluations.rationale import TOP, Rationale
from benchmark.types import Attribution
from tests.evaluations.conftest import attribution_of, figure_of, planted, values_of

MASK = st.lists(st.booleans(), min_size=1, max_size=30)


def runs(mask, breaks=()):
    """Slow: word by word."""
    found = []
    for i, flag in enumerate(mask):
        if flag and (i == 0 or not mask[i - 1] or i in breaks):
            found.append([i, i])
        if flag:
            found[-1][1] = i + 1
    return [tuple(run) for run in found]


def overlap(a, b):
    """Slow intersection over union."""
    x, y = set(range(*a)), set(range(*b))
    return len(x & y) / len(x | y)


@given(MASK, st.sets(st.integers(1, 29)))
def test_spans_are_maximal_runs_within_documents(mask, breaks):
    assert spans(np.array(mask), sorted(breaks)) == runs(mask, breaks)


@given(MASK, MASK)
def test_matches_equal_the_slow_sets(a, b):
    predicted, gold = runs(a), runs(b)
    expected = 0
    for p in predicted:
        best = 0.0
        for g in gold:
            best = max(best, overlap(p, g))
        expected += best >= 0.5
    assert matched_spans(predicted, gold) == expected


def slow_rows(scores, gold):
    """One document, by the definitions of ERASER's scorer."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    rationale = {i for i, flag in enumerate(gold) if flag}
    found = {}
    for k in TOP:
        hits = len(set(order[:k]) & rationale)
        p, r = hits / min(k, len(scores)), hits / len(rationale)
        found[k] = 0.0 if hits == 0 else 2 * p * r / (p + r)
    thresholds = sorted(set(scores), reverse=True)
    points = [(0.0, 1.0)]
    for threshold in thresholds:
        chosen = {i for i, s in enumerate(scores) if s >= threshold}
        points.append((len(chosen & rationale) / len(rationale), len(chosen & rationale) / len(chosen)))
        if len(chosen & rationale) == len(rationale):
            break
    area = sum((r1 - r0) * (p0 + p1) / 2 for (r0, p0), (r1, p1) in pairwise(points))
    return found, area


def test_token_f1_and_auprc_equal_the_slow_ones(sentiment, reviews):
    generator = np.random.default_rng(3)
    scores = [generator.permutation(len(words)) + 1.0 for words in reviews.words]
    evaluation = Rationale()
    rows = evaluation.rows(sentiment, reviews, attribution_of(reviews, scores))
    expected = [slow_rows(scores[b].tolist(), reviews.rationale[b].tolist()) for b in range(len(reviews))]
    for k in TOP:
        assert list(values_of(rows, "token_f1", k).values()) == pytest.approx([f1[k] for f1, _ in expected])
    areas = values_of(rows, "auprc")
    precision = values_of(rows, "average_precision")
    for b, uid in enumerate(reviews.uids):
        assert areas[uid] == pytest.approx(expected[b][1])
        assert precision[uid] == pytest.approx(average_precision_score(reviews.rationale[b], scores[b]))
    figures = evaluation.reduce(rows)
    assert figure_of(figures, "token_f1", 10).value == pytest.approx(np.mean([f1[10] for f1, _ in expected]))
    means = [np.mean(list(f1.values())) for f1, _ in expected]
    assert figure_of(figures, "token_f1_mean").value == pytest.approx(np.mean(means))


def test_micro_and_span_figures_equal_the_slow_ones(sentiment, reviews):
    generator = np.random.default_rng(4)
    scores = [generator.permutation(len(words)) + 1.0 for words in reviews.words]
    share = 0.3
    evaluation = Rationale(hard_share=share)
    figures = evaluation.reduce(evaluation.rows(sentiment, reviews, attribution_of(reviews, scores)))
    hits = chosen = gold = matched = n_predicted = n_gold = 0
    precision, recall, hard = [], [], []
    for b, words in enumerate(reviews.words):
        order = np.argsort(-scores[b])
        flags = reviews.rationale[b]
        top = np.isin(np.arange(len(words)), order[:10])
        hits, chosen, gold = hits + (top & flags).sum(), chosen + top.sum(), gold + flags.sum()
        picked = np.isin(np.arange(len(words)), order[: math.ceil(share * len(words) - 1e-9)])
        p, g = runs(picked.tolist()), runs(flags.tolist())
        tp = sum(any(overlap(a, c) >= 0.5 for c in g) for a in p)
        precision.append(tp / len(p))
        recall.append(tp / len(g))
        hard.append(2 * (picked & flags).sum() / (picked.sum() + flags.sum()))
        matched, n_predicted, n_gold = matched + tp, n_predicted + len(p), n_gold + len(g)
    p, r = np.mean(precision), np.mean(recall)
    assert figure_of(figures, "token_f1_micro", 10).value == pytest.approx(2 * hits / (chosen + gold))
    assert figure_of(figures, "iou_f1").value == pytest.approx(2 * p * r / (p + r))
    assert figure_of(figures, "iou_f1_micro").value == pytest.approx(2 * matched / (n_predicted + n_gold))
    assert figure_of(figures, "hard_token_f1").value == pytest.approx(np.mean(hard))
    assert figure_of(figures, "hard_share").value == share


def test_task_share_is_the_nearest_to_the_mean_rationale(sentiment, reviews):
    evaluation = Rationale()
    figures = evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, "oracle")))
    mean = np.mean([flags.mean() for flags in reviews.rationale])
    assert figure_of(figures, "rationale_share").value == pytest.approx(mean)
    assert figure_of(figures, "hard_share").value == min(evaluation.hard_shares, key=lambda s: abs(s - mean))


def test_planted_truth_is_ranked(sentiment, reviews):
    evaluation = Rationale()
    figures = {
        kind: evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, kind)))
        for kind in ("oracle", "random", "inverted")
    }
    for metric, x in (("auprc", None), ("average_precision", None), ("token_f1", 10), ("iou_f1", None)):
        oracle, chance, inverted = (figure_of(figures[kind], metric, x) for kind in ("oracle", "random", "inverted"))
        assert oracle.low > chance.high, metric
        assert chance.value > inverted.value, metric
    assert figure_of(figures["oracle"], "auprc").value == 1.0
    for f in (f for found in figures.values() for f in found):
        assert 0 <= f.value <= 1


def test_words_beyond_the_window_count_as_missed(sentiment):
    words = ["film"] * 100
    batch = sentiment.encode([words], labels=[1])
    gold = np.zeros(100, dtype=bool)
    gold[[3, 4, 90, 95]] = True
    batch = replace(batch, rationale=(gold,))
    scores = np.full(100, -5.0)
    scores[[3, 4]] = 7
    evaluation = Rationale()
    rows = evaluation.rows(sentiment, batch, attribution_of(batch, [scores]))
    assert values_of(rows, "truncated_rationale_share")["0"] == 0.5
    assert values_of(rows, "coverage")["0"] == pytest.approx(0.62)
    assert values_of(rows, "token_recall", 80)["0"] == 0.5
    assert values_of(rows, "token_precision", 80)["0"] == pytest.approx(2 / 62)
    (document,) = documents(batch, attribution_of(batch, [scores]), how="max", clamp=False, seed=0)
    assert document.scores[[3, 4]].tolist() == [12, 12]
    assert document.scores[62:].tolist() == [0] * 38
    assert document.scores.min() == 0
    assert document.selected(99).sum() == 62


def test_words_of_a_query_are_left_out(sentiment):
    batch = sentiment.encode([("was it good", "the film was dull")], labels=[0])
    gold = np.array([True, True, True, False, False, False, True])
    batch = replace(batch, rationale=(gold,), query_units=(3,))
    rows = Rationale(top=(1, 2)).rows(sentiment, batch, attribution_of(batch, [[9, 9, 9, 1, 2, 3, 4]]))
    assert values_of(rows, "token_f1", 1)["0"] == 1.0
    assert values_of(rows, "token_f1", 2)["0"] == pytest.approx(2 / 3)
    assert values_of(rows, "auprc")["0"] == 1.0
    assert values_of(rows, "rationale_share")["0"] == 0.25


def test_clamp_and_pool_are_what_they_say(sentiment):
    batch = sentiment.encode(["untoldly bad film"], labels=[0])  # 3 + 1 + 1 tokens
    batch = replace(batch, rationale=(np.array([True, False, False]),))
    tokens = torch.zeros(batch.units.shape, dtype=torch.float64)
    tokens[0, 1:6] = torch.tensor([1.0, 1.0, 1.0, 2.0, -4.0])
    attribution = Attribution(target=torch.tensor([0]), tokens=tokens)
    scores = {
        how: documents(batch, attribution, how=how, clamp=False, seed=0)[0].scores.tolist()
        for how in ("max", "sum", "mean")
    }
    assert scores == {"max": [5, 6, 0], "sum": [7, 6, 0], "mean": [5, 6, 0]}
    assert documents(batch, attribution, how="max", clamp=True, seed=0)[0].scores.tolist() == [1, 2, 0]
    assert values_of(Rationale(top=(1,), pool="sum").rows(sentiment, batch, attribution), "token_f1", 1)["0"] == 1
    assert values_of(Rationale(top=(1,)).rows(sentiment, batch, attribution), "token_f1", 1)["0"] == 0


def test_one_word_and_tied_scores(sentiment):
    batch = sentiment.encode(["bad"], labels=[0])
    batch = replace(batch, rationale=(np.array([True]),))
    evaluation = Rationale()
    rows = evaluation.rows(sentiment, batch, attribution_of(batch, [[0.0]]))
    assert values_of(rows, "token_f1", 10)["0"] == 1
    assert values_of(rows, "auprc")["0"] == 1
    assert precision_recall_area(np.array([True, False, False, False]), np.zeros(4)) == pytest.approx(0.625)
    assert math.isnan(figure_of(evaluation.reduce(rows), "auprc").low)


def test_examples_without_a_rationale_get_no_row(sentiment, reviews):
    none = list(reviews.rationale)
    none[0], none[1] = None, np.zeros(len(reviews.words[1]), dtype=bool)
    rows = Rationale().rows(sentiment, replace(reviews, rationale=tuple(none)), planted(reviews, "oracle"))
    assert set(rows["uid"]) == set(reviews.uids[2:])
    empty = Rationale().rows(sentiment, replace(reviews, rationale=(None,) * len(reviews)), planted(reviews, "oracle"))
    assert empty.empty
    with pytest.raises(NotApplicable, match="no example has a rationale"):
        Rationale().reduce(empty)


def test_order_and_composition_of_batches_change_nothing(sentiment, reviews):
    tied = attribution_of(reviews, [np.round(np.linspace(0, 1, len(words))) for words in reviews.words])
    evaluation = Rationale()
    whole = evaluation.rows(sentiment, reviews, tied)
    parts = []
    for rows in (range(39, 19, -1), range(20)):
        part = Attribution(target=tied.target[list(rows)], tokens=tied.tokens[list(rows)])
        parts.append(evaluation.rows(sentiment, reviews.select(list(rows)), part))
    columns = ["uid", "metric", "x"]
    a, b = (frame.sort_values(columns).reset_index(drop=True) for frame in (whole, pd.concat(parts)))
    pd.testing.assert_frame_equal(a, b)


def test_figures_are_the_metrics_and_lie_within_bounds(sentiment, reviews):
    evaluation = Rationale()
    figures = evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, "random")))
    assert {f.metric for f in figures} == set(evaluation.metrics)
    assert all(math.isnan(f.x) == (evaluation.metrics[f.metric].x is None) for f in figures)


@pytest.mark.parametrize(
    "settings", [{"top": []}, {"top": [0]}, {"hard_share": "half"}, {"hard_share": 2}, {"hard_shares": [0.2, 0.1]}]
)
def test_bad_settings_name_themselves(settings):
    with pytest.raises(UserError, match=f"evaluations.rationale.{next(iter(settings))}"):
        Rationale(**settings)


def test_methods_without_token_scores_are_not_applicable(sentiment, reviews):
    with pytest.raises(NotApplicable, match="no token scores"):
        Rationale().rows(sentiment, reviews, Attribution(target=reviews.label))


def test_a_rationale_of_another_length_is_a_bug(sentiment, reviews):
    broken = replace(reviews, rationale=(np.ones(3, dtype=bool), *reviews.rationale[1:]))
    with pytest.raises(ValueError, match="a rationale of 3"):
        Rationale().rows(sentiment, broken, planted(reviews, "oracle"))
