"""Where differences are skewed against a constant no verdict is drawn; docs/statistics.md has larger simulations."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmark.results.statistics import (
    distribution_free_p,
    most_skewness,
    sign_flip_p,
    skewness_against,
    too_skewed,
    vary_alike,
)
from benchmark.results.statistics.proportions import anderson_bounds
from tests.simulations.skewness import AGAINST_A_CONSTANT, ALIKE, SIZES, errors, lost


@pytest.mark.thorough
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", AGAINST_A_CONSTANT)
def test_family_wise_error_against_a_constant(name, n):
    """39 methods against a constant: sign flips alone err up to ten times as often as they may."""
    assert errors(AGAINST_A_CONSTANT[name], n, 60)[1] <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 60)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["exponential", "lognormal", "0 in 80 %, else uniform"])
def test_error_of_one_verdict(name, n):
    assert errors(AGAINST_A_CONSTANT[name], n, 1_000, 1)[1] <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1_000)


def test_without_the_rule_it_would_not_hold():
    alone, here = errors(AGAINST_A_CONSTANT["exponential"], 20, 200)
    assert alone > 0.2
    assert here <= 0.06


def test_two_sides_that_vary_alike_need_no_rule():
    assert errors(ALIKE["exponential, two alike"], 20, 200, alike=True)[0] <= 0.06


@pytest.mark.parametrize(("n", "most"), [(20, 0.05), (40, 0.02), (100, 0.01)])
def test_symmetric_differences_lose_few_verdicts_between_methods_that_vary_alike(n, most):
    alone, here = lost(5, n, 500, 39, alike=True)
    assert alone > 0.5
    assert here >= alone * (1 - most) - 0.01


def test_the_skewness_against_a_verdict():
    drawn = np.random.default_rng(0).exponential(size=30)
    values, expected = np.stack([drawn, -drawn], axis=1), stats.skew(drawn, bias=False)
    np.testing.assert_allclose(skewness_against(values), [-expected, -expected])  # the tail is on the side of the mean
    np.testing.assert_allclose(skewness_against(values - [3, -3]), [expected, expected])
    constant = np.stack([np.zeros(5), np.full(5, 0.1), np.full(5, -2.0)], axis=1)
    assert skewness_against(constant).tolist() == [0, math.inf, math.inf]
    assert skewness_against(np.array([[1.0], [2.0]])).tolist() == [math.inf]


def test_the_bound_of_the_documentation():
    assert most_skewness(40, 8) == pytest.approx(0.7 * math.log(4))
    assert most_skewness(12, 1) > most_skewness(12, 39)
    assert most_skewness(0, 3) == -math.inf


def test_the_bound_of_any_distribution_ends_at_0_at_its_level():
    values = np.random.default_rng(1).uniform(-0.5, 0.5, (40, 3)) + np.array([0.3, -0.4, 0.45])
    for column, p in zip(values.T, distribution_free_p(values, (-1, 1)), strict=True):
        share = math.sqrt(math.log(2 / p) / 80)
        kept = np.clip(1 - share - np.arange(40) / 40, 0, 1 / 40)
        ends = kept @ np.sort(column) - share, kept @ np.sort(column)[::-1] + share
        assert min(map(abs, ends)) == pytest.approx(0, abs=1e-12)
    low, high = anderson_bounds(values, np.full(3, -1.0), np.full(3, 1.0))
    np.testing.assert_array_equal((low > 0) | (high < 0), distribution_free_p(values, (-1, 1)) < 0.05)
    assert distribution_free_p(values).tolist() == [1, 1, 1]
    assert distribution_free_p(np.zeros((9, 1)), (-1, 1)).tolist() == [1]


def test_what_any_distribution_says_is_told_however_skewed():
    """Right in all 20 examples where the other is wrong in all; a difference of a tenth may hide a rare larger one."""
    everywhere, slight = np.ones((20, 1)), np.full((20, 1), -0.1)
    assert (sign_flip_p(np.hstack([everywhere, slight])) < 0.001).all()
    assert not too_skewed(everywhere, 39, reach=(-1, 1))
    assert too_skewed(everywhere, 39)
    assert too_skewed(slight, 1, reach=(-1, 1))


def test_spreads_that_are_alike():
    values = np.random.default_rng(2).normal(size=(50, 3))
    assert vary_alike(values, values[:, ::-1] * [1.0, 0.3, 0.7]).tolist() == [True, False, True]
    assert vary_alike(values[:, :1], np.ones((50, 1))).tolist() == [False]
