"""Means over seeds and examples beside a slow analysis of variance."""

import numpy as np
import pytest
from scipy import stats

from benchmark.results.statistics import crossed_interval, crossed_p, interval, sign_flip_p


def drawn(seed, s, n, of_seeds, of_examples=0.5, rest=0.5):
    draw = np.random.default_rng(seed)
    return (
        of_seeds * draw.normal(size=(s, 1)) + of_examples * draw.normal(size=(1, n)) + rest * draw.normal(size=(s, n))
    )


def slow(values):
    """Mean squares, one value after another."""
    s, n = values.shape
    grand = sum(values.ravel()) / (s * n)
    a = [sum(values[i]) / n - grand for i in range(s)]
    b = [sum(values[:, j]) / s - grand for j in range(n)]
    rest = [values[i, j] - grand - a[i] - b[j] for i in range(s) for j in range(n)]
    squares = (n * sum(x * x for x in a), s * sum(x * x for x in b), sum(x * x for x in rest))
    return grand, *(square / count for square, count in zip(squares, (s - 1, n - 1, (s - 1) * (n - 1)), strict=True))


def test_the_interval_adds_the_squares_of_seeds_and_examples():
    values = drawn(0, 4, 30, 1.0)
    grand, a, b, rest = slow(values)

    def reach(alpha):
        of_seeds, of_examples = (stats.t.ppf(1 - alpha / 2, size - 1) ** 2 for size in (4, 30))
        return np.sqrt((of_seeds * a + of_examples * (b - rest)) / 120)

    found = crossed_interval(values, bounds=(-10.0, 10.0))
    assert (found.mean.value, found.mean.low, found.mean.high) == pytest.approx(
        (grand, grand - reach(0.05), grand + reach(0.05))
    )
    assert found.mean.n == 30
    assert found.seeds == pytest.approx(np.sqrt((a - rest) / 30))
    assert found.examples == pytest.approx(np.sqrt((b - rest) / 4))
    for shift in (0.5, 1.0, 3.0):
        p = crossed_p(values - grand + shift)
        assert reach(p) == pytest.approx(shift)
    assert crossed_p(values - grand) == 1.0


def test_components_are_found_of_many_seeds_and_examples():
    found = crossed_interval(drawn(1, 300, 400, 0.3, 0.8, 0.5), bounds=(-20.0, 20.0))
    assert (found.seeds, found.examples) == pytest.approx((0.3, 0.8), abs=0.05)


def test_where_seeds_agree_it_is_the_interval_of_examples():
    one = drawn(2, 1, 40, 0.0)
    values = np.repeat(one, 3, axis=0)
    found, alone = crossed_interval(values, bounds=(-9.0, 9.0)), interval(values.mean(0), bounds=(-9.0, 9.0))
    student = stats.t.interval(0.95, 39, one.mean(), stats.sem(one[0]))
    assert (found.mean.low, found.mean.high) == pytest.approx((min(student[0], alone.low), max(student[1], alone.high)))
    assert found.seeds == 0
    of_examples = float(np.asarray(sign_flip_p(values.mean(0)[:, None]))[0])
    assert crossed_p(values) == pytest.approx(max(of_examples, stats.ttest_1samp(one[0], 0).pvalue))
    single = crossed_interval(one, bounds=(-9.0, 9.0))
    assert single.mean == interval(one[0], bounds=(-9.0, 9.0))
    assert np.isnan(single.seeds)
    assert single.examples == pytest.approx(one.std(ddof=1))


def test_it_holds_the_interval_of_examples_and_stays_within_bounds():
    for seed in range(30):
        values = (drawn(seed, 3, 25, 0.2) > -1.0).astype(float)
        found, alone = crossed_interval(values, bounds=(0.0, 1.0)).mean, interval(values.mean(0), bounds=(0.0, 1.0))
        assert 0 <= found.low <= alone.low <= found.value <= alone.high <= found.high <= 1


def test_no_example_and_one_example():
    nothing = crossed_interval(np.empty((3, 0)), bounds=(0.0, 1.0))
    assert (nothing.mean.n, np.isnan(nothing.mean.value), np.isnan(nothing.seeds)) == (0, True, True)
    assert np.isnan(crossed_p(np.empty((3, 0))))
    assert crossed_interval(np.ones((3, 1)), bounds=(0.0, 1.0)).mean.n == 1


def test_constant_values_have_p_1():
    assert crossed_p(np.zeros((3, 20))) == 1
    assert crossed_interval(np.zeros((3, 20)), bounds=(-1.0, 1.0)).seeds == 0


def test_intervals_of_three_seeds_hold_as_often_as_the_page_says():
    """docs/statistics.md; the interval over examples alone, of these seeds, does not, and p is no less than it says."""
    held = alone = rejected = 0
    for seed in range(300):
        values = drawn(seed, 3, 100, 0.1)
        found, narrow = crossed_interval(values, bounds=(-9.0, 9.0)).mean, interval(values.mean(0), bounds=(-9.0, 9.0))
        held += found.low <= 0 <= found.high
        alone += narrow.low <= 0 <= narrow.high
        rejected += crossed_p(values) < 0.05
    assert held / 300 > 0.94
    assert alone / 300 < 0.9
    assert rejected / 300 < 0.06
