import itertools
import math
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.normalised_aopc import (
    AopcBounds,
    NormalisedAopc,
    beam_bounds,
    exact_bounds,
    prefixes,
    recalled,
)
from benchmark.types import Attribution
from tests.evaluations.conftest import attribution_of, figure_of, spelled_probability, values_of


def every_aopc(drops, n):
    """The AOPC of every order of removal, one by one."""
    return {order: float(drops(prefixes(np.array(order))).mean()) for order in itertools.permutations(range(n))}


def random_drops(n, seed):
    drop = np.random.default_rng(seed).normal(size=2**n)
    drop[0] = 0
    return drop


def slow_drops(model, words, target):
    """p(x) − p(x without S) of every set S of words: one text, one forward pass each."""

    def probability(gone):
        masks = [" ".join(["[MASK]"] * len(model.tokenizer.tokenize(word))) for word in words]
        text = " ".join(masks[u] if u in gone else word for u, word in enumerate(words))
        return spelled_probability(model, text, target)

    sets = [frozenset(s) for k in range(len(words) + 1) for s in itertools.combinations(range(len(words)), k)]
    return {gone: probability(frozenset()) - probability(gone) for gone in sets}


def slow_aopc(drops, order):
    return sum(drops[frozenset(order[: k + 1])] for k in range(len(order))) / len(order)


def test_a_prefix_holds_the_first_units_of_the_order():
    assert prefixes(np.array([2, 0, 1])).tolist() == [[False, False, True], [True, False, True], [True, True, True]]


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(0, 999))
def test_exact_bounds_equal_those_over_all_permutations(n, seed):
    drop = random_drops(n, seed)
    every = every_aopc(recalled(drop), n).values()
    bounds = exact_bounds(drop)
    assert (bounds.low, bounds.high) == pytest.approx((min(every), max(every)), abs=1e-12)


@settings(max_examples=20)
@given(st.integers(1, 7), st.integers(0, 999), st.integers(1, 6))
def test_a_beam_finds_orders_that_exist_within_the_exact_bounds(n, seed, width):
    drop = random_drops(n, seed)
    exact, found = exact_bounds(drop), beam_bounds(recalled(drop), n, width)
    assert exact.low - 1e-12 <= found.low <= found.high <= exact.high + 1e-12
    if n <= 6:
        every = np.array(list(every_aopc(recalled(drop), n).values()))
        assert np.abs(every - found.high).min() < 1e-12
        assert np.abs(every - found.low).min() < 1e-12


def test_a_beam_as_wide_as_the_orders_is_exact():
    drop = random_drops(5, 0)
    exact, found = exact_bounds(drop), beam_bounds(recalled(drop), 5, 120)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-12)
    narrow = [beam_bounds(recalled(random_drops(7, seed)), 7, 1) for seed in range(20)]
    assert any(b.high < exact_bounds(random_drops(7, seed)).high - 1e-6 for seed, b in enumerate(narrow))


@pytest.mark.parametrize(("aopc", "share"), [(0.2, 0.0), (0.3, 0.25), (0.6, 1.0), (0.8, 1.5), (0.1, -0.25)])
def test_shares_may_leave_bounds_that_were_only_searched(aopc, share):
    """A beam may miss the best order: what is better than its best says so, and is not cut to it."""
    assert AopcBounds(0.2, 0.6, exact=False).normalised(aopc) == pytest.approx(share)
    assert AopcBounds(0.2, 0.6, exact=True).normalised(aopc) == pytest.approx(min(max(share, 0), 1))


@pytest.fixture(scope="module")
def short(tiny):
    """Four and five words, some of several tokens; one word; and nine words, which is too many for all subsets."""
    texts = ("a lovely untold story", "the plot was bad dull", "bad", "the film was great it was a lovely story")
    return tiny.encode(texts, labels=[0, 1, 2, 0])


def scores(batch, seed=0):
    return [np.random.default_rng(seed + b).normal(size=len(words)) for b, words in enumerate(batch.words)]


def test_values_equal_the_replica_over_all_orders(tiny, short):
    given_scores, target = scores(short), [1, 2, 0, 0]
    rows = NormalisedAopc().rows(tiny, short, attribution_of(short, given_scores, target))
    for b in (0, 1):
        drops, n = slow_drops(tiny, list(short.words[b]), target[b]), len(short.words[b])
        every = [slow_aopc(drops, order) for order in itertools.permutations(range(n))]
        order = sorted(range(n), key=lambda u, b=b: -given_scores[b][u])
        low, high = min(every), max(every)
        for name, aopc in (
            ("comprehensiveness", slow_aopc(drops, order)),
            ("sufficiency", slow_aopc(drops, order[::-1])),
        ):
            assert values_of(rows, f"{name}_every_step")[str(b)] == pytest.approx(aopc, abs=1e-9)
            expected = (aopc - low) / (high - low)
            assert values_of(rows, f"normalised_{name}")[str(b)] == pytest.approx(expected, abs=1e-6)
        assert values_of(rows, "lowest_aopc")[str(b)] == pytest.approx(low, abs=1e-9)
        assert values_of(rows, "highest_aopc")[str(b)] == pytest.approx(high, abs=1e-9)


def test_the_best_order_has_1_and_the_worst_0(tiny, short):
    drops = slow_drops(tiny, list(short.words[1]), 1)
    every = sorted(itertools.permutations(range(5)), key=lambda order: slow_aopc(drops, order))
    example = short.select([1])
    for order, expected in ((every[-1], 1.0), (every[0], 0.0)):
        score = [-float(order.index(u)) for u in range(5)]
        evaluation = NormalisedAopc()
        rows = evaluation.rows(tiny, example, attribution_of(example, [score], [1]))
        assert values_of(rows, "normalised_comprehensiveness")["1"] == pytest.approx(expected, abs=1e-9)
        assert evaluation.metrics["normalised_comprehensiveness"].higher_is_better
        # sufficiency removes in the reverse order: the order that is worst to remove has its best units last
        reverse = evaluation.rows(tiny, example, attribution_of(example, [[-s for s in score]], [1]))
        assert values_of(reverse, "normalised_sufficiency")["1"] == pytest.approx(expected, abs=1e-9)


def test_what_has_no_value_is_counted(tiny, short):
    rows = NormalisedAopc().rows(tiny, short, attribution_of(short, scores(short)))
    assert set(values_of(rows, "normalised_sufficiency")) == {"0", "1", "3"}
    assert values_of(rows, "left_out") == {"0": 0, "1": 0, "2": 1, "3": 0}
    assert values_of(rows, "exhaustive") == {"0": 1, "1": 1, "3": 0}
    only = NormalisedAopc(beam=None)
    rows = only.rows(tiny, short, attribution_of(short, scores(short)))
    assert values_of(rows, "left_out") == {"0": 0, "1": 0, "2": 1, "3": 1}
    assert only.metrics["normalised_sufficiency"].bounds == (0, 1)
    assert NormalisedAopc().metrics["normalised_sufficiency"].bounds == (-math.inf, math.inf)
    assert values_of(NormalisedAopc(units=4).rows(tiny, short, attribution_of(short, scores(short))), "left_out") == {
        "0": 0, "1": 1, "2": 1, "3": 1,
    }  # fmt: skip


def test_an_input_on_which_no_order_makes_a_difference_has_no_value(tiny, short):
    masked = {
        **short.tensors,
        "input_ids": short.tensors["input_ids"].masked_fill(short.units >= 0, tiny.mask_token_id),
    }
    rows = NormalisedAopc().rows(tiny, replace(short, tensors=masked), attribution_of(short, scores(short)))
    assert values_of(rows, "left_out") == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert set(rows["metric"]) == {"left_out"}


def test_the_beam_of_the_evaluation_lies_within_all_subsets(tiny, short):
    example, given_scores = short.select([3]), scores(short)[3:]
    exact = NormalisedAopc(exhaustive=9).rows(tiny, example, attribution_of(example, given_scores))
    found = NormalisedAopc().rows(tiny, example, attribution_of(example, given_scores))
    for metric in ("comprehensiveness_every_step", "sufficiency_every_step"):
        assert values_of(found, metric)["3"] == pytest.approx(values_of(exact, metric)["3"], abs=1e-12)
    assert values_of(exact, "exhaustive") == {"3": 1}
    assert values_of(exact, "lowest_aopc")["3"] <= values_of(found, "lowest_aopc")["3"] + 1e-12
    assert values_of(found, "highest_aopc")["3"] <= values_of(exact, "highest_aopc")["3"] + 1e-12
    assert values_of(found, "highest_aopc")["3"] > values_of(found, "lowest_aopc")["3"]


def test_bounds_are_run_once_for_all_methods_and_are_no_setting(tiny, short):
    example, evaluation = short.select([1, 3]), NormalisedAopc()
    before = asdict(evaluation)
    first = evaluation.rows(tiny, example, attribution_of(example, scores(short)[1::2]))
    spent = tiny.cost.forward_passes
    second = evaluation.rows(tiny, example, attribution_of(example, scores(short, seed=7)[1::2]))
    # of nine units the whole input and two orders, whose last sets are one; nothing for five units
    assert tiny.cost.forward_passes - spent == 1 + 2 * 9 - 1
    assert values_of(first, "highest_aopc") == values_of(second, "highest_aopc")
    assert asdict(evaluation) == before
    other = evaluation.rows(tiny, example, attribution_of(example, scores(short)[1::2], [2, 2]))
    assert values_of(other, "highest_aopc") != values_of(first, "highest_aopc")  # another class has other bounds


def test_order_and_composition_of_batches_change_nothing(tiny, short):
    attribution = attribution_of(short, [np.zeros(len(words)) for words in short.words], [1] * 4)
    whole = NormalisedAopc().rows(replace(tiny, max_tokens=50), short, attribution)
    parts = [
        NormalisedAopc().rows(
            tiny, short.select(rows), Attribution(target=attribution.target[rows], tokens=attribution.tokens[rows])
        )
        for rows in ([3, 1], [0, 2])
    ]
    a, b = (f.sort_values(["uid", "metric"]).reset_index(drop=True) for f in (whole, pd.concat(parts)))
    pd.testing.assert_frame_equal(a, b, atol=1e-9)


def test_query_units_stay(tiny):
    pair = replace(tiny.encode([("was it good", "the film was dull")]), query_units=(3,))
    rows = NormalisedAopc().rows(tiny, pair, attribution_of(pair, [[9, 9, 9, 4, 3, 2, 1]], [0]))
    kept = [("was it good", f"{'[MASK] ' * k}{' '.join(['the', 'film', 'was', 'dull'][k:])}") for k in range(5)]
    p = [spelled_probability(tiny, text, 0) for text in kept]
    expected = np.mean([p[0] - later for later in p[1:]])
    assert values_of(rows, "comprehensiveness_every_step")["0"] == pytest.approx(expected, abs=1e-9)


def test_figures_are_the_metrics(tiny, short):
    evaluation = NormalisedAopc()
    figures = evaluation.reduce(evaluation.rows(tiny, short, attribution_of(short, scores(short))))
    assert {f.metric for f in figures} == set(evaluation.metrics)
    assert figure_of(figures, "left_out").value == 0.25
    assert {f.n for f in figures if f.metric.startswith("normalised")} == {3}


@pytest.mark.parametrize("wrong", [{"exhaustive": 17}, {"beam": 0}, {"units": 0}])
def test_refusals(tiny, short, wrong):
    with pytest.raises(UserError, match=f"^{next(iter(wrong))}="):
        NormalisedAopc(**wrong)
    with pytest.raises(NotApplicable, match="no token scores"):
        NormalisedAopc().rows(tiny, short, Attribution(target=short.label))
