import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, precision_recall_curve

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.rationale.documents import (
    average_precision,
    documents,
    matched_spans,
    precision_recall_area,
    spans,
)
from benchmark.evaluations.rationale.rationale import TOP, Rationale
from benchmark.types import Attribution
from tests.evaluations.conftest import attribution_of, figure_of, planted, values_of

MASK = st.lists(st.booleans(), min_size=1, max_size=30)


def runs(mask):
    """Slow: word by word."""
    found = []
    for i, flag in enumerate(mask):
        if flag and (i == 0 or not mask[i - 1]):
            found.append([i, i])
        if flag:
            found[-1][1] = i + 1
    return [tuple(run) for run in found]


def overlap(a, b):
    """Slow intersection over union."""
    x, y = set(range(*a)), set(range(*b))
    return len(x & y) / len(x | y)


@given(MASK)
def test_spans_are_maximal_runs(mask):
    assert spans(np.array(mask)) == runs(mask)


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


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=30))
def test_areas_equal_those_of_scikit_learn(words):
    gold, scores = np.array([flag for flag, _ in words]), np.array([float(score) for _, score in words])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no positive class
        precision, recall, _ = precision_recall_curve(gold, scores)
        expected = auc(recall, precision)
    assert precision_recall_area(gold, scores) == pytest.approx(expected, abs=1e-14)
    assert gold.any() or expected == 0.5
    distinct = scores + np.linspace(0, 0.5, len(scores))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert average_precision(gold, distinct) == pytest.approx(average_precision_score(gold, distinct), abs=1e-14)


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


def test_task_share_is_exactly_the_mean_rationale(sentiment, reviews):
    evaluation = Rationale().over([reviews.select(range(30)), reviews.select(range(30, 40))])
    mean = np.mean([flags.mean() for flags in reviews.rationale])
    assert evaluation.hard_share == pytest.approx(mean, abs=1e-15)
    assert mean not in evaluation.hard_shares
    rows = evaluation.rows(sentiment, reviews, planted(reviews, "random"))
    assert set(values_of(rows, "hard_share").values()) == {evaluation.hard_share}
    assert np.mean(list(values_of(rows, "rationale_share").values())) == pytest.approx(mean)
    pd.testing.assert_frame_equal(rows, Rationale().rows(sentiment, reviews, planted(reviews, "random")))
    exact = Rationale(hard_share=mean).rows(sentiment, reviews, planted(reviews, "random"))
    pd.testing.assert_frame_equal(rows, exact, rtol=1e-15)
    assert Rationale(hard_share=0.2).over([reviews]).hard_share == 0.2


def test_batches_of_different_shares_are_not_mixed(sentiment, reviews):
    parts = [reviews.select(range(20)), reviews.select(range(20, 40))]
    rows = [Rationale().rows(sentiment, part, planted(part, "oracle")) for part in parts]
    with pytest.raises(ValueError, match="hard selections of 2 different shares"):
        Rationale().reduce(pd.concat(rows))


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
    ((document,),) = documents(batch, attribution_of(batch, [scores]), how="max", clamp=False, seed=0)
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


@pytest.mark.parametrize("marked", [[0, 1, 0, 1, 0], [1] * 5, [1, 0, 0, 0, 0]])
@pytest.mark.parametrize("scores", [[3.0, 5.0, 1.0, 4.0, 2.0], [2.0] * 5, [0.0, 1.0, 1.0, 0.0, -1.0]])
def test_words_that_are_not_rated_are_none_outside_the_rationale(sentiment, marked, scores):
    """With words behind it that nothing is asked of an example has the figures that it has without them."""
    text = "the film was great fine"
    short = replace(sentiment.encode([text]), rationale=(np.array(marked, bool),))
    marks = [np.array([*row, 0, 0, 0], bool) for row in (marked, [1] * 5)]
    long = replace(sentiment.encode([f"{text} a dull plot"]), rationale=(marks[0],), rated=(marks[1],))
    evaluation = Rationale(hard_share=0.5)
    alone = evaluation.rows(sentiment, short, attribution_of(short, [scores]))
    beside = evaluation.rows(sentiment, long, attribution_of(long, [[*scores, 9.0, 9.0, -3.0]]))
    of_spans = beside["metric"].str.contains("iou")  # equal scores: the orders that are drawn are others
    assert beside[~of_spans].equals(alone[~of_spans])
    precision = values_of(beside, "average_precision").get("0", math.nan)
    assert math.isnan(precision) == all(marked)


def test_a_constant_map_has_the_area_of_the_share_of_rated_words(sentiment):
    marks, rated = np.array([1, 0, 1, 0, 0, 0], bool), np.array([1, 1, 1, 1, 0, 0], bool)
    batch = replace(sentiment.encode(["the film was great a plot"]), rationale=(marks,), rated=(rated,))
    rows = Rationale().rows(sentiment, batch, attribution_of(batch, [[1.0] * 6]))
    assert list(values_of(rows, "auprc").values()) == [pytest.approx((1 + 0.5) / 2)]
    assert list(values_of(rows, "rationale_share").values()) == [0.5]


def test_a_mark_on_a_word_that_is_not_rated_does_not_count(sentiment):
    marks, rated = np.array([1, 0, 0, 0, 1], bool), np.array([1, 1, 1, 1, 0], bool)
    batch = replace(sentiment.encode(["the film was great plot"]), rationale=(marks,), rated=(rated,))
    rows = Rationale().rows(sentiment, batch, attribution_of(batch, [[5.0, 4.0, 3.0, 2.0, 1.0]]))
    assert list(values_of(rows, "average_precision").values()) == [1.0]
    assert list(values_of(rows, "token_gold").values()) == [1.0]


def test_clamp_and_pool_are_what_they_say(sentiment):
    batch = sentiment.encode(["untoldly bad film"], labels=[0])  # 3 + 1 + 1 tokens
    batch = replace(batch, rationale=(np.array([True, False, False]),))
    tokens = torch.zeros(batch.units.shape, dtype=torch.float64)
    tokens[0, 1:6] = torch.tensor([1.0, 1.0, 1.0, 2.0, -4.0])
    attribution = Attribution(target=torch.tensor([0]), tokens=tokens)
    scores = {
        how: documents(batch, attribution, how=how, clamp=False, seed=0)[0][0].scores.tolist()
        for how in ("max", "sum", "mean")
    }
    assert scores == {"max": [5, 6, 0], "sum": [7, 6, 0], "mean": [5, 6, 0]}
    assert documents(batch, attribution, how="max", clamp=True, seed=0)[0][0].scores.tolist() == [1, 2, 0]
    assert values_of(Rationale(top=(1,), pool="sum").rows(sentiment, batch, attribution), "token_f1", 1)["0"] == 1
    assert values_of(Rationale(top=(1,)).rows(sentiment, batch, attribution), "token_f1", 1)["0"] == 0


def test_one_word_and_tied_scores(sentiment):
    batch = sentiment.encode(["bad"], labels=[0])
    batch = replace(batch, rationale=(np.array([True]),))
    evaluation = Rationale()
    rows = evaluation.rows(sentiment, batch, attribution_of(batch, [[0.0]]))
    assert values_of(rows, "token_f1", 10)["0"] == 1
    assert values_of(rows, "auprc")["0"] == 1
    one_of_four = np.array([True, False, False, False])
    assert precision_recall_area(one_of_four, np.zeros(4)) == pytest.approx(0.625)
    assert average_precision(one_of_four, np.zeros(4)) == pytest.approx(np.mean([1, 1 / 2, 1 / 3, 1 / 4]))
    assert math.isnan(figure_of(evaluation.reduce(rows), "auprc").low)


def test_examples_that_are_not_annotated_get_no_row(sentiment, reviews):
    none = list(reviews.rationale)
    none[0], none[1] = None, np.zeros(len(reviews.words[1]), dtype=bool)
    partly = replace(reviews, rationale=tuple(none))
    rows = Rationale().rows(sentiment, partly, planted(reviews, "oracle"))
    assert set(rows["uid"]) == set(reviews.uids[1:])
    figures = Rationale().reduce(rows)
    assert figure_of(figures, "unmarked_documents").value == pytest.approx(1 / 39)
    assert figure_of(figures, "auprc").value == pytest.approx(38.5 / 39)  # as ERASER's scorer counts it
    assert figure_of(figures, "auprc_marked").value == 1
    assert figure_of(figures, "average_precision").value == 1
    zero = tuple(np.zeros(len(words), dtype=bool) for words in reviews.words)
    for nothing, said in (((None,) * len(reviews), "no example has a rationale"), (zero, "no rationale marks a word")):
        batch = replace(reviews, rationale=nothing)
        with pytest.raises(NotApplicable, match=said):
            Rationale().reduce(Rationale().rows(sentiment, batch, planted(reviews, "oracle")))


def test_no_example_is_annotated(sentiment, reviews):
    batch = replace(reviews, rationale=(None,) * len(reviews))
    with pytest.raises(NotApplicable, match="no example has a rationale"):
        Rationale().over([batch])


def annotated(batch, lengths, evidence):
    """The batch with documents of these lengths and these annotated spans."""
    gold = tuple(np.zeros(sum(each), dtype=bool) for each in lengths)
    for flags, each, documents_of in zip(gold, lengths, evidence, strict=True):
        for start, found in zip(np.cumsum([0, *each]).tolist(), documents_of, strict=False):
            for a, b in found:
                flags[start + a : start + b] = True
    meta = tuple({"document_lengths": each, "evidence_spans": s} for each, s in zip(lengths, evidence, strict=True))
    return replace(batch, meta=meta, rationale=gold)


def test_annotated_spans_are_those_of_the_annotation(sentiment):
    batch = sentiment.encode(["the film was great and it was a fine story"], labels=[1])
    scores = attribution_of(batch, [[5, 9, 8, 7, 6, 1, 1, 1, 1, 1]])  # the best four are words 1 to 4
    apart = annotated(batch, [(10,)], [[[(1, 3), (3, 5), (7, 7)]]])
    figures = Rationale(hard_share=0.4).reduce(Rationale(hard_share=0.4).rows(sentiment, apart, scores))
    # one predicted span, which overlaps either by a half; three annotated ones, one of them empty
    assert figure_of(figures, "iou_f1_micro").value == pytest.approx(2 * 1 / (1 + 3))
    assert figure_of(figures, "iou_f1").value == pytest.approx(2 * 1 * (1 / 3) / (1 + 1 / 3))
    assert figure_of(figures, "hard_token_f1").value == 1


def test_means_are_over_documents_and_not_over_examples(sentiment):
    texts = ["the film was great", "the film was dull and it was bad"]
    batch = annotated(sentiment.encode(texts, labels=[1, 0]), [(4,), (3, 5)], [[[(3, 4)]], [[(0, 1)], []]])
    evaluation = Rationale(top=(2,), hard_share=0.25)
    rows = evaluation.rows(sentiment, batch, attribution_of(batch, [[1, 2, 3, 4], [8, 7, 1, 2, 3, 4, 5, 6]]))
    figures = evaluation.reduce(rows)
    # documents: [1 of 1 found, with one word too many], [1 of 1, with one too many], [no rationale, none selected]
    assert figure_of(figures, "token_f1", 2).value == pytest.approx(2 / 3)
    assert figure_of(figures, "token_f1_mean").value == pytest.approx(2 / 3)
    assert figure_of(figures, "hard_token_f1").value == pytest.approx((1 + 2 / 3) / 2)
    assert figure_of(figures, "auprc").value == pytest.approx((1 + 1 + 0.5) / 3)
    assert figure_of(figures, "average_precision").value == 1
    assert figure_of(figures, "documents").value == 1.5
    assert figure_of(figures, "unmarked_documents").value == pytest.approx(1 / 3)
    assert values_of(rows, "auprc_sum") == {"0": 1.0, "1": 1.5}


def test_rows_by_example_and_rows_of_sums_are_not_mixed(sentiment, reviews):
    evaluation = Rationale(hard_share=0.2)
    one = evaluation.rows(sentiment, reviews, planted(reviews, "oracle"))
    two = annotated(
        replace(sentiment.encode(["the film was dull"], labels=[0]), uids=("x",)), [(2, 2)], [[[(0, 1)], []]]
    )
    rows = pd.concat([one, evaluation.rows(sentiment, two, attribution_of(two, [[1, 2, 3, 4]]))])
    with pytest.raises(ValueError, match="some rows are by example"):
        evaluation.reduce(rows)
    known, parts = evaluation.over([reviews, two]), []
    for batch, attribution in ((reviews, planted(reviews, "oracle")), (two, attribution_of(two, [[1, 2, 3, 4]]))):
        parts.append(known.rows(sentiment, batch, attribution))
    assert figure_of(evaluation.reduce(pd.concat(parts)), "documents").value == pytest.approx(42 / 41)


def test_lengths_of_documents_add_up_to_the_words(sentiment):
    batch = annotated(sentiment.encode(["the film was great"], labels=[1]), [(4,)], [[[(3, 4)]]])
    broken = replace(batch, meta=({"document_lengths": (2, 3)},))
    with pytest.raises(UserError, match=r"4 words outside the query and documents of \[2, 3\]"):
        Rationale().rows(sentiment, broken, attribution_of(batch, [[1, 2, 3, 4]]))


def test_order_and_composition_of_batches_change_nothing(sentiment, reviews):
    tied = attribution_of(reviews, [np.round(np.linspace(0, 1, len(words))) for words in reviews.words])
    evaluation = Rationale().over([reviews])
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


@pytest.mark.parametrize("settings", [{"top": []}, {"top": [0]}, {"hard_share": 2}, {"hard_shares": [0.2, 0.1]}])
def test_bad_settings_name_themselves(settings):
    with pytest.raises(UserError, match=f"^{next(iter(settings))}=.*: allowed are"):
        Rationale(**settings)


def test_methods_without_token_scores_are_not_applicable(sentiment, reviews):
    with pytest.raises(NotApplicable, match="no token scores"):
        Rationale().rows(sentiment, reviews, Attribution(target=reviews.label))


def test_a_rationale_of_another_length_is_a_bug(sentiment, reviews):
    broken = replace(reviews, rationale=(np.ones(3, dtype=bool), *reviews.rationale[1:]))
    with pytest.raises(ValueError, match="a rationale of 3"):
        Rationale().rows(sentiment, broken, planted(reviews, "oracle"))
