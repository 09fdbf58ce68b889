"""What is asked of tests equals slow transcriptions, on a few units by hand, and scipy's and published forms."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import stats

from benchmark.analyses.trust import questions
from benchmark.results.statistics import ALPHA


def figures(seed, n=40, skills=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0), noise=1.0):
    draw = np.random.default_rng(seed)
    return np.asarray(skills) + noise * draw.normal(size=(n, len(skills)))


def test_separation_by_hand():
    better, worse = np.array([1.0, 0.5, 0.2, np.nan]), np.array([0.0, 0.5, 0.9, 0.0])
    found = questions.separation(better, worse)
    assert (found.value, found.n) == (pytest.approx((1 + 0.5 + 0) / 3), 3)
    assert questions.separation(worse, better).value == pytest.approx(1 - found.value)


def test_layout_is_an_analysis_of_variance():
    """Mean squares by hand, and with an F statistic: F = n σ²_m / σ²_e + 1 of the estimates."""
    values = figures(3, n=25) + np.random.default_rng(4).normal(size=(25, 1)) * 5  # examples differ in difficulty
    found = questions.layout(values)
    n, m = values.shape
    residual = [
        values[i, j] - values[i].mean() - values[:, j].mean() + values.mean() for i in range(n) for j in range(m)
    ]
    errors = sum(r * r for r in residual) / ((n - 1) * (m - 1))
    between = n * sum((values[:, j].mean() - values.mean()) ** 2 for j in range(m)) / (m - 1)
    assert found.of_errors == pytest.approx(errors)
    assert found.of_methods == pytest.approx((between - errors) / n)
    assert found.reliability == pytest.approx(1 - errors / between)
    needed = found.examples_for_reliable
    assert found.of_methods / (found.of_methods + found.of_errors / needed) == pytest.approx(0.9)
    assert questions.layout(values * 7 - 3).reliability == pytest.approx(found.reliability)


def test_methods_that_do_not_differ_need_endless_examples():
    same = np.random.default_rng(0).normal(size=(30, 1)) + np.zeros((1, 6))
    found = questions.layout(same)
    assert (found.of_methods, found.examples_for_reliable) == (0.0, np.inf)
    assert np.isnan(found.reliability)
    assert questions.examples_needed(same[:, 0], same[:, 1], 1) == np.inf


def test_examples_needed_give_the_power_that_they_promise():
    """Simulated: a two-sided z test of the paired difference at the corrected level rejects in eight of ten samples."""
    draw, shift, comparisons = np.random.default_rng(1), 0.3, 15
    sample = draw.normal(shift, 1, 4000)
    n = int(questions.examples_needed(sample, np.zeros(4000), comparisons))
    trials = draw.normal(sample.mean(), sample.std(ddof=1), (4000, n))
    z = trials.mean(1) / (sample.std(ddof=1) / np.sqrt(n))
    assert np.mean(z > stats.norm.ppf(1 - ALPHA / comparisons / 2)) == pytest.approx(0.8, abs=0.02)


def test_examples_to_rank_look_at_neighbours():
    values = figures(5, n=60)
    order = list(np.argsort(-values.mean(0)))
    needed = [questions.examples_needed(values[:, a], values[:, b], 15) for a, b in pairwise(order)]
    assert questions.examples_to_rank(values) == (needed[0], pytest.approx(np.median(needed)))


def test_halves_equal_a_transcription():
    """20 halvings, Spearman by scipy, Spearman and Brown's formula; and 1 where methods never change places."""
    values = figures(6, n=30)
    found = questions.halves(values, seed=3, name="x")
    draw = questions.generator(3, "reliability", "x")
    halvings = [draw.permutation(30) for _ in range(20)]
    r = np.mean([stats.spearmanr(values[h[:15]].mean(0), values[h[15:]].mean(0)).statistic for h in halvings])
    assert found.value == pytest.approx(2 * r / (1 + r))
    assert questions.halves(figures(6, noise=1e-6), 3, "x").value == pytest.approx(1)


def test_order_agreement_is_kendalls_tau_of_means():
    first, second = figures(7), figures(8)
    found = questions.order_agreement(first, second, 0, "pair")
    assert found.value == pytest.approx(stats.kendalltau(first.mean(0), second.mean(0)).statistic)
    assert found.low <= found.value <= found.high
    same = questions.order_agreement(first, first, 0, "pair")
    assert same.value == pytest.approx(1)
    tied = np.round(first, 0).mean(0, keepdims=True) + np.zeros_like(first)
    tied[:, 1] = tied[:, 0]
    expected = stats.kendalltau(tied.mean(0), second.mean(0)).statistic
    assert questions.order_agreement(tied, second, 0, "pair").value == pytest.approx(expected)


def test_concordance_equals_a_loop():
    draw = np.random.default_rng(9)
    test, truth = draw.integers(0, 3, (12, 5)).astype(float), draw.integers(0, 3, (12, 5)).astype(float)
    truth[0] = 1.0  # says nothing of any pair
    shares = []
    for own, true in zip(test, truth, strict=True):
        pairs = [
            0.5 if own[a] == own[b] else float((own[a] - own[b]) * (true[a] - true[b]) > 0)
            for a, b in combinations(range(5), 2)
            if true[a] != true[b]
        ]
        shares += [np.mean(pairs)] if pairs else []
    found = questions.concordance(test, truth)
    assert (found.value, found.n) == (pytest.approx(np.mean(shares)), 11)
    assert questions.concordance(truth, truth).value == 1
    assert questions.concordance(-truth, truth).value == 0
    assert questions.ties(test).value == pytest.approx(
        np.mean([np.mean([row[a] == row[b] for a, b in combinations(range(5), 2)]) for row in test])
    )


def test_the_tree_puts_together_what_orders_alike():
    """Two tests that measure one thing and two that measure its reverse: two groups, which are joined last."""
    base = figures(10, n=50, noise=0.3)
    others = [base + 0.2 * figures(seed, n=50, skills=(0,) * 6) for seed in (11, 12)]
    joins = questions.joins([base, others[0], -base, -others[1]], seed=0)
    assert [set(join.members) for join in joins[:2]] in ([{0, 1}, {2, 3}], [{2, 3}, {0, 1}])
    assert joins[-1].members == (0, 1, 2, 3)
    assert joins[-1].support == 1
    between = [stats.kendalltau(a.mean(0), b.mean(0)).statistic for a in (base, others[0]) for b in (-base, -others[1])]
    assert joins[-1].tau.value == pytest.approx(np.mean(between))
    assert all(0.8 < join.support <= 1 for join in joins)


def test_a_test_that_orders_nothing_has_no_tree():
    assert questions.joins([figures(1), np.ones((40, 6))], seed=0) == []
