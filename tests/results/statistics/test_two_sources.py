"""Figures over examples and seeds or draws; docs/seeds-and-examples.md has larger simulations."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from benchmark.results.statistics import (
    Interval,
    crossed_interval,
    crossed_p,
    deviation_over_seeds,
    drawn_p,
    interval,
    mean_over_seeds,
    of_orders,
    of_resamples,
    sign_flip_p,
    variance_shares,
    widened,
)
from tests.conftest import REPOSITORY
from tests.simulations import crossed
from tests.simulations.draws import PARTS, coverage_of_calibration, coverage_of_orders, family_errors, p_values, rows

PAGE = (REPOSITORY / "docs" / "seeds-and-examples.md").read_text(encoding="utf-8")


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


@pytest.mark.thorough
def test_intervals_of_three_seeds_hold_as_often_as_the_page_says():
    """The interval over examples alone, of these seeds, does not, and p is no less than it says."""
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


def test_squares_add_where_examples_are_not_known():
    values, lows, highs = np.array([0.2, 0.5, 0.4]), np.array([0.1, 0.3, 0.35]), np.array([0.3, 0.8, 0.5])
    found = mean_over_seeds(values, lows, highs, 9)
    seeds = stats.t.ppf(0.975, 2) ** 2 * np.var(values, ddof=1) / 3
    assert found.value == pytest.approx(1.1 / 3)
    assert found.low == pytest.approx(1.1 / 3 - np.sqrt(seeds + (0.1**2 + 0.2**2 + 0.05**2) / 3))
    assert found.high == pytest.approx(1.1 / 3 + np.sqrt(seeds + (0.1**2 + 0.3**2 + 0.1**2) / 3))
    assert found.n == 9
    one = mean_over_seeds(values[:1], lows[:1], highs[:1], 9)
    assert (one.value, one.low, one.high) == pytest.approx((0.2, 0.1, 0.3))
    nothing = np.array([np.nan, 0.3, 0.35])
    student = mean_over_seeds(values, nothing, highs, 9)
    assert (student.low, student.high) == pytest.approx(stats.t.interval(0.95, 2, values.mean(), stats.sem(values)))
    assert np.isnan(mean_over_seeds(values[:1], nothing[:1], highs[:1], 9).low)
    agreed = mean_over_seeds(np.ones(3), nothing, highs, 9)
    assert (agreed.value, np.isnan(agreed.low), np.isnan(agreed.high)) == (1.0, True, True)


def test_it_is_wider_than_the_interval_that_knows_the_examples():
    values = drawn(3, 4, 60, 0.5)
    each = [interval(of_seed, bounds=(-9.0, 9.0)) for of_seed in values]
    ends = (np.array([getattr(one, end) for one in each]) for end in ("value", "low", "high"))
    known, added = crossed_interval(values, bounds=(-9.0, 9.0)).mean, mean_over_seeds(*ends, 60)
    assert added.low < known.low < known.high < added.high
    assert added.value == pytest.approx(known.value)


def test_a_margin_adds_in_squares_and_nothing_changes_without_draws():
    found = Interval(0.5, 0.3, 0.6, 20)
    one, three = np.ones((4, 1)), np.array([[0.0, 1.0, 2.0]] * 4)
    assert widened(found, of_orders(one)) == found
    wide = widened(found, of_orders(three))  # variance 1/3, t of 2 degrees 4.303
    assert wide.low == pytest.approx(0.5 - math.sqrt(0.2**2 + 4.30265**2 / 3))
    assert wide.high == pytest.approx(0.5 + math.sqrt(0.1**2 + 4.30265**2 / 3))
    assert widened(found, of_resamples(three)).high == pytest.approx(0.5 + math.sqrt(0.1**2 + 4.30265**2))
    assert (wide.value, wide.n) == (0.5, 20)
    cut = widened(found, of_orders(three), (0.0, 1.0))
    assert (cut.low, cut.high) == (0.0, 1.0)
    assert drawn_p(np.ones(5), of_orders(one), 0.0625) == 0.0625


def test_equal_draws_are_one_draw():
    differences = np.random.default_rng(0).normal(0.3, 1, size=30)
    same = np.tile(np.random.default_rng(1).normal(size=(30, 1)), (1, 5))
    p = drawn_p(differences, of_orders(same), 0.0)
    assert p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert drawn_p(differences, of_orders(same), 0.9) == 0.9


@pytest.mark.parametrize("n", [20, 60, 200])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("kind", ["normal", "areas"])
def test_intervals_over_examples_and_orders_cover(kind, parts, n):
    alone, whole = coverage_of_orders(kind, parts, n, 300)
    assert whole >= 0.925
    if parts in ("as on SST-2", "orders more"):
        assert alone < 0.85  # orders taken as given


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("parts", PARTS)
def test_intervals_over_examples_and_calibration_examples_cover(parts, n):
    assert coverage_of_calibration("normal", parts, n, 300)[1] >= 0.925


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("resampled", [False, True], ids=["orders", "orders and calibration"])
@pytest.mark.parametrize("kind", ["normal", "areas"])
def test_a_method_no_better_than_random_orders_is_seldom_called_better(kind, resampled, n):
    wrong = {parts: p_values(kind, parts, n, 1000, resampled=resampled) for parts in PARTS}
    for _, p in wrong.values():
        assert (p < 0.05).mean() <= 0.06 + 0.007  # standard error of 1000 trials
    assert np.mean([(p < 0.05).mean() for _, p in wrong.values()]) <= 0.06
    flips, _ = wrong["orders more"]
    assert (flips < 0.05).mean() > 0.4  # orders taken as given


@pytest.mark.parametrize("n", [20, 200])
def test_a_family_of_methods_against_one_random_control(n):
    assert family_errors("as on SST-2", 8, n, 100)[1] <= 0.06


@pytest.mark.thorough
def test_the_page_holds_what_is_simulated_of_draws():
    assert all(line in PAGE for line in rows("normal", "orders more"))


def test_shares_of_variance_by_hand():
    """Two examples and two pairs: y = 5, 7 and 1, 5, so that MS of examples is 9, of pairs 9, of the residual 1."""

    def shares(values):
        return [share.value for share in variance_shares(np.array(values))]

    assert shares([[5.0, 7.0], [1.0, 5.0]]) == pytest.approx(np.array([4.0, 4.0, 1.0]) / 9)
    assert shares([[1.0, 1.0], [2.0, 2.0]]) == pytest.approx([1, 0, 0])
    assert np.isnan(shares(np.ones((3, 3)))).all()


def test_shares_have_intervals_over_examples():
    values = drawn(4, 5, 40, 0.5).T
    found = variance_shares(values, seed=1)
    assert sum(share.value for share in found) == pytest.approx(1)
    assert all(0 <= share.low < share.value < share.high <= 1 and share.n == 40 for share in found)
    assert found == variance_shares(values, seed=1) != variance_shares(values, seed=2)


def test_the_deviation_of_seeds_has_the_interval_of_normal_ones():
    values = np.array([0.2, 0.5, 0.4])
    found, squares = deviation_over_seeds(values), 2 * values.var(ddof=1)
    assert (found.value, found.n) == (pytest.approx(values.std(ddof=1)), 3)
    assert stats.chi2.cdf([squares / found.high**2, squares / found.low**2], 2) == pytest.approx([0.025, 0.975])
    agreed, one = deviation_over_seeds(np.full(3, 0.1)), deviation_over_seeds(values[:1])
    assert (agreed.value, np.isnan(agreed.low), np.isnan(one.value), one.n) == (0.0, True, True, 1)


@pytest.mark.thorough
def test_the_page_holds_what_is_simulated_of_shares():
    shown = re.search(r"\| 10 \| 0.3 \| (.+) \|", PAGE).group(1).split(" | ")
    assert crossed.shares(10, 0.3, 10) == pytest.approx([float(cell) for cell in shown[:3]], abs=0.006)
