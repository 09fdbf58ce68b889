"""Questions that are answered by paired differences: lines, verdicts, and extremes that are chosen on other examples."""

import numpy as np
import pandas as pd
import pytest

from benchmark.analyses.differences import P_VALUE, Difference, columns, difference_lines, halves, of_best, of_extremes
from benchmark.results.rows import StoredRows
from benchmark.results.statistics import Source, holm, interval, sign_flip_p


def asked(values, **more):
    return Difference({"method": "a", "question": f"q{len(values)}"}, np.asarray(values, dtype=float), **more)


def test_halves_are_all_examples_once():
    chosen, measured = halves(11)
    assert sorted([*chosen, *measured]) == list(range(11))
    assert (len(chosen), len(measured)) == (5, 6)


def test_extremes_are_chosen_on_one_half_and_measured_on_the_other():
    values = np.random.default_rng(0).normal(size=(20, 4))
    chosen, measured = halves(20)
    means = values[chosen].mean(axis=0)
    found, best, worst = of_extremes(values)
    assert (best, worst) == (means.argmax(), means.argmin())
    assert np.array_equal(found, values[measured, best] - values[measured, worst])
    assert np.array_equal(of_best(values)[0], values[measured, best])


@pytest.mark.parametrize("columns", [2, 10])
def test_extremes_of_equal_columns_are_no_difference(columns):
    """Nominal 5 %; chosen and measured on the same examples it is 60 % for ten columns."""
    generator = np.random.default_rng(columns)
    errors, naive = [], []
    for _ in range(400):
        values = generator.normal(size=(24, columns)) + generator.normal(size=(24, 1))
        errors.append(sign_flip_p(of_extremes(values)[0][:, None])[0] <= 0.05)
        means = values.mean(axis=0)
        naive.append(
            sign_flip_p((values[:, means.argmax()] - values[:, means.argmin()])[:, None], flips=199)[0] <= 0.05
        )
    assert np.mean(errors) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert columns == 2 or np.mean(naive) > 0.3


def test_lines_hold_intervals_and_corrected_p_values():
    generator = np.random.default_rng(5)
    one, two = asked(generator.normal(1, 1, 12)), asked(generator.normal(0, 1, 13), note="x")
    rows, sentences = difference_lines([one, two])
    table = pd.DataFrame(rows).set_index(["question", "metric"])
    expected = interval(one.values)
    assert table.loc[("q12", "difference"), ["value", "low", "high"]].tolist() == pytest.approx(
        [expected.value, expected.low, expected.high]
    )
    p = {place: float(sign_flip_p(d.values[:, None])[0]) for place, d in enumerate((one, two))}
    assert table.loc[("q12", P_VALUE), "value"] == pytest.approx(holm(p)[0])
    assert table.loc[("q13", "difference"), "note"] == "x"
    assert sentences == ["a: q12: yes.", "a: q13: not distinguishable from none."]


def test_differences_that_are_too_skewed_have_words_in_place_of_a_p_value():
    """Most examples gain a little and a few lose much: the mean may well be 0."""
    values = np.array([*[0.1] * 17, -0.02, 0.01, -0.9])
    assert sign_flip_p(values[:18, None]) < 0.01
    rows, sentences = difference_lines([asked(values[:18])])
    assert [(row["metric"], row["note"]) for row in rows] == [
        ("difference", "no interval: too few of the examples differ"),
        (P_VALUE, "not tested: too skewed"),
    ]
    assert np.isnan(rows[1]["value"])
    assert sentences == ["a: q18: not tested: too skewed."]
    assert difference_lines([asked(np.ones(18), reach=(-1, 1))])[1] == ["a: q18: yes."]


def test_the_direction_is_told():
    assert difference_lines([asked(-np.arange(1, 9))])[1] == ["a: q8: the other way round."]


def test_few_examples_decide_nothing_whatever_the_interval():
    rows, sentences = difference_lines([asked([1, 1.1, 0.9, 1.2]), asked([1, 1, 1.1, 1.2, 1.1])])
    assert rows[0]["low"] > 0
    assert sentences[0] == "a: q4: no verdict: n = 4, and 2 questions need at least 7 examples."


def test_other_sources_of_error_widen_the_interval_and_the_p_value():
    values = np.random.default_rng(2).normal(0.5, 0.5, 20)
    alone, with_orders = asked(values), asked(values, beside=(Source(0.04, 4),))
    assert with_orders.figure.low < alone.figure.low
    assert with_orders.p > alone.p


def test_no_interval_leaves_the_range():
    figure = asked([1, 1, 1, 0, 1, 1], reach=(-1.0, 1.0), beside=(Source(1.0, 4),)).figure
    assert (figure.low, figure.high) == (-1, 1)


def test_nothing_asked_is_nothing_told():
    assert difference_lines([asked([]), asked([np.nan, 1])]) == ([], [])


def test_columns_are_means_over_draws_of_whole_examples():
    rows = pd.DataFrame(
        [("a", 0.1, 0, 1.0), ("a", 0.1, 1, 3.0), ("a", 0.2, 0, 5.0), ("b", 0.1, 0, 7.0)],
        columns=["uid", "x", "draw", "value"],
    ).assign(evaluation="t", metric="m")
    found = columns(StoredRows.of(rows), "t", "m")
    assert found.to_numpy().tolist() == [[2.0, 5.0]]
    assert list(found.index) == ["a"]
