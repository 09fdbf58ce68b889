"""Sets of words: figures equal slow loops, and are known where the scores are the drops themselves."""

import numpy as np
import pytest
import torch
from scipy import stats

from benchmark.evaluations.subset_faithfulness import SubsetFaithfulness, Subsets, infidelity, pearson
from tests.evaluations.conftest import attribution_of, figure_of, planted, spelled_probability, values_of


def test_sets_have_their_sizes_and_belong_to_the_example():
    sets = Subsets.of(21, 0.2, 50, 20, 0, "a")
    assert np.array_equal(sets.single, np.eye(21, dtype=bool))
    assert set(sets.of_share.sum(1)) == {5}  # ⌈.2 · 21⌉
    assert [set(own.sum(1)) for own in sets.by_size] == [{2}, {4}, {8}]
    assert np.array_equal(sets.all, Subsets.of(21, 0.2, 50, 20, 0, "a").all)
    assert not np.array_equal(sets.all, Subsets.of(21, 0.2, 50, 20, 0, "b").all)
    single, of_share, by_size = sets.apart(np.arange(len(sets.all), dtype=float))
    assert (len(single), len(of_share), [len(own) for own in by_size]) == (21, 50, [20, 20, 20])
    assert [len(own) for own in Subsets.of(3, 0.2, 5, 5, 0, "a").by_size] == []


def test_figures_equal_a_loop(tiny, batch):
    """Sets are drawn anew by the documented generator; drops come from texts without the words."""
    draw = np.random.default_rng(0)
    scores = [draw.normal(size=len(words)) for words in batch.words]
    evaluation = SubsetFaithfulness(operator="delete", subsets=6, of_each_size=3)
    rows = evaluation.rows(tiny, batch, attribution_of(batch, scores, [1] * 5))
    for b, uid in enumerate(batch.uids):
        words, n = list(batch.words[b]), len(batch.words[b])
        if n < 2:
            continue
        sets = Subsets.of(n, 0.2, 6, 3, 0, uid)

        def drop(gone, words=words):
            text = " ".join(word for word, lost in zip(words, gone, strict=True) if not lost)
            return spelled_probability(tiny, " ".join(words), 1) - spelled_probability(tiny, text, 1)

        share = np.array([drop(own) for own in sets.of_share])
        sums = np.array([scores[b][own].sum() for own in sets.of_share])
        single = np.array([drop(own) for own in sets.single])
        parts = [np.corrcoef(scores[b], single)[0, 1]]
        for own in sets.by_size:
            drops = [drop(one) for one in own]
            parts.append(np.corrcoef([scores[b][one].sum() for one in own], drops)[0, 1])
        alpha = np.linalg.lstsq(sums[:, None], share, rcond=None)[0][0]
        alpha = max(0.0, alpha)
        expected = {
            "faithfulness_correlation": np.corrcoef(sums, share)[0, 1] if np.ptp(share) > 1e-9 else np.nan,
            "infidelity": np.mean((alpha * sums - share) ** 2) / share.var() if np.ptp(share) > 1e-9 else np.nan,
            "monotonicity": stats.spearmanr(scores[b], single).statistic,
            "sensitivity_n": np.nanmean(parts),
        }
        for name, value in expected.items():
            if np.isfinite(value):
                assert values_of(rows, name)[uid] == pytest.approx(value, abs=1e-6), name


def test_scores_that_are_the_drops_of_an_additive_model_are_perfect():
    """Where a removal changes the sum of what its words change alone, these are the best scores, whatever their unit."""
    draw = np.random.default_rng(1)
    effects, sets = draw.normal(size=12), draw.random((40, 12)) < 0.3
    sums = sets @ effects
    assert pearson(sums, 3 * sums) == pytest.approx(1)
    assert infidelity(sums, 3 * sums) == pytest.approx(0)
    assert infidelity(7 * sums, 3 * sums) == pytest.approx(0)
    assert infidelity(np.zeros(40), sums) == pytest.approx(1 + sums.mean() ** 2 / sums.var())
    assert np.isnan(infidelity(sums, np.ones(40)))
    assert infidelity(-sums, sums) == infidelity(
        np.zeros(40), sums
    )  # the opposite of what is right is as bad as nothing
    assert pearson(1e-14 * sums, sums) == pytest.approx(1)
    assert np.isnan(pearson(np.full(40, 1e6 + 0.3), sums))
    assert np.isnan(pearson(np.ones(4), np.arange(4.0)))


def test_planted_truth_is_ranked(sentiment, reviews):
    evaluation = SubsetFaithfulness()
    figures = {
        kind: evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, kind)))
        for kind in ("oracle", "random", "inverted")
    }
    found = [figure_of(figures[kind], "faithfulness_correlation") for kind in ("oracle", "random", "inverted")]
    assert found[0].low > found[1].high
    assert found[1].low > found[2].high
    assert figure_of(figures["oracle"], "infidelity").high < figure_of(figures["random"], "infidelity").low


def test_methods_share_the_passes(tiny, batch):
    evaluation, before = SubsetFaithfulness(subsets=5, of_each_size=2), tiny.cost.forward_passes
    first = evaluation.rows(tiny, batch, attribution_of(batch, [range(len(w)) for w in batch.words]))
    once = tiny.cost.forward_passes - before
    again = evaluation.rows(tiny, batch, attribution_of(batch, [[-i for i in range(len(w))] for w in batch.words]))
    assert once > 0
    assert tiny.cost.forward_passes - before == once
    one, two = (values_of(rows, "monotonicity") for rows in (first, again))
    assert one == {uid: pytest.approx(-value) for uid, value in two.items()}


def test_constant_scores_are_counted(tiny, batch):
    rows = SubsetFaithfulness(subsets=5, of_each_size=2).rows(
        tiny, batch, attribution_of(batch, [[1.0] * len(w) for w in batch.words])
    )
    several = [uid for uid, words in zip(batch.uids, batch.words, strict=True) if len(words) > 1]
    assert values_of(rows, "undefined") == dict.fromkeys(several, 1.0)
    assert not (rows["metric"] == "faithfulness_correlation").any()


def test_a_batch_changes_nothing(tiny, batch):
    scores = [np.random.default_rng(b).normal(size=len(w)) for b, w in enumerate(batch.words)]
    whole = SubsetFaithfulness().rows(tiny, batch, attribution_of(batch, scores))
    for b in (0, 3):
        alone = SubsetFaithfulness().rows(tiny, batch.select([b]), attribution_of(batch, scores).select([b]))
        for name in ("faithfulness_correlation", "infidelity", "sensitivity_n"):
            assert values_of(alone, name)[batch.uids[b]] == pytest.approx(
                values_of(whole, name)[batch.uids[b]], abs=1e-6
            )
    assert torch.is_grad_enabled()


def test_other_inputs_of_one_name_are_other_inputs(tiny):
    """Batches of the Python interface call their texts 0, 1, ...: drops of an earlier text are not those of a later."""
    evaluation, given = SubsetFaithfulness(subsets=8, of_each_size=4), np.arange(6.0)
    texts = ("the film was great it was", "a dull plot seen it awful")
    one, two = (tiny.encode([text]) for text in texts)
    evaluation.rows(tiny, one, attribution_of(one, [given], [1]))
    again = evaluation.rows(tiny, two, attribution_of(two, [given], [1]))
    fresh = SubsetFaithfulness(subsets=8, of_each_size=4).rows(tiny, two, attribution_of(two, [given], [1]))
    assert again["value"].tolist() == fresh["value"].tolist()


def test_a_sparse_explanation_has_a_figure_where_some_size_has_one(tiny, batch):
    scores = [np.eye(len(words))[0] for words in batch.words]
    rows = SubsetFaithfulness(of_each_size=3).rows(tiny, batch, attribution_of(batch, scores, [1] * 5))
    assert {batch.uids[b] for b, words in enumerate(batch.words) if len(words) > 1} == set(
        values_of(rows, "sensitivity_n")
    )


def test_equal_texts_of_other_names_have_sets_of_their_own(tiny):
    """The name seeds the sets: drops of one are not those of the other, though the input is the same."""
    evaluation, given = SubsetFaithfulness(subsets=8, of_each_size=4), np.arange(6.0)
    both = tiny.encode(["the film was great it was"] * 2)
    whole = evaluation.rows(tiny, both, attribution_of(both, [given, given], [1, 1]))
    second = both.select([1])
    alone = SubsetFaithfulness(subsets=8, of_each_size=4).rows(tiny, second, attribution_of(second, [given], [1]))
    for name in ("faithfulness_correlation", "infidelity"):
        assert values_of(whole, name)["1"] == pytest.approx(values_of(alone, name)["1"], abs=1e-6)
    assert values_of(whole, "infidelity")["0"] != pytest.approx(values_of(whole, "infidelity")["1"], abs=1e-6)
