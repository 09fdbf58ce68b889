"""Correlations corrected for noise: what they reduce to, and how often their intervals hold what they estimate."""

import numpy as np
import pytest

from benchmark.analyses.reliability import Measured, correlations, grouped, measure, spread
from benchmark.analyses.universality_tables import groups
from tests.simulations.reliability import HEADS, simulated


def test_without_noise_nothing_is_corrected():
    one, two = np.random.default_rng(0).standard_normal((2, HEADS))
    pair = [measure(lambda rows, values=values: values, 10, 0, str(i)) for i, values in enumerate((one, two))]
    assert pair[0].reliability == pytest.approx(np.ones(201))
    expected = np.corrcoef(one, two)[0, 1]
    for corrected in (False, True):
        assert correlations(*pair, corrected=corrected) == pytest.approx(np.full(201, expected))


def test_the_formulas_by_hand():
    pair = [
        Measured(np.array([[1.0, 2, 3]]), np.array([0.5]), 9),
        Measured(np.array([[2.0, 1, 3]]), np.array([0.8]), 9),
    ]
    assert correlations(*pair, corrected=False)[0] == pytest.approx(0.5)
    assert correlations(*pair, corrected=True)[0] == pytest.approx(0.5 / np.sqrt(0.4))
    unreliable = Measured(np.array([[2.0, 1, 3]]), np.array([0.0]), 9)
    assert np.isnan(correlations(pair[0], unreliable, corrected=True)[0])


def test_halves_share_no_example():
    """Of resamples either: the reliability of pure noise is about 0, and not that of examples that stand in both halves."""
    scores = np.random.default_rng(1).standard_normal((30, HEADS))
    seen = []

    def importance(rows):
        seen.append(rows)
        return scores[rows].mean(0)

    found = measure(importance, 30, 0, "noise")
    halves = [rows for rows in seen if len(rows) == 15]
    pairs = list(zip(halves[::2], halves[1::2], strict=True))
    assert len(pairs) == 20 + 200
    assert not any(set(one) & set(two) for one, two in pairs)
    assert found.reliability[1:].mean() < 0.25
    assert spread(found.reliability, 30, (0.0, 1.0)).low >= 0
    assert spread(found.reliability, 30).low < 0


def test_too_few_examples_have_no_reliability():
    found = measure(lambda rows: np.arange(5.0), 3, 0, "few")
    assert np.isnan(found.reliability).all()
    assert np.isnan(spread(found.reliability, 3).low)


def exact(values):
    return Measured(np.array([values, values, values]), np.ones(3), 20)


TASKS = {
    "a": exact([1.0, 2.0, 3.0]),
    "b": exact([1.0, 2.0, 3.0]),
    "c": exact([3.0, 2.0, 1.0]),
    "d": exact([2.0, 1.0, 3.0]),
}


def test_groups_by_hand():
    types = {"a": "x", "b": "x", "c": "y", "d": "y"}
    domains = {"a": "news", "b": "films", "c": "news", "d": "films"}
    table = groups({"m": TASKS}, types, domains)
    table.check()
    rows = table.rows[table.rows["correlation"] == "Pearson r"].set_index(["alike in", "metric"])["value"]
    assert rows["type", "alike"] == pytest.approx((1 - 0.5) / 2)  # a b, c d
    assert rows["type", "others"] == pytest.approx((-1 + 0.5 - 1 + 0.5) / 4)
    assert rows["domain", "alike"] == pytest.approx((-1 + 0.5) / 2)  # a c, b d
    assert rows["type against domain", "alike"] == rows["type", "alike"]
    assert rows["type against domain", "others"] == rows["domain", "alike"]
    assert rows["type against domain", "difference"] == pytest.approx(0.5)
    assert rows["type", "pairs alike"] == 2
    assert rows["type", "pairs others"] == 4


def test_groups_that_do_not_differ_say_so():
    table = groups({"m": TASKS}, dict.fromkeys(TASKS, "x"), None)
    table.check()
    assert table.rows["note"].tolist() == ["no two tasks are alike in this, or all are"] * 2
    assert grouped(TASKS, lambda one, two: None, corrected=False) is None


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "noise"), [(20, 1.0), (50, 3.0)])
def test_coverage(n, noise):
    found = simulated(n, noise, trials=40)
    assert (found["coverage"] >= 0.9).all()
    assert np.abs(found["corrected"] - found["truth"]).max() < 0.06
    assert (found["truth"] - found["uncorrected"]).min() > 0
