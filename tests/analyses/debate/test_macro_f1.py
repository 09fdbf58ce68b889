"""Macro-F1 is that of a library, with the interval of the harness's statistics."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from benchmark.analyses.debate.macro_f1 import macro_f1, macro_f1_line
from benchmark.results.statistics import interval


def of_sklearn(label, predicted):
    return f1_score(label, predicted, average="macro", zero_division=0)


@pytest.mark.parametrize("seed", range(6))
def test_it_equals_scikit_learns(seed):
    """Also where a class is predicted that no example has, is never predicted, or is neither."""
    generator = np.random.default_rng(seed)
    label = generator.choice([0, 1, 3], size=12)
    predicted, other = generator.choice([0, 1, 2], size=12), generator.choice([0, 3, 5], size=12)
    found = macro_f1(label, predicted)
    assert found.value == pytest.approx(of_sklearn(label, predicted))
    assert found.low <= found.value <= found.high
    difference = macro_f1(label, predicted, other).value
    assert difference == pytest.approx(of_sklearn(label, predicted) - of_sklearn(label, other))


def test_a_class_that_is_only_predicted_counts_as_0():
    assert macro_f1(np.array([0, 0, 0, 1]), np.array([0, 0, 2, 1])).value == pytest.approx((0.8 + 1 + 0) / 3)


def test_of_one_class_it_has_the_interval_of_accuracy_where_all_are_right():
    """A sample that does not vary: 1 − α/2 of the samples of a model that is right less often than .025^(1/n) would."""
    for n in (5, 40):
        found = macro_f1(np.zeros(n, dtype=int), np.zeros(n, dtype=int))
        assert (found.value, found.high, found.n) == (1.0, 1.0, n)
        assert found.low == pytest.approx(0.025 ** (1 / n))


def test_equal_predictions_differ_by_0_and_the_interval_is_not_empty():
    label, predicted = np.array([0, 1] * 20), np.array([0, 1, 1, 1] * 10)
    found = macro_f1(label, predicted, predicted)
    assert found.value == 0
    assert found.low < 0 < found.high


def test_the_interval_is_the_bootstraps():
    """Written out for two classes, with a column per count."""
    generator = np.random.default_rng(0)
    label = generator.integers(0, 2, size=60)
    predicted = np.where(generator.random(60) < 0.8, label, 1 - label)

    def slow(means):
        hits, chosen, gold = means[:, :2], means[:, 2:4], means[:, 4:]
        return (2 * hits / (chosen + gold)).mean(axis=1)

    is_label, is_predicted = (values[:, None] == np.arange(2) for values in (label, predicted))
    columns = np.concatenate([is_label & is_predicted, is_predicted, is_label], axis=1).astype(float)
    expected = interval(columns, slow, bounds=(0, 1))
    found = macro_f1(label, predicted)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_where_none_is_right_the_interval_reaches_up():
    found = macro_f1(np.array([0] * 5), np.array([1] * 5))
    assert (found.value, found.low) == (0, 0)
    assert 0 < found.high <= 1


def test_without_a_label_the_line_says_so():
    nothing = np.zeros(0, dtype=int)
    row = macro_f1_line({"model": "a"}, nothing, nothing)
    assert (row["metric"], row["n"], row["note"]) == ("macro-F1", 0, "no example has a label")
