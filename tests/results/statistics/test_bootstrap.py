import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar

from benchmark.results.statistics import Interval, interval, intervals, resampled_means

COLUMN = arrays(np.float64, st.integers(2, 30), elements=st.floats(0, 1, width=32))
UNIT, SIGNED = (0.0, 1.0), (-1.0, 1.0)


def ends(found):
    return found.low, found.high


def draws(n, resamples=999):
    return np.random.default_rng(0).integers(0, n, size=(resamples, n))


def test_the_interval_equals_the_slow_studentised_bootstrap():
    values = np.random.default_rng(1).normal(size=17)
    t = []
    for row in draws(17):
        drawn = [values[i] for i in row]
        t.append((np.mean(drawn) - values.mean()) / (np.std(drawn) / math.sqrt(17)))
    t.sort()
    error = values.std() / math.sqrt(17)
    result = interval(values)
    assert result.value == pytest.approx(values.mean())
    assert ends(result) == pytest.approx((values.mean() - t[974] * error, values.mean() - t[24] * error))
    assert result.n == 17


def test_a_ratio_of_sums_is_studentised_by_the_linear_terms_of_its_examples():
    table = np.random.default_rng(0).integers(1, 9, size=(25, 2)).astype(float)

    def error(rows):
        ratio = rows[:, 0].sum() / rows[:, 1].sum()
        return math.sqrt(np.sum((rows[:, 0] - ratio * rows[:, 1]) ** 2)) / rows[:, 1].sum()

    ratio = table[:, 0].sum() / table[:, 1].sum()
    t = sorted((table[row, 0].sum() / table[row, 1].sum() - ratio) / error(table[row]) for row in draws(25))
    result = interval(table, lambda means: means[..., 0] / means[..., 1])
    assert result.value == pytest.approx(ratio)
    assert ends(result) == pytest.approx((ratio - t[974] * error(table), ratio - t[24] * error(table)), rel=1e-5)


def test_a_statistic_that_is_a_mean_is_treated_as_one():
    values = np.random.default_rng(1).normal(size=40)
    assert ends(interval(values[:, None], lambda means: means[..., 0])) == pytest.approx(ends(interval(values)))


def test_chunking_does_not_change_the_interval(monkeypatch):
    values = np.random.default_rng(1).normal(size=(50, 3))
    whole = intervals(values)
    monkeypatch.setattr("benchmark.results.statistics.bootstrap._CELLS", 60)
    for a, b in zip(whole, intervals(values), strict=True):
        assert (a.value, a.low, a.high, a.n) == pytest.approx((b.value, b.low, b.high, b.n))


def test_columns_equal_single_columns():
    generator = np.random.default_rng(1)
    columns = [generator.normal(size=50), generator.integers(0, 2, 50), generator.integers(-1, 2, 50), np.full(50, 0.5)]
    bounds = [(-np.inf, np.inf), UNIT, SIGNED, UNIT]
    joint = intervals(np.stack(columns, axis=1), bounds=bounds)
    for column, own, found in zip(columns, bounds, joint, strict=True):
        single = interval(column, bounds=own)
        assert (found.value, *ends(found)) == pytest.approx((single.value, *ends(single)))


@settings(max_examples=60)
@given(COLUMN)
def test_the_interval_holds_the_value_and_stays_within_the_range(values):
    result = interval(values, bounds=UNIT)
    assert 0 <= result.low <= result.value <= result.high <= 1
    assert result.low < result.high


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(5, 40), st.floats(-3, 3))
def test_shift_and_scale(seed, n, shift):
    values = np.random.default_rng(seed).normal(size=n)
    base, moved, mirrored = interval(values), interval(values + shift), interval(-2 * values)
    assert ends(moved) == pytest.approx((base.low + shift, base.high + shift), abs=1e-9)
    assert mirrored.high - mirrored.low == pytest.approx(2 * (base.high - base.low), rel=0.2)


def test_proportions_have_wilsons_interval():
    twenty = interval(np.ones(20), bounds=UNIT)
    assert ends(twenty) == pytest.approx((0.8389, 1.0), abs=1e-4)
    assert ends(interval(np.zeros(20), bounds=UNIT)) == pytest.approx((0.0, 1 - twenty.low))
    # Newcombe 1998, table I: 81 of 263
    assert ends(interval(np.arange(263) < 81, bounds=UNIT)) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert ends(interval(2 * np.ones(20), bounds=(0.0, 2.0))) == pytest.approx((2 * twenty.low, 2.0))


def score(more, less, n, delta):
    """Deviation from the mean `delta` in standard errors, the share of −1 by the largest likelihood given `delta`."""

    def loss(q):
        shares = np.clip([q + delta, q, 1 - 2 * q - delta], 1e-300, 1)
        return -float(np.dot([more, less, n - more - less], np.log(shares)))

    least = max(0.0, -delta)
    q = minimize_scalar(loss, bounds=(least, (1 - delta) / 2), method="bounded", options={"xatol": 1e-12}).x
    return (more - less - n * delta) / np.sqrt(n * (2 * q + delta - delta**2))


def test_differences_of_two_outcomes_have_tangos_interval():
    for more, less, n in ((3, 1, 20), (0, 1, 44), (9, 5, 30)):
        found = interval(np.repeat([1.0, -1.0, 0.0], [more, less, n - more - less]), bounds=SIGNED)
        for end in ends(found):
            assert abs(score(more, less, n, end)) == pytest.approx(1.959964, abs=1e-4)
    z2 = 1.959964**2
    assert ends(interval(np.zeros(20), bounds=SIGNED)) == pytest.approx((-z2 / (20 + z2), z2 / (20 + z2)), abs=1e-6)
    every = interval(np.ones(20), bounds=SIGNED)
    assert every.high == 1
    assert every.low < 0.85


def test_a_constant_sample_has_the_bound_of_what_may_be_rare():
    rare = 1 - 0.025 ** (1 / 20)
    found = interval(np.full(20, 0.25), bounds=UNIT)
    assert ends(found) == pytest.approx((0.25 - rare * 0.25, 0.25 + rare * 0.75))
    assert math.isnan(interval(np.full(20, 0.25)).low)  # nothing bounds what is rare
    assert math.isnan(interval(np.full(20, 3.0), bounds=(0.0, math.inf)).low)


def test_a_sample_that_hardly_varies_is_as_wide():
    values = np.zeros(40)
    values[3] = 0.5
    low, high = ends(interval(values, bounds=SIGNED))
    assert low == pytest.approx(-(1 - 0.025 ** (1 / 40)))
    assert 0.1 < high < 0.2
    ratio = interval(np.zeros((20, 2)), lambda means: means.max(-1), bounds=UNIT, ranges=(UNIT, UNIT))
    assert ends(ratio) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    assert math.isnan(interval(np.zeros((20, 2)), lambda means: means.max(-1), bounds=UNIT).low)


def test_no_end_is_beyond_what_any_sample_allows():
    values = np.concatenate([np.linspace(0.985, 1, 11), [0.6]])  # resamples without the last hardly vary
    share = math.sqrt(math.log(40) / 24)
    ordered = np.sort(values)
    steps = np.arange(100_000) / 100_000  # quantiles up to 1 − share, and the share at 0
    least = np.where(steps < 1 - share, ordered[np.minimum((steps * 12).astype(int), 11)], 0).mean()
    assert interval(values, bounds=UNIT).low == pytest.approx(least, abs=1e-4)
    assert interval(values).low < 0
    assert interval(-values, bounds=(-1.0, 0.0)).high == pytest.approx(-least, abs=1e-4)


def test_rounding_is_no_figure():
    third = np.array([0.1, 0.2, -0.3] * 5)
    assert third.mean() != 0
    assert interval(third).value == 0
    noise = 0.1 + 1e-17 * np.arange(20) + np.where(np.arange(20) % 2, 2e-17, 0)
    assert interval(noise, bounds=UNIT).high > 0.2  # as wide as that of a constant sample
    assert interval(np.array([1e-17, 2e-17, 3e-17, 5e-17, 4e-17])).value == pytest.approx(3e-17)


def test_too_few_examples():
    one = interval([0.25], bounds=UNIT)
    assert one.value == 0.25
    assert one.n == 1
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    none = interval([])
    assert none.n == 0
    assert math.isnan(none.value)
    ratio = interval(np.ones((1, 2)), lambda m: m[..., 0] / m[..., 1])
    assert ratio.value == 1
    assert math.isnan(ratio.low)


def test_nan_is_not_hidden():
    for bounds in (None, UNIT):
        result = interval([1.0, float("nan"), 2.0], bounds=bounds)
        assert math.isnan(result.value)
        assert math.isnan(result.low)
    with np.errstate(invalid="ignore"):
        assert math.isnan(interval(np.zeros((3, 2)), lambda m: m[..., 0] / m[..., 1]).low)


def test_means_of_resamples():
    values = np.random.default_rng(1).normal(size=(30, 2))
    means = np.array([values[row].mean(axis=0) for row in draws(30)])
    assert resampled_means(values, 0, 999) == pytest.approx(means)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="need a statistic"):
        interval(np.ones((3, 2)))
    assert Interval(1.0, 0.0, 2.0, 3).n == 3
