"""Intervals over clusters: what they reduce to, and how often they hold."""

import numpy as np
import pytest

from benchmark.results.statistics import clustered_difference, clustered_interval, interval
from tests.simulations.clusters import SHARES, cluster_coverage

VALUES = np.array([1.0, 0.0, 0.5, 0.5, 1.0, 0.25, 0.75])
CLUSTERS = np.array([3, 3, 1, 2, 2, 2, 0])


def test_clusters_of_one_value_are_examples():
    assert clustered_interval(VALUES, np.arange(7), bounds=(0.0, 1.0)) == interval(VALUES, bounds=(0.0, 1.0))


def test_the_value_is_the_mean_of_all_values():
    found = clustered_interval(VALUES, CLUSTERS, bounds=(0.0, 1.0))
    assert found.value == pytest.approx(VALUES.mean())
    assert found.n == 7
    assert found.low < found.value < found.high


def test_the_order_of_values_says_nothing():
    order = np.random.default_rng(0).permutation(7)
    assert clustered_interval(VALUES[order], CLUSTERS[order]) == clustered_interval(VALUES, CLUSTERS)


def test_values_that_do_not_vary_have_the_interval_of_as_many_clusters():
    found = clustered_interval(np.ones(7), CLUSTERS, bounds=(0.0, 1.0))
    clusters = interval(np.ones(4), bounds=(0.0, 1.0))
    assert (found.value, found.low, found.high, found.n) == (1.0, clusters.low, 1.0, 7)


def test_a_difference_of_kinds():
    generator = np.random.default_rng(1)
    values, clusters, first = generator.random(60), generator.integers(0, 20, 60), generator.random(60) < 0.5
    found = clustered_difference(values, first, clusters, bounds=(0.0, 1.0))
    assert found.value == pytest.approx(values[first].mean() - values[~first].mean())
    assert found.low < found.value < found.high
    few = clustered_difference(VALUES, np.arange(7) < 3, CLUSTERS, bounds=(0.0, 1.0))
    assert -1 <= few.low < few.value < few.high <= 1
    assert np.isnan(clustered_difference(values, np.ones(60, bool), clusters).value)


@pytest.mark.parametrize(("share", "alike"), SHARES)
def test_coverage(share, alike):
    assert cluster_coverage(share, alike, 20, "here", trials=150)[0] >= 0.92


def test_questions_about_one_passage_are_not_independent():
    assert cluster_coverage(0.5, 0.8, 60, "questions resampled", trials=150)[0] < 0.85


def test_each_side_of_a_difference_takes_the_ends_that_lie_that_way():
    """d = a − b is least where a is least and b is largest. Both shares are near an end, so that their two sides differ."""
    values = np.array([1.0] * 12 + [0.0] * 11 + [1.0])
    first, clusters = np.arange(24) < 12, np.arange(24)
    found = clustered_difference(values, first, clusters, bounds=(0, 1))
    a, b = (clustered_interval(values[kind], clusters[kind], bounds=(0, 1)) for kind in (first, ~first))
    assert b.high - b.value > 2 * (b.value - b.low)
    assert found.value == pytest.approx(11 / 12)
    assert found.low == pytest.approx(found.value - np.hypot(a.value - a.low, b.high - b.value))
    assert found.high == pytest.approx(min(1.0, found.value + np.hypot(a.high - a.value, b.value - b.low)))
