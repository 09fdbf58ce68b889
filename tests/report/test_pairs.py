import numpy as np
import pytest

from benchmark.report.cells import load_cells
from benchmark.report.leaderboard import MetricColumn, frame
from benchmark.report.markdown import markdown
from benchmark.report.pairs import differences, every_pair, pairs
from benchmark.results.statistics import intervals
from tests.report.folders import Plan, write_cells

HIGHER, LOWER = MetricColumn("perturbation", "negative_auc", True), MetricColumn("perturbation", "positive_auc", False)
PLANS = [
    Plan("oracle"), Plan("random"), Plan("inverted"),
    Plan("good", 0.6), Plan("alike", 0.6), Plan("fair", 0.5), Plan("poor", -0.3),
]  # fmt: skip


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return load_cells(write_cells(tmp_path_factory.mktemp("runs"), PLANS))


def figure(cell, column):
    return cell.evaluation(column.evaluation).scalar(column.metric)


@pytest.mark.parametrize("column", [HIGHER, LOWER])
def test_pairs_differ_where_their_intervals_overlap(cells, column):
    """What a reader would have called equal by two intervals is told apart on the same examples."""
    found = pairs(cells, column)
    assert set(found.methods[:2]) == {"good", "alike"}
    assert found.methods[2:] == ("fair", "poor")
    best, fair = (next(cell for cell in cells if cell.method == name) for name in (found.methods[0], "fair"))
    figures = [figure(cell, column) for cell in (best, fair)]
    assert max(f.low for f in figures) < min(f.high for f in figures)  # they overlap
    assert found.better(found.methods[0], "fair")
    assert not found.better("fair", found.methods[0])
    assert not found.better(*found.methods[:2])
    assert found.comparisons[found.methods[0], "fair"].gain.value > 0
    assert found.comparisons["poor", "oracle"].gain.value < 0


def test_the_family_is_the_pairs_of_real_methods(cells):
    found = pairs(cells, HIGHER)
    assert len(found.adjusted) == 6
    assert len(found.comparisons) == 21
    assert not any("oracle" in pair for pair in found.adjusted)
    smallest = min(found.adjusted, key=lambda pair: found.comparisons[pair].p)
    assert found.adjusted[smallest] == pytest.approx(6 * found.comparisons[smallest].p)


def test_sentences_follow_from_the_pairs(cells):
    found = pairs(cells, HIGHER)
    best, second = found.methods[:2]
    assert found.sentences == [
        "5 of 6 pairs differ",
        f"not distinguishable from {best}, the best figure: {second}",
        f"worse than {best}: fair, poor",
    ]


def test_too_few_examples(tmp_path):
    plans = [Plan(name, skill, n=6) for name, skill in (("a", 1.5), ("b", 0.0), ("c", -1.5))]
    found = pairs(load_cells(write_cells(tmp_path, plans)), HIGHER)
    assert found.sentences == ["no verdict: n = 6, and 3 pairs need at least 7 examples"]
    assert all(p > 0.05 for p in found.adjusted.values())


def test_what_rows_do_not_give_is_said_and_not_bridged(tmp_path):
    loaded = load_cells(write_cells(tmp_path, [Plan("a"), Plan("b")]))
    found = pairs(loaded, MetricColumn("rationale", "micro_f1", True))
    assert found.comparisons == {("a", "b"): None}
    assert found.sentences == ["not compared, as rows are missing or do not give the figure: a and b"]
    table = differences({("planted", "tiny"): [found]})
    assert table["note"].tolist() == ["not compared, as rows are missing or do not give the figure"]
    assert table[["difference", "p", "p_holm"]].isna().all(axis=None)


def test_pairs_over_fewer_examples_say_so(tmp_path):
    plans = [Plan("a", 0.5), Plan("b", 0.0), Plan("c", -0.5, without=(1, 2))]
    found = pairs(load_cells(write_cells(tmp_path, plans)), HIGHER)
    assert len(found.adjusted) == 3
    table = differences({("planted", "tiny"): [found]}).set_index(["first", "second"])
    assert table["n"].to_dict() == {("a", "b"): 60, ("a", "c"): 58, ("b", "c"): 58}
    assert table.loc[("a", "c"), "note"] == "without 2 examples that only one has"


def test_differences_are_those_of_the_figures(cells):
    table = differences(every_pair(cells, frame(cells)))
    by_method = {cell.method: cell for cell in cells}
    assert set(table["metric"]) == {"positive_auc", "negative_auc", "auprc"}
    for row in table.to_dict("records"):
        column = MetricColumn(row["evaluation"], row["metric"], None)
        values = [figure(by_method[row[side]], column).value for side in ("first", "second")]
        assert row["difference"] == pytest.approx(values[0] - values[1])
        assert row["low"] <= row["difference"] <= row["high"]
    row = table[(table["metric"] == "positive_auc") & (table["second"] == "fair")].iloc[0]
    assert row["difference"] < 0  # lower is better
    assert row["better"] == row["first"]
    rows = [by_method[row[side]].values("perturbation", "positive_auc") for side in ("first", "second")]
    values = [part.sort_values("uid")["value"].to_numpy() for part in rows]
    direct = intervals((values[1] - values[0])[:, None], bounds=(-1.0, 1.0))[0]
    assert (row["low"], row["high"]) == pytest.approx((-direct.high, -direct.low))


def test_the_report_shows_them(cells):
    text = markdown(cells, frame(cells), every_pair(cells, frame(cells)))
    assert "5 of 6 pairs differ" in text
    lines = [line for line in text.splitlines() if line.startswith("| negative")]
    assert len(lines) == 1
    assert "oracle | random | inverted" in lines[0]
    row = next(line for line in text.splitlines() if line.startswith("| fair | p "))
    assert "\\*" in row
    assert "bootstrap interval" not in text


def test_many_methods_are_left_to_the_csv(tmp_path):
    plans = [Plan(f"method_{i}", i / 20) for i in range(14)]
    loaded = load_cells(write_cells(tmp_path, plans))
    every = every_pair(loaded, frame(loaded))
    text = markdown(loaded, frame(loaded), every)
    assert "of 91 pairs differ" in text
    assert "| p " not in text
    table = differences(every)
    assert len(table) == 3 * 91
    assert set(table["family"]) == {91}
    assert np.isfinite(table["p_holm"]).all()
