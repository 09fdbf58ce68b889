import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmark.statistics import Interval, interval, intervals, paired_difference

COLUMN = arrays(np.float64, st.integers(2, 30), elements=st.floats(-5, 5, width=32))


def test_the_interval_equals_the_slow_bootstrap():
    values = np.random.default_rng(1).normal(size=17)
    generator = np.random.default_rng(3)
    draws = generator.integers(0, 17, size=(200, 17))
    means = [np.mean([values[i] for i in row]) for row in draws]
    result = interval(values, seed=3, resamples=200)
    assert result.value == pytest.approx(values.mean())
    assert result.low == pytest.approx(np.percentile(means, 2.5))
    assert result.high == pytest.approx(np.percentile(means, 97.5))
    assert result.n == 17


def test_a_ratio_of_sums_is_bootstrapped_by_examples():
    table = np.random.default_rng(0).integers(1, 9, size=(25, 2)).astype(float)
    draws = np.random.default_rng(0).integers(0, 25, size=(300, 25))
    ratios = [table[row, 0].sum() / table[row, 1].sum() for row in draws]
    result = interval(table, lambda means: means[..., 0] / means[..., 1], resamples=300)
    assert result.value == pytest.approx(table[:, 0].sum() / table[:, 1].sum())
    assert (result.low, result.high) == pytest.approx(tuple(np.percentile(ratios, [2.5, 97.5])))


def test_coverage_of_the_mean():
    generator = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        result = interval(generator.normal(size=60), seed=trial, resamples=400)
        hits += result.low <= 0 <= result.high
    assert 180 <= hits <= 198


def test_chunking_does_not_change_the_interval(monkeypatch):
    values = np.random.default_rng(1).normal(size=(50, 3))
    whole = intervals(values, resamples=100)
    monkeypatch.setattr("benchmark.statistics.bootstrap._CELLS", 60)
    for a, b in zip(whole, intervals(values, resamples=100), strict=True):
        assert (a.value, a.low, a.high, a.n) == pytest.approx((b.value, b.low, b.high, b.n))


def test_columns_equal_single_columns():
    values = np.random.default_rng(1).normal(size=(50, 3))
    for column, joint in zip(values.T, intervals(values, seed=5), strict=True):
        single = interval(column, seed=5)
        assert (joint.value, joint.low, joint.high) == pytest.approx((single.value, single.low, single.high))


@settings(max_examples=40, deadline=None)
@given(COLUMN)
def test_the_interval_stays_within_the_values(values):
    result = interval(values, resamples=50)
    assert values.min() - 1e-9 <= result.low <= result.high <= values.max() + 1e-9


@settings(max_examples=40, deadline=None)
@given(COLUMN, st.floats(-3, 3))
def test_shift_equivariance(values, shift):
    base, moved = interval(values, resamples=50), interval(values + shift, resamples=50)
    assert moved.low == pytest.approx(base.low + shift, abs=1e-6)
    assert moved.high == pytest.approx(base.high + shift, abs=1e-6)


def test_a_higher_level_is_wider():
    values = np.random.default_rng(0).normal(size=40)
    narrow, wide = interval(values, level=0.5), interval(values, level=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_too_few_examples():
    one = interval([0.25])
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
    result = interval([1.0, float("nan"), 2.0])
    assert math.isnan(result.value)
    assert math.isnan(result.low)


def test_paired_difference_is_narrower_than_unpaired():
    generator = np.random.default_rng(0)
    difficulty = generator.normal(size=100) * 10
    a, b = difficulty + 1 + generator.normal(size=100) * 0.1, difficulty
    result = paired_difference(a, b)
    assert result.low < 1 < result.high + 0.05
    assert result.high - result.low < 0.1
    assert paired_difference(a, a) == Interval(0.0, 0.0, 0.0, 100)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="differ in shape"):
        paired_difference([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="need a statistic"):
        interval(np.ones((3, 2)))
