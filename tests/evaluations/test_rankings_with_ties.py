"""Laws of equal scores: no figure of words, patches or pixels hangs on their places, and saying nothing wins nothing."""

from itertools import permutations
from math import factorial

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmark.errors import NotApplicable
from benchmark.evaluations.head_pruning import pruning_masks
from benchmark.evaluations.localisation import pointing
from benchmark.evaluations.ranks import descending_ranks, tie_keys
from benchmark.evaluations.rationale.documents import average_precision, documents, precision_recall_area
from benchmark.evaluations.rationale.rationale import Rationale
from benchmark.evaluations.rationale.scores import at_share, by_words, scalars
from benchmark.evaluations.segmentation import average_precisions
from benchmark.types import Attribution, Batch

TOP = (1, 2, 3, 4)
TOKENS = ("token_hits", "token_selected", "token_documents", "token_precision", "token_recall", "token_f1")
WORDS = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6)


def batch_of(golds, visible=None, lengths=None, uids=None):
    """Words of one token each; those from `visible` on lie beyond the window."""
    widest = max(map(len, golds))
    sizes = [len(gold) if visible is None else min(visible, len(gold)) for gold in golds]
    units = torch.tensor([[u if u < size else -1 for u in range(widest)] for size in sizes])
    n = len(golds)
    return Batch(
        uids=uids or tuple(map(str, range(n))), tensors={}, units=units, n_units=torch.tensor([*map(len, golds)]),
        words=tuple(("w",) * len(gold) for gold in golds), label=torch.zeros(n, dtype=torch.long),
        rationale=tuple(np.array(gold, dtype=bool) for gold in golds), query_units=(0,) * n,
        meta=tuple({} if lengths is None else {"document_lengths": lengths} for _ in golds),
    )  # fmt: skip


def documents_of(scores, gold, visible=None, lengths=None, seed=0):
    batch = batch_of([gold], visible, lengths)
    tokens = torch.zeros(batch.units.shape, dtype=torch.float64)
    tokens[0] = torch.tensor(scores, dtype=torch.float64)
    return documents(batch, Attribution(batch.label, tokens), how="max", clamp=False, seed=seed)[0]


def orders_of(scores):
    """Scores without ties, one list for each order of the equal ones."""
    n = len(scores)
    found = {}
    for keys in permutations(range(n)):
        order = tuple(sorted(range(n), key=lambda i: (-scores[i], keys[i])))
        found[order] = [float(n - order.index(i)) for i in range(n)]
    return list(found.values())


def precision_of(gold, scores):
    """Mean precision at the rationale's words, word by word."""
    order = sorted(range(len(gold)), key=lambda i: -scores[i])
    hits = [sum(gold[i] for i in order[: place + 1]) / (place + 1) for place in range(len(order)) if gold[order[place]]]
    return sum(hits) / len(hits)


@settings(deadline=None)
@given(WORDS)
def test_average_precision_is_the_mean_over_all_orders_of_equal_scores(words):
    scores, gold = [score for score, _ in words], [flag for _, flag in words]
    assume(any(gold))
    expected = np.mean([precision_of(gold, order) for order in orders_of(scores)])
    assert average_precision(np.array(gold), np.array(scores, dtype=float)) == pytest.approx(expected, abs=1e-12)


def test_a_constant_map_has_the_average_precision_of_random_scores():
    """And no longer (1 + π)/2, as under the trapezoids, where it beats nearly every explainer."""
    generator = np.random.default_rng(0)
    gold = np.zeros(100, dtype=bool)
    gold[:29] = True
    drawn = [average_precision(gold, generator.random(100)) for _ in range(4000)]
    constant = average_precision(gold, np.zeros(100))
    assert constant == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 4000**0.5)
    assert constant < 0.33
    assert precision_recall_area(gold, np.zeros(100)) == pytest.approx((1 + 0.29) / 2)
    best = np.eye(100)[0]
    assert average_precision(gold, best) > constant > average_precision(gold, np.eye(100)[99])


@settings(deadline=None, max_examples=60)
@given(WORDS, st.integers(1, 6), st.integers(0, 3))
def test_figures_of_words_are_means_over_all_orders_also_of_several_documents(words, visible, cut):
    scores, gold = [float(score) for score, _ in words], [flag for _, flag in words]
    cut = min(cut, len(words))
    lengths = None if cut in (0, len(words)) else (cut, len(words) - cut)
    found = by_words(documents_of(scores, gold, visible, lengths), TOP)
    seen = scores[:visible]
    each = [
        by_words(documents_of(order + [0.0] * (len(scores) - len(seen)), gold, visible, lengths), TOP)
        for order in orders_of(seen)
    ]
    for name in TOKENS:
        # means over documents are sums over them, of as many as count
        weight = 1 if name in TOKENS[:3] else "token_documents"
        expected = np.mean([np.nan_to_num(one[name]) * (one[weight] if weight != 1 else 1) for one in each], axis=0)
        value = np.nan_to_num(found[name]) * (found[weight] if weight != 1 else 1)
        assert value == pytest.approx(expected, abs=1e-12), name


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=2, max_size=12), st.integers(0, 99))
def test_no_figure_hangs_on_how_ties_are_drawn_or_on_the_batch(words, seed):
    scores, gold = [float(score) for score, _ in words], [flag for _, flag in words]
    assume(any(gold))
    first, other = documents_of(scores, gold), documents_of(scores, gold, seed=seed)
    for one, two in zip((scalars(first), by_words(first, TOP)), (scalars(other), by_words(other, TOP)), strict=True):
        for name in one:
            assert np.asarray(one[name]) == pytest.approx(np.asarray(two[name]), nan_ok=True), name


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=15))
def test_the_oracle_is_the_most_that_agreement_in_words_can_be(words):
    scores, gold = [float(score) for score, _ in words], [flag for _, flag in words]
    assume(any(gold))
    oracle, any_other = (documents_of(given, gold) for given in ([float(flag) for flag in gold], scores))
    best, other = scalars(oracle), scalars(any_other)
    assert best["auprc"] >= other["auprc"] - 1e-12
    assert np.nan_to_num(best["average_precision"]) >= np.nan_to_num(other["average_precision"]) - 1e-12
    for name in ("token_f1", "token_precision", "token_recall", "token_hits"):
        assert (by_words(oracle, TOP)[name] >= by_words(any_other, TOP)[name] - 1e-12).all()
    share = sum(gold) / len(gold)
    exact = at_share(oracle, share)
    assert exact["hard_token_f1"] == exact["hard_iou_precision"] == exact["hard_iou_recall"] == 1, "at its own length"


def columns(scored):
    rows = Rationale(top=TOP, hard_share=0.3, hard_shares=(0.1, 0.3, 0.6), even=True).rows(None, *scored)
    return {
        (str(m), str(x)): (part.mean(), part.std())
        for (m, x), part in rows.groupby(["metric", "x"], dropna=False)["value"]
    }


@pytest.mark.thorough
def test_a_constant_map_gets_in_every_column_what_random_scores_get():
    """But in the trapezoids of ERASER's scorer, which are said to give it more."""
    generator = np.random.default_rng(1)
    gold = np.zeros(20, dtype=bool)
    gold[[3, 4, 5, 6, 11, 12]] = True
    n = 1500
    batch = batch_of([gold] * n, visible=17)
    drawn = Attribution(batch.label, torch.as_tensor(generator.random((n, 20))))
    constant = Attribution(batch.label, torch.zeros(n, 20))
    said, chance = columns((batch, constant)), columns((batch, drawn))
    assert said.keys() == chance.keys()
    for key, (value, _) in said.items():
        mean, deviation = chance[key]
        if key[0].startswith("auprc"):
            assert value > mean + 0.1
        else:
            assert value == pytest.approx(mean, abs=5 * deviation / n**0.5 + 1e-12), key


def test_spans_of_a_constant_map_are_those_of_random_scores_and_the_oracle_has_its_runs_at_its_length():
    gold = [False] * 5 + [True] * 5 + [False] * 10
    oracle = documents_of([float(flag) for flag in gold], gold)
    assert at_share(oracle, 0.25)["hard_iou_recall"] == 1
    shorter = at_share(oracle, 0.1)  # two of the five words are drawn: side by side in two pairs of five
    assert shorter["hard_iou_matched"] == 0, "two of five words overlap by less than a half"
    selected = [
        at_share(documents_of([float(f) for f in gold], gold, seed=s), 0.1)["hard_iou_selected"] for s in range(40)
    ]
    assert np.mean(selected) == pytest.approx(2 - 4 / 10, abs=0.03), (
        "of ten pairs four are neighbours, and are one span"
    )


def test_pixels_of_equal_score_have_no_order():
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[0, :2, :2] = True
    generator = np.random.default_rng(2)
    binary = torch.zeros(1, 4, 4, dtype=torch.float64)
    binary[0, 1, 1:3] = 1.0
    shuffled = []
    for _ in range(3000):
        noise = torch.as_tensor(generator.random((1, 2, 4, 4))) * 1e-9
        channels = torch.stack([1 - binary, binary], dim=1) + noise
        truth = torch.stack([~mask, mask], dim=1)
        shuffled.append(precision_of(truth.flatten().tolist(), channels.flatten().tolist()))
    expected = np.mean(shuffled)
    assert average_precisions(binary, mask)[0] == pytest.approx(expected, abs=4 * np.std(shuffled) / 3000**0.5)
    assert pointing(binary, mask).tolist() == [0.5]


def test_a_score_that_is_nan_has_no_rank():
    """It came first in a ranking and last under the curve of precision and recall."""
    scores = torch.tensor([[1.0, torch.nan, 0.0]])
    everything = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(NotApplicable, match="a score is NaN"):
        descending_ranks(scores, everything, tie_keys(["a"], 3, 0))
    gold, values = np.array([True, False, True]), np.array([1.0, np.nan, 0.0])
    for area in (average_precision, precision_recall_area):
        with pytest.raises(NotApplicable, match="a score is NaN"):
            area(gold, values)
    with pytest.raises(NotApplicable, match="a score is NaN"):
        documents_of(values.tolist(), gold.tolist())
    seen = torch.tensor([[True, False, True]])
    assert descending_ranks(scores, seen, tie_keys(["a"], 3, 0)).tolist() == [[0, 3, 1]], "of no unit it is nothing"


def test_tied_heads_have_one_order_for_one_importance_and_one_for_each_example_of_their_own():
    tied = torch.zeros(factorial(4), 2, 6)
    one = pruning_masks(tied, [0.5])[0]
    assert all(mask.equal(one[0]) for mask in one)
    uids = [f"example {b}" for b in range(len(tied))]
    own = pruning_masks(tied, [0.5], uids=uids)[0]
    assert len({tuple(mask.flatten().tolist()) for mask in own}) > 15
    again = pruning_masks(tied[:3], [0.5], uids=uids[5:8])[0]
    assert again.equal(own[5:8])
    layers = pruning_masks(tied, [0.5], uids=uids, scope="layer")[0]
    assert (layers.sum(-1) == 3).all()
