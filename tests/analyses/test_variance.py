"""Shares of variance against loops over the textbook's sums of squares, and the balanced layout they need."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmark.analyses.layouts import Measure, Value, best, layout, read
from benchmark.analyses.variance import OF_MEANS, SOURCES, decompose
from benchmark.results.record import Figure
from benchmark.results.rows import StoredRows
from benchmark.results.statistics import Interval, spread_interval
from tests.records import evaluation_record


def random_values(shape=(7, 4, 3), seed=0):
    generator = np.random.default_rng(seed)
    n, e, f = shape
    parts = (generator.normal(size=size) for size in ((1, e, 1), (1, 1, f), (1, e, f), (n, 1, 1), (n, e, f)))
    return 5 + sum(weight * part for weight, part in zip((2.0, 1.0, 0.7, 1.5, 0.5), parts, strict=True))


def shares_by_loops(y):
    """η² and the shares among combinations, one sum of squares after the other."""
    n, n_e, n_f = y.shape
    grand = sum(y[i, e, f] for i, e, f in product(range(n), range(n_e), range(n_f))) / y.size
    of_e = [sum(y[i, e, f] for i in range(n) for f in range(n_f)) / (n * n_f) for e in range(n_e)]
    of_f = [sum(y[i, e, f] for i in range(n) for e in range(n_e)) / (n * n_e) for f in range(n_f)]
    of_i = [sum(y[i, e, f] for e in range(n_e) for f in range(n_f)) / (n_e * n_f) for i in range(n)]
    of_ef = {(e, f): sum(y[i, e, f] for i in range(n)) / n for e in range(n_e) for f in range(n_f)}
    total = sum((y[i, e, f] - grand) ** 2 for i, e, f in product(range(n), range(n_e), range(n_f)))
    first = n * n_f * sum((m - grand) ** 2 for m in of_e)
    second = n * n_e * sum((m - grand) ** 2 for m in of_f)
    interaction = n * sum((m - of_e[e] - of_f[f] + grand) ** 2 for (e, f), m in of_ef.items())
    examples = n_e * n_f * sum((m - grand) ** 2 for m in of_i)
    residual = sum(
        (y[i, e, f] - of_ef[e, f] - of_i[i] + grand) ** 2 for i, e, f in product(range(n), range(n_e), range(n_f))
    )
    parts = np.array([first, second, interaction, examples, residual])
    return parts / total, parts[:3] / parts[:3].sum()


def found_shares(values, **settings):
    found = decompose(values, **settings)
    return [found.of_all[name] for name in SOURCES], [found.of_means[name] for name in OF_MEANS], found.difference


def test_shares_and_intervals_equal_loops():
    y, resamples = random_values(), 40
    of_all, of_means, difference = found_shares(y, seed=3, resamples=resamples)
    expected_all, expected_means = shares_by_loops(y)
    assert [share.value for share in of_all] == pytest.approx(expected_all)
    assert [share.value for share in of_means] == pytest.approx(expected_means)
    assert difference.value == pytest.approx(expected_means[0] - expected_means[1])
    drawn = np.random.default_rng(3).integers(0, len(y), size=(resamples, len(y)))
    again = [shares_by_loops(y[rows]) for rows in drawn]
    for shares, place in ((of_all, 0), (of_means, 1)):
        drawn_shares = np.array([sample[place] for sample in again]).T
        expected = [
            spread_interval(share.value, own, len(y), (0.0, 1.0))
            for share, own in zip(shares, drawn_shares, strict=True)
        ]
        assert [share.low for share in shares] == pytest.approx([one.low for one in expected])
        assert [share.high for share in shares] == pytest.approx([one.high for one in expected])
        assert {share.n for share in shares} == {len(y)}
    gaps = [sample[1][0] - sample[1][1] for sample in again]
    expected = spread_interval(difference.value, gaps, len(y), (-1.0, 1.0))
    assert [difference.low, difference.high] == pytest.approx([expected.low, expected.high])


def test_shares_sum_to_one_and_do_not_see_scale_or_offset():
    y = random_values((20, 5, 6), seed=1)
    of_all, of_means, _ = found_shares(y)
    assert sum(share.value for share in of_all) == pytest.approx(1)
    assert sum(share.value for share in of_means) == pytest.approx(1)
    moved, _, _ = found_shares(1e6 - 3 * y)
    assert [share.value for share in moved] == pytest.approx([share.value for share in of_all], rel=1e-6)


def test_an_additive_table_has_no_interaction():
    first, second, examples = np.array([0.0, 1.0, 5.0]), np.array([0.0, 2.0]), np.arange(6) ** 2.0
    y = examples[:, None, None] + first[None, :, None] + second[None, None]
    of_all, of_means, _ = found_shares(y)
    assert of_means[2].value == pytest.approx(0, abs=1e-12)
    assert of_all[4].value == pytest.approx(0, abs=1e-12)
    variances = np.array([first.var(), second.var(), 0, examples.var(), 0])
    assert [share.value for share in of_all] == pytest.approx(variances / variances.sum(), abs=1e-12)
    assert np.isnan(of_means[0].low), "the same in every resample, which is no interval"


def test_a_crossed_table_is_all_interaction_and_no_variance_has_no_shares():
    y = np.tile(np.array([[1.0, -1.0], [-1.0, 1.0]]), (4, 1, 1))
    _, of_means, difference = found_shares(y)
    assert [share.value for share in of_means] == pytest.approx([0, 0, 1])
    assert difference.value == pytest.approx(0)
    of_all, _, _ = found_shares(np.full((4, 2, 2), 0.1))
    assert all(np.isnan(share.value) for share in of_all)


def value(numbers, uids=None):
    examples = pd.Series(numbers, index=uids or [f"u{i}" for i in range(len(numbers))], dtype=float)
    return Value(Interval(float(examples.mean()), 0.0, 1.0, len(examples)), examples)


def grid(edges="abc", readouts="xyz", n=4):
    generator = np.random.default_rng(0)
    return {(e, r): value(generator.random(n)) for e in edges for r in readouts}


def test_a_whole_layout_keeps_everything_in_its_place():
    values = grid()
    found = layout(values)
    assert (found.edges, found.readouts, found.left_out) == (("a", "b", "c"), ("x", "y", "z"), ())
    for (e, edge), (r, readout) in product(enumerate("abc"), enumerate("xyz")):
        assert found.values[:, e, r] == pytest.approx(values[edge, readout].examples.to_numpy())


def test_what_cannot_serve_is_left_out_with_its_reason():
    values = grid() | {("b", readout): "it knows no edges" for readout in "xyz"} | {("a", "z"): "not finite"}
    found = layout(values)
    assert (found.edges, found.readouts) == (("a", "c"), ("x", "y")), "z lacks half of what is left, a a third"
    assert found.values.shape == (4, 2, 2)
    assert found.left_out == (
        "Edge score b is left out of the shares: 3 of 3 readouts lack values (it knows no edges)",
        "Readout z is left out of the shares: 1 of 2 edge scores lack values (not finite)",
    )
    assert found.shown["b", "x"] == "it knows no edges"
    assert isinstance(found.shown["c", "z"], Interval), "its figure is shown all the same"


def test_too_little_is_left_for_shares():
    values = grid("ab") | {("b", readout): "no" for readout in "xyz"}
    found = layout(values)
    assert found.values is None
    assert "fewer than two" in found.reason
    assert layout(dict.fromkeys(values, "no")).values is None


def test_examples_without_a_value_everywhere_are_left_out_and_counted():
    values = grid() | {("a", "x"): value([1.0, 2.0, 3.0], ["u0", "u2", "u3"])}
    found = layout(values)
    assert found.values[:, 0, 0].tolist() == [1, 2, 3]
    assert found.values[1, 1, 1] == values["b", "y"].examples["u2"]
    assert found.left_out == ("1 of 4 examples, without a value for some combination",)
    few = layout(grid() | {("a", "x"): value([1.0], ["u0"])})
    assert few.edges == ("b", "c")
    assert "fewer than half of the examples" in few.left_out[0]


def test_figures_are_read_with_the_examples_they_are_the_mean_of():
    measure = Measure("test", "score", higher_is_better=False)
    rows = StoredRows.of(
        pd.DataFrame(
            {
                "uid": ["b", "a", "a"],
                "evaluation": "test",
                "metric": "score",
                "x": [np.nan, np.nan, 0.5],
                "value": [3.0, 1.0, 9],
                "draw": 0,
            }
        )
    )

    def record(value, n, dash=None):
        figures = () if dash else (Figure("score", np.nan, value, 0.0, 4.0, n),)
        return SimpleNamespace(evaluations={"test": evaluation_record(figures=figures, dash=dash)})

    cells = {
        ("a", "x"): (record(2.0, 2), rows),
        ("a", "y"): (record(2.5, 2), rows),
        ("b", "x"): (record(np.nan, 0, "it cannot"), rows),
    }
    found = read(cells, measure)
    assert found["a", "x"].examples.to_dict() == {"a": 1.0, "b": 3.0}
    assert found["a", "y"].examples is None, "the figure is no mean of them"
    assert found["b", "x"] == "it cannot"
    assert list(best(measure, layout(found))) == ["a with x: 2.000 [0.000, 4.000]"]
    upwards = replace(measure, higher_is_better=True)
    assert list(best(upwards, layout(found))) == ["a with y: 2.500 [0.000, 4.000]"]
    assert list(best(replace(measure, higher_is_better=None), layout(found))) == []
    tied = read(cells | {("b", "x"): cells["a", "x"]}, measure)
    assert list(best(measure, layout(tied))) == ["a with x: 2.000 [0.000, 4.000] (and 1 more with the same value)"]
