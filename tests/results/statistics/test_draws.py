"""Rows of tests under several draws, by example and draw."""

import numpy as np
import pandas as pd
import pytest

from benchmark.results.statistics import matrix, of_orders, of_resamples, sources


def test_rows_become_a_matrix_by_example_and_draw():
    rows = pd.DataFrame({"uid": ["b", "a", "b", "a"], "draw": [1, 0, 0, 1], "value": [4.0, 1.0, 3.0, 2.0]})
    uids, values = matrix(rows)
    assert (uids, values.tolist()) == (("a", "b"), [[1.0, 2.0], [3.0, 4.0]])
    assert matrix(rows.iloc[:2].drop(columns="draw"))[1].tolist() == [[1.0], [4.0]]


def test_an_example_has_one_value_in_a_draw():
    with pytest.raises(ValueError, match="two values in one draw"):
        matrix(pd.DataFrame({"uid": ["a", "a"], "draw": [1, 1], "value": [1.0, 2.0]}))


def test_orders_and_resamples_are_sources_of_their_own():
    values = np.random.default_rng(0).normal(size=(4, 3))
    rows = pd.DataFrame(
        [
            {"uid": f"e{example}", "draw": draw, "value": values[example, draw]}
            for example in range(4)
            for draw in range(3)
        ]
    )
    assert sources(rows, None) == sources(rows, rows.iloc[:0]) == of_orders(values)
    assert sources(rows[rows["draw"] == 0], rows) == of_resamples(values)
