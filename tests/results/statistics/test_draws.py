"""Orders of heads and calibration examples count in intervals and p-values; docs/draws.md has larger simulations."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from benchmark.results.statistics import Interval, drawn_p, matrix, of_orders, of_resamples, widened
from tests.conftest import REPOSITORY
from tests.simulations.draws import PARTS, coverage_of_calibration, coverage_of_orders, family_errors, p_values, rows


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


def test_the_page_holds_what_is_simulated():
    page = (REPOSITORY / "docs" / "draws.md").read_text(encoding="utf-8")
    assert all(line in page for line in rows("normal", "orders more"))


def test_a_margin_adds_in_squares_and_nothing_changes_without_draws():
    found = Interval(0.5, 0.3, 0.6, 20)
    one, three = np.ones((4, 1)), np.array([[0.0, 1.0, 2.0]] * 4)
    assert widened(found, of_orders(one)) == found
    wide = widened(found, of_orders(three))  # variance 1/3, t of 2 degrees 4.303
    assert wide.low == pytest.approx(0.5 - math.sqrt(0.2**2 + 4.30265**2 / 3))
    assert wide.high == pytest.approx(0.5 + math.sqrt(0.1**2 + 4.30265**2 / 3))
    assert widened(found, of_resamples(three)).high == pytest.approx(0.5 + math.sqrt(0.1**2 + 4.30265**2))
    assert (wide.value, wide.n) == (0.5, 20)
    assert drawn_p(np.ones(5), of_orders(one), 0.0625) == 0.0625


def test_equal_draws_are_one_draw():
    differences = np.random.default_rng(0).normal(0.3, 1, size=30)
    same = np.tile(np.random.default_rng(1).normal(size=(30, 1)), (1, 5))
    p = drawn_p(differences, of_orders(same), 0.0)
    assert p == pytest.approx(ttest_1samp(differences, 0).pvalue)
    assert drawn_p(differences, of_orders(same), 0.9) == 0.9


def test_rows_become_a_matrix_by_example_and_draw():
    rows = pd.DataFrame({"uid": ["b", "a", "b", "a"], "draw": [1, 0, 0, 1], "value": [4.0, 1.0, 3.0, 2.0]})
    uids, values = matrix(rows)
    assert (uids, values.tolist()) == (("a", "b"), [[1.0, 2.0], [3.0, 4.0]])
    assert matrix(rows.iloc[:2].drop(columns="draw"))[1].tolist() == [[1.0], [4.0]]
