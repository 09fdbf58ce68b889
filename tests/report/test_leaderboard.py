import math
import shutil

import numpy as np
import pandas as pd
import pytest

from benchmark.errors import UserError
from benchmark.report import read_leaderboard
from benchmark.report.arrangement import is_control
from benchmark.report.cells import load_cells
from benchmark.report.leaderboard import COLUMNS, headline_columns, make_board, scalar_columns
from benchmark.results import store
from tests.report.conftest import DASHED
from tests.report.folders import FRACTIONS, METRICS, Plan, changed, resealed, write_cell, write_cells


def at(table, method, evaluation, metric):
    chosen = table[(table["method"] == method) & (table["evaluation"] == evaluation) & (table["metric"] == metric)]
    assert len(chosen) == 1
    return chosen.iloc[0]


def test_every_figure_of_every_record_is_there(comparison):
    _, folders = comparison
    table = read_leaderboard(folders)
    assert tuple(table.columns) == COLUMNS
    for folder in folders:
        record = store.read_record(folder)
        label = next(cell.method for cell in load_cells(folders) if cell.stored.folder == folder)
        for evaluation, test in record.evaluations.items():
            for figure in test.figures:
                rows = table[
                    (table["method"] == label)
                    & (table["evaluation"] == evaluation)
                    & (table["metric"] == figure.metric)
                ]
                row = rows[np.isclose(rows["x"], figure.x, equal_nan=True)].iloc[0]
                expected = [figure.value, figure.low, figure.high, figure.n]
                np.testing.assert_array_equal([row["value"], row["low"], row["high"], row["n"]], expected)
                metric = METRICS[evaluation][figure.metric]
                assert row["higher_is_better"] is metric.higher_is_better
                assert row["headline"] == metric.headline
                assert row["dash"] is None


def test_curves_have_their_points(comparison):
    table = read_leaderboard(comparison[1])
    points = table[(table["method"] == "rollout") & table["x"].notna()]
    assert tuple(points["x"]) == FRACTIONS


def test_dashes_carry_their_reason(comparison):
    table = read_leaderboard(comparison[1])
    assert at(table, "lrp", "rationale", "auprc")["dash"] == DASHED
    assert math.isnan(at(table, "lrp", "rationale", "auprc")["value"])
    assert at(table, "flow", "perturbation", "positive_auc")["dash"] == "the model bypasses the attention interface"
    assert at(table, "broken", "perturbation", "positive_auc")["dash"] is None


def test_a_test_that_was_not_run_for_a_method_is_a_dash(tmp_path):
    folders = write_cells(tmp_path, [Plan("rollout"), Plan("attattr", evaluations=("rationale",))])
    assert "not run" in at(read_leaderboard(folders), "attattr", "perturbation", "positive_auc")["dash"]


def test_sweeps_and_mixed_tasks_are_told_apart(tmp_path, comparison):
    methods = read_leaderboard(comparison[1])["method"].unique()
    assert {"attattr (steps=5)", "attattr (steps=10)", "attattr (steps=20)", "rollout"} <= set(methods)
    plans = [Plan("rollout", task={"limit": limit}) for limit in (10, 20)]
    plans += [
        Plan("rollout", task={"name": "movies"}),
        Plan("rollout", task={"name": "movies"}, model={"dtype": "float64"}),
    ]
    table = read_leaderboard(write_cells(tmp_path, plans))
    assert set(zip(table["task"], table["model"], strict=True)) == {
        ("planted (limit=10)", "tiny"), ("planted (limit=20)", "tiny"),
        ("movies", "tiny (dtype=float32)"), ("movies", "tiny (dtype=float64)"),
    }  # fmt: skip
    assert set(table["method"]) == {"rollout"}


def test_evaluations_of_another_version_are_no_rivals(tmp_path):
    folders = write_cells(tmp_path, [Plan("rollout"), Plan("attattr")])
    changed(folders[0], lambda record: record["evaluations"]["rationale"].update(version=2))
    table = read_leaderboard(folders)
    assert at(table, "rollout", "rationale (version=2)", "auprc")["dash"] is None
    assert "not run" in at(table, "rollout", "rationale (version=1)", "auprc")["dash"]


def test_order_and_repetition_of_folders_do_not_matter(comparison):
    folders = comparison[1]
    pd.testing.assert_frame_equal(read_leaderboard(folders), read_leaderboard([*reversed(folders), folders[0]]))


def test_a_copied_cell_counts_once(tmp_path):
    folder = write_cell(tmp_path / "a", Plan("rollout"))
    copy = tmp_path / "b" / folder.name
    shutil.copytree(folder, copy)
    assert list(read_leaderboard([folder, copy])["method"].unique()) == ["rollout"]


def test_ranks_are_of_real_methods_with_finite_values_in_the_metric_s_direction(tmp_path):
    plans = [
        Plan("oracle"),
        Plan("good", 0.9),
        Plan("fair", 0.5),
        Plan("poor", -0.5),
        Plan("broken", nan=("positive_auc",)),
    ]
    table = read_leaderboard(write_cells(tmp_path, plans))
    board = make_board(table, scalar_columns(table))
    ranks = {row.labels[0]: [entry.rank for entry in row.entries] for row in board.rows}
    places = [(heading.group, heading.name) for heading in board.columns]
    lower, higher = places.index(("perturbation", "positive_auc")), places.index(("perturbation", "negative_auc"))
    descriptive, tied = places.index(("agreement", "kendall_gradient")), places.index(("rationale", "micro_f1"))
    assert [ranks[name][lower] for name in ("good", "fair", "poor", "broken", "oracle")] == [1, 2, 3, None, None]
    assert [ranks[name][higher] for name in ("good", "fair", "poor", "oracle")] == [1, 2, 4, None]  # third: broken
    assert all(own[descriptive] is None for own in ranks.values())
    assert {ranks[name][tied] for name in ("good", "fair", "poor")} == {None}  # equal for all: none is best
    assert board.groups["methods"][0].labels == ("good",)
    assert [row.labels for row in board.groups["controls"]] == [("oracle",)]


def test_a_single_method_is_not_ranked(tmp_path):
    table = read_leaderboard(write_cells(tmp_path, [Plan("rollout"), Plan("random")]))
    board = make_board(table, headline_columns(table))
    assert all(entry.rank is None for row in board.groups["methods"] for entry in row.entries)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("record.json", "{"),
        ("record.json", "{}"),
        ("record.json", '{"hash": "a", "task": {"name": "planted"}, "model": {}, "method": {}, "evaluations": {}}'),
        ("config.yaml", "a: [1"),
    ],
)
def test_a_corrupt_folder_is_named_in_one_line(tmp_path, name, content):
    folder = write_cell(tmp_path, Plan("rollout"))
    (folder / name).write_text(content)
    resealed(folder)
    with pytest.raises(UserError) as raised:
        read_leaderboard([folder])
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_figures_of_a_wrong_form_are_a_corrupt_folder(tmp_path):
    folder = write_cell(tmp_path, Plan("rollout"))
    changed(folder, lambda record: record["evaluations"]["rationale"]["figures"][0].pop("n"))
    with pytest.raises(UserError, match=r"corrupt \(evaluations\.rationale\.figures\[0\]\.n is missing\)"):
        read_leaderboard([folder])


def test_no_folders_is_an_error():
    with pytest.raises(UserError, match="no finished run folders"):
        read_leaderboard([])


def test_further_seeds_of_the_random_control_are_controls() -> None:
    assert is_control("random_3")
    assert is_control("random_3 (split=validation)")
    assert not is_control("randomised")
    assert not is_control("attattr_left_5")


def test_metrics_of_several_tests_with_one_title_are_told_apart():
    row = {
        "x": math.nan,
        "higher_is_better": True,
        "title": "AUC gap",
        "short": "gap",
        "meaning": "",
        "doubt": "",
        "removals": "",
    }
    rows = [row | {"evaluation": test, "metric": "gap"} for test in ("pruning", "pruning_each")]
    rows.append(row | {"evaluation": "aopc", "metric": "compr", "title": "comprehensiveness", "short": ""})
    assert [(column.title, column.short) for column in scalar_columns(pd.DataFrame(rows))] == [
        ("AUC gap (pruning)", "gap (pruning)"),
        ("AUC gap (pruning each)", "gap (pruning each)"),
        ("comprehensiveness", ""),
    ]
