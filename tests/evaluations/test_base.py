import math

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark.errors import NotApplicable
from benchmark.evaluations.base import Averaged, Derived, table
from benchmark.results.record import Metric
from benchmark.results.statistics import interval
from tests.evaluations.conftest import figure_of

METRICS = {
    "score": Metric(True, (0.0, 1.0)),
    "curve": Metric(True, (0.0, 1.0), x="k"),
    "ratio": Metric(True, (0.0, 9.0), x="k"),
}


class Example(Averaged):
    @property
    def metrics(self):
        return METRICS

    @property
    def derived(self):
        return {"ratio": Derived(("hits", "size"), lambda m: m[..., 0] / m[..., 1], ("size",))}

    def rows(self, model, batch, attribution):
        raise NotImplementedError


def rows_of(n=12, seed=0):
    generator = np.random.default_rng(seed)
    uids = [f"u{i}" for i in range(n)]
    return pd.concat(
        [
            table(uids, "score", generator.random(n)),
            table(uids, "curve", generator.random((n, 2)), x=(1, 2)),
            table(uids[3:], "curve", generator.random((n - 3, 1)), x=(3,)),
            table(uids, "hits", generator.random((n, 2)), x=(1, 2)),
            table(uids, "size", 1 + generator.random(n)),
        ],
        ignore_index=True,
    )


def test_figures_are_means_with_the_bootstrap_of_their_own_examples():
    rows = rows_of()
    figures = Example().reduce(rows)
    assert [(f.metric, f.n) for f in figures] == [
        ("score", 12), ("curve", 12), ("curve", 12), ("curve", 9), ("ratio", 12), ("ratio", 12)
    ]  # fmt: skip
    for x, n in ((2, 12), (3, 9)):
        values = rows[(rows["metric"] == "curve") & (rows["x"] == x)].sort_values("uid")["value"].to_numpy()
        expected, found = interval(values, bounds=METRICS["curve"].bounds), figure_of(figures, "curve", x)
        assert len(values) == n
        assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_derived_figures_pair_the_columns_by_example():
    rows = rows_of()
    hits = rows[(rows["metric"] == "hits") & (rows["x"] == 2)].sort_values("uid")["value"].to_numpy()
    size = rows[rows["metric"] == "size"].sort_values("uid")["value"].to_numpy()
    expected = interval(np.stack([hits, size], 1), lambda m: m[..., 0] / m[..., 1])
    found = figure_of(Example().reduce(rows), "ratio", 2)
    assert found.value == pytest.approx(hits.sum() / size.sum())
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_reduce_is_pure_and_blind_to_the_order_of_rows():
    rows = rows_of()
    before = rows.copy()
    first = Example().reduce(rows)
    second = Example().reduce(rows.sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(rows, before)
    assert repr(first) == repr(second)


def test_no_row_is_not_applicable_and_a_nan_is_shown():
    with pytest.raises(NotApplicable):
        Example().reduce(rows_of().iloc[:0])
    figures = Example().reduce(table(["a", "b"], "score", np.array([math.nan, 1.0])))
    assert math.isnan(figures[0].value)
    assert figures[0].n == 2


def test_table_leaves_out_what_is_undefined():
    values = torch.tensor([[1.0, 2.0], [3.0, math.nan]])
    assert len(table(["a", "b"], "m", values, x=(0.0, 1.0))) == 4
    part = table(["a", "b"], "m", values, x=(0, 1), defined=torch.tensor([False, True]))
    assert part["uid"].tolist() == ["b", "b"]
    assert part["x"].tolist() == [0, 1]
    single = table(["a", "b"], "m", values, x=(0, 1), defined=np.array([[True, False], [False, False]]))
    assert single["value"].tolist() == [1.0]
    assert table(["a"], "m", np.array([2.0]))["x"].isna().all()
