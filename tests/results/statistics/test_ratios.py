import numpy as np
import pytest

from benchmark.results.statistics import RATIOS, f1_of_ratios, f1_of_sums, mean_of_ratios, ratio


def test_ratios_of_nothing():
    assert ratio(np.array([1.0, 2.0])) == 0.5
    assert np.isnan(ratio(np.array([0.0, 0.0])))
    assert f1_of_sums(np.zeros(3)) == 0
    assert f1_of_ratios(np.zeros(4)) == 0


def test_statistics_of_ratios():
    means = np.array([[1.0, 3.0, 2.0, 4.0], [2.0, 2.0, 4.0, 1.0]])
    assert mean_of_ratios(means) == pytest.approx([(1 / 2 + 3 / 4) / 2, (2 / 4 + 2 / 1) / 2])
    precision, recall = 1 / 3, 2 / 4
    assert f1_of_ratios(means)[0] == pytest.approx(2 * precision * recall / (precision + recall))
    assert {"ratio", "mean_of_ratios", "f1_of_ratios"} <= set(RATIOS)
