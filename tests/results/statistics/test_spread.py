"""Intervals of correlations and shares: against the formula by hand, where there is none, and how often they hold."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmark.results.statistics import spread_interval
from tests.simulations.spreads import HEADS, LAYOUTS, correlations, pearson, shares, spearman


def test_of_a_correlation_it_is_fishers():
    again = np.tanh(np.random.default_rng(0).normal(0.7, 0.2, size=500))
    reach = stats.t.ppf(0.975, 19) * np.arctanh(again).std(ddof=1)
    found = spread_interval(0.6, again, 20, (-1.0, 1.0))
    assert (found.low, found.high) == pytest.approx(
        (np.tanh(np.arctanh(0.6) - reach), np.tanh(np.arctanh(0.6) + reach))
    )
    assert (found.value, found.n) == (0.6, 20)


def test_of_a_share_it_is_by_log_odds():
    again = 1 / (1 + np.exp(-np.random.default_rng(0).normal(-1, 0.5, size=500)))
    odds = np.log(again / (1 - again))
    reach = stats.t.ppf(0.975, 9) * odds.std(ddof=1)
    found = spread_interval(0.2, again, 10, (0.0, 1.0))
    ends = 1 / (1 + np.exp(-(np.log(0.2 / 0.8) + np.array([-reach, reach]))))
    assert (found.low, found.high) == pytest.approx(tuple(ends))


def test_the_ends_are_attained_and_never_passed():
    found = spread_interval(1.0, [1.0, 1.0, 0.9, 0.99, 1.0], 5, (-1.0, 1.0))
    assert -1 <= found.low < found.value <= 1
    assert found.high <= 1


@pytest.mark.parametrize(
    ("value", "again", "n"),
    [
        (0.5, [0.5] * 100, 20),
        (0.5, [0.4, 0.6] * 50, 1),
        (math.nan, [0.4, 0.6] * 50, 20),
        (0.5, [0.4, 0.6, math.nan] * 50, 20),
        (1.0, [1.0] * 100, 20),
    ],
    ids=["constant", "one example", "undefined", "often undefined", "always 1"],
)
def test_where_there_is_none(value, again, n):
    found = spread_interval(value, again, n, (-1.0, 1.0))
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.thorough
@pytest.mark.parametrize("rank", [pearson, spearman])
@pytest.mark.parametrize(("name", "least"), [("72 heads, noise 1", 0.91), ("72 heads, noise 3", 0.88)])
def test_coverage_of_correlations_where_percentiles_lie_beside(name, least, rank):
    ours, percentiles = correlations(HEADS[name], 20, rank, trials=100)
    assert ours >= least
    assert percentiles < 0.88


@pytest.mark.parametrize("name", LAYOUTS)
def test_coverage_of_shares(name):
    held = shares(LAYOUTS[name], 30, trials=60)
    assert np.mean([*held.values()]) >= 0.87
    assert min(held.values()) >= 0.7
