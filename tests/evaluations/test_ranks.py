import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from benchmark.evaluations.ranks import best, best_share, constant, descending_ranks, kendall, tau_b, tie_keys, worst

SCORES = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


def ranks_of(scores, eligible=None, uid="a", seed=0):
    row = torch.tensor([scores], dtype=torch.float64)
    mask = torch.ones_like(row, dtype=torch.bool) if eligible is None else torch.tensor([eligible])
    return descending_ranks(row, mask, tie_keys([uid], row.shape[1], seed))[0].tolist()


@given(SCORES, st.data())
def test_ranks_equal_the_slow_ones(scores, data):
    eligible = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    keys = tie_keys(["a"], len(scores), 0)[0].tolist()
    order = sorted((i for i in range(len(scores)) if eligible[i]), key=lambda i: (-scores[i], keys[i]))
    expected = [order.index(i) if eligible[i] else len(scores) for i in range(len(scores))]
    assert ranks_of(scores, eligible) == expected


def test_ties_depend_on_the_example_and_the_seed_alone():
    uids = [f"review-{k}" for k in range(30)]
    scores, eligible = torch.zeros(30, 8), torch.ones(30, 8, dtype=torch.bool)
    together = descending_ranks(scores, eligible, tie_keys(uids, 8, 0))
    shuffled = list(reversed(uids))
    again = descending_ranks(scores, eligible, tie_keys(shuffled, 8, 0)).flip(0)
    assert together.equal(again)
    assert not together.equal(descending_ranks(scores, eligible, tie_keys(uids, 8, 1)))
    first = (together == 0).float().argmax(1)
    assert len(set(first.tolist())) >= 6  # no position is preferred


def test_the_best_share_is_rounded_up_and_breaks_ties_alike_for_all_scores():
    scores = torch.tensor([[[3.0, 1, 2, 0, 0, 9], [1] * 6], [[0] * 6, [0, 0, 0, 5, 5, 5]]])
    eligible = torch.tensor([[True] * 5 + [False], [True] * 6])
    found = best_share(scores, eligible, 0.3, ["a", "b"], 0)  # 1.5 of five units, 1.8 of six
    assert found.sum(-1).tolist() == [[2, 2], [2, 2]]
    assert found[0, 0].tolist() == [True, False, True, False, False, False]
    assert not (found & ~eligible).any()
    tied = best_share(torch.zeros(2, 1, 6), eligible[:1], 0.3, ["a"], 0)
    assert tied[0].equal(tied[1])
    assert tied[0].equal(found[1, :1])
    assert best_share(scores[:, :1], eligible[:1], 0.4, ["a"], 0).sum() == 4, "exactly two of five stay two"


def test_padding_to_more_columns_keeps_the_order_of_ties():
    short = ranks_of([0] * 5)
    long = ranks_of([0] * 9, [True] * 5 + [False] * 4)
    assert long[:5] == short


def test_minus_infinity_comes_before_what_is_not_eligible():
    assert ranks_of([float("-inf"), 1.0, 2.0], [True, False, True]) == [1, 3, 0]


@given(SCORES, st.integers(0, 14))
def test_best_and_worst_partition(scores, count):
    rank = torch.tensor([ranks_of(scores)])
    n = len(scores)
    top = best(rank, torch.tensor([[count]]))[0, 0]
    rest = worst(rank, torch.tensor([[max(0, n - count)]]))[0, 0]
    assert top.sum() == min(count, n)
    assert (top ^ rest).all()
    chosen = torch.tensor(scores)
    if 0 < count < n:
        assert chosen[top].min() >= chosen[rest].max()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=25))
def test_tau_b_equals_scipy(pairs):
    a, b = np.array(pairs, dtype=float).T
    expected = kendalltau(a, b).statistic
    assert tau_b(a[None], b)[0] == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert kendall(a, b).tau == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert kendall(a, b).undefined == bool(np.isnan(expected))


def test_tau_of_many_rows_and_of_undefined_ones():
    rows = np.array([[1.0, 2, 3], [3, 2, 1], [5, 5, 5], [np.nan, 1, 2]])
    assert tau_b(rows, np.array([1.0, 2, 3]))[:2].tolist() == [1, -1]
    assert np.isnan(tau_b(rows, np.array([1.0, 2, 3]))[2:]).all()
    assert constant(rows).tolist() == [False, False, True, False]
    assert constant(np.zeros((2, 1))).all()
    assert kendall(np.array([]), np.array([])).undefined
    poisoned = kendall(rows[3], np.array([1.0, 2, 3]))
    assert np.isnan(poisoned.tau)
    assert not poisoned.undefined
    assert kendall(rows[0], np.arange(3.0)).p == pytest.approx(1 / 3)
