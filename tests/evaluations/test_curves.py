import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmark.evaluations.curves import area, counts, published_area, with_zero

CURVE = st.lists(st.floats(0, 1), min_size=9, max_size=9)
TENTHS = [k / 10 for k in range(1, 10)]


@given(st.integers(0, 700), st.integers(0, 100))
def test_counts_are_exact_in_hundredths(n, hundredths):
    down = counts(torch.tensor([n]), [hundredths / 100], "down").item()
    up = counts(torch.tensor([n]), [hundredths / 100], "up").item()
    assert down == n * hundredths // 100
    assert up == -(-n * hundredths // 100)


def test_counts_of_all_hundredths_of_up_to_200_units():
    """Products such as 0.7 · 90 = 62.99… and 0.07 · 100 = 7.00…1 are whole numbers."""
    n, hundredths = torch.arange(201), range(101)
    exact = torch.tensor([[k * units for units in n.tolist()] for k in hundredths])
    fractions = [k / 100 for k in hundredths]
    assert counts(n, fractions, "down").equal(exact // 100)
    assert counts(n, fractions, "up").equal(-(-exact // 100))
    assert counts(torch.tensor([90]), [0.7], "down").tolist() == [[63]]


def test_a_positive_share_rounded_up_is_at_least_one_unit():
    assert counts(torch.tensor([3, 0]), [0.01], "up").tolist() == [[1, 0]]


@given(CURVE)
def test_area_is_the_slow_trapezoid_over_the_range(values):
    total = sum((values[k] + values[k + 1]) / 2 * (TENTHS[k + 1] - TENTHS[k]) for k in range(8))
    assert area(torch.tensor(values, dtype=torch.float64), TENTHS).item() == pytest.approx(total / 0.8)


@given(CURVE)
def test_area_lies_within_the_curve(values):
    result = area(torch.tensor(values, dtype=torch.float64), TENTHS).item()
    assert min(values) - 1e-12 <= result <= max(values) + 1e-12


@given(CURVE, st.integers(0, 8), st.floats(0, 1))
def test_area_grows_with_the_curve(values, k, raised):
    higher = [max(v, raised) if i == k else v for i, v in enumerate(values)]
    low, high = (area(torch.tensor(v, dtype=torch.float64), TENTHS).item() for v in (values, higher))
    assert high >= low - 1e-12


def test_area_of_one_point_and_of_a_batch():
    assert area(torch.tensor([[0.3], [0.7]]), [0.5]).tolist() == pytest.approx([0.3, 0.7])
    assert area(torch.tensor([[0.0, 1.0], [1.0, 1.0]]), [0.0, 1.0]).tolist() == [0.5, 1.0]
    assert math.isnan(area(torch.tensor([float("nan"), 1.0]), [0.0, 1.0]).item())


def test_the_published_area_is_numpys_trapezoid_times_100():
    accuracy = [0.8, 0.7, 0.6, 0.55, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1]
    at = [k / 10 for k in range(10)]
    found = published_area(torch.tensor([accuracy, [1.0] * 10], dtype=torch.float64), at)
    assert found.tolist() == pytest.approx([np.trapezoid(accuracy, at) * 100, 90.0])
    assert found[0].item() == pytest.approx(39.5)  # (0.8 / 2 + 0.7 + … + 0.2 + 0.1 / 2) · 0.1 · 100


def test_zero_precedes_the_fractions_once():
    assert with_zero((0.1, 0.5)) == (0.0, 0.1, 0.5)
    assert with_zero((0.0, 0.5)) == (0.0, 0.5)
