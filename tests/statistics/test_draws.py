"""Orders of heads and calibration examples count in intervals and p-values; docs/draws.md has larger simulations."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from benchmark.statistics import Interval, drawn_p, intervals, matrix, of_orders, of_resamples, sign_flip_p, widened
from tests.simulations.samples import accuracy_area

ORDERS, RESAMPLES = 5, 5
# standard deviations of the effects of examples, of orders, and of both together
PARTS = {
    "as on SST-2": (0.06, 0.06, 0.11),
    "examples more": (0.1, 0.02, 0.05),
    "examples alone": (0.1, 0.0, 0.05),
    "orders more": (0.02, 0.06, 0.02),
}
AREAS = accuracy_area(np.random.default_rng(0), (2, 20_000))
STEPS = (AREAS[0] - AREAS[1] - (AREAS[0] - AREAS[1]).mean()) / (AREAS[0] - AREAS[1]).std()
"""Differences of two areas under accuracies, in steps of 1/16."""


def noise(kind, generator, shape):
    """Mean 0, variance 1."""
    if kind == "normal":
        return generator.normal(size=shape)
    return generator.choice(STEPS, shape)


def draw(kind, parts, generator, trials, n, k):
    """Values [trials, n, k] whose mean is 0, crossed effects of examples and of orders."""
    example, order, both = parts
    values = example * noise(kind, generator, (trials, n))[:, :, None]
    values = values + order * generator.normal(size=(trials, 1, k))
    return values + both * noise(kind, generator, (trials, n, k))


def held(found):
    return np.mean([interval.low <= 0 <= interval.high for interval in found])


@pytest.mark.parametrize("n", [20, 60, 200])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("kind", ["normal", "areas"])
def test_intervals_over_examples_and_orders_cover(kind, parts, n):
    values = draw(kind, PARTS[parts], np.random.default_rng(n), 300, n, ORDERS)
    alone = intervals(values.mean(axis=2).T)
    assert held(widened(one, of_orders(v)) for one, v in zip(alone, values, strict=True)) >= 0.925
    if parts in ("as on SST-2", "orders more"):
        assert held(alone) < 0.85  # orders taken as given


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("parts", PARTS)
def test_intervals_over_examples_and_calibration_examples_cover(parts, n):
    values = draw("normal", PARTS[parts], np.random.default_rng(n), 300, n, 1 + RESAMPLES)
    alone = intervals(values[:, :, 0].T)
    assert held(widened(one, of_resamples(v[:, 1:])) for one, v in zip(alone, values, strict=True)) >= 0.925


def p_values(kind, parts, n, trials, resampled):
    """Of a method no better than random orders: sign flips alone, and with what is drawn."""
    generator = np.random.default_rng([n, trials])
    random = draw(kind, PARTS[parts], generator, trials, n, ORDERS)
    example, order, both = PARTS[parts]
    own = draw(kind, (example, order if resampled else 0.0, both), generator, trials, n, 1 + RESAMPLES)
    differences = own[:, :, 0] - random.mean(axis=2)
    flips = sign_flip_p(differences.T, flips=999)
    beside = [[*of_orders(x), *(of_resamples(y[:, 1:]) if resampled else [])] for x, y in zip(random, own, strict=True)]
    return flips, np.array([drawn_p(d, b, p) for d, b, p in zip(differences, beside, flips, strict=True)])


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("resampled", [False, True], ids=["orders", "orders and calibration"])
@pytest.mark.parametrize("kind", ["normal", "areas"])
def test_a_method_no_better_than_random_orders_is_seldom_called_better(kind, resampled, n):
    wrong = {parts: (p_values(kind, parts, n, 1000, resampled)) for parts in PARTS}
    for _, p in wrong.values():
        assert (p < 0.05).mean() <= 0.06 + 0.007  # standard error of 1000 trials
    assert np.mean([(p < 0.05).mean() for _, p in wrong.values()]) <= 0.06
    flips, _ = wrong["orders more"]
    assert (flips < 0.05).mean() > 0.4  # orders taken as given


def test_a_family_of_methods_against_one_random_control():
    """Holm over eight methods that share the random orders: the family-wise error at n = 20 and 200."""
    for n in (20, 200):
        generator = np.random.default_rng(n)
        wrong = 0
        for _ in range(100):
            random = draw("normal", PARTS["as on SST-2"], generator, 1, n, ORDERS)[0]
            differences = 0.06 * generator.normal(size=(n, 8)) - random.mean(axis=1, keepdims=True)
            flips = sign_flip_p(differences, flips=1999)
            p = [drawn_p(d, of_orders(random), f) for d, f in zip(differences.T, flips, strict=True)]
            wrong += min(p) < 0.05 / 8
        assert wrong / 100 <= 0.06


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
