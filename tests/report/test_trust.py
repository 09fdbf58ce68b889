"""Columns stand in the order of what is known of their tests; those that fail here are grey and say why."""

import io
import re

import pandas as pd
import pytest
from rich.console import Console

from benchmark.report import load_cells, terminal_table, write_report
from benchmark.report.leaderboard import frame, headline_columns, make_board
from benchmark.results import store
from benchmark.results.digests import sealed
from benchmark.results.tables import Table, line
from benchmark.results.tables import frame as lines
from benchmark.results.trust import NOT_HERE, REMOVALS, USE, WITH_CARE, Trust, told_of
from benchmark.settings.report_settings import ReportSettings
from tests.report.carried import carried
from tests.report.folders import Plan, write_cells

VERDICTS = {
    "perturbation.positive_auc": (NOT_HERE, "fails controls"),
    "perturbation.negative_auc": (USE, "all that was asked passes"),
    "rationale.auprc": (WITH_CARE, "not asked: controls"),
}


def which_test(verdicts=VERDICTS):
    rows = []
    for key, (verdict, why) in verdicts.items():
        rows += [
            line({"test": key}, "so", note=verdict, key=f"{key}.verdict"),
            line({"test": key}, "why", note=why, key=f"{key}.why"),
        ]
    return Table("which_test", "Which tests can be trusted here", ("test",), lines(rows, ("test",)))


@pytest.fixture
def cells(tmp_path):
    names = ("attattr", "rollout", "gradient_x_input", "oracle", "random", "inverted")
    return load_cells(write_cells(tmp_path / "runs", [Plan(name) for name in names]))


def test_verdicts_are_found_by_their_keys():
    found = told_of(
        [Table("other", "", ("a",), pd.DataFrame([line({"a": 1}, "b", 0.5, key="x.y.verdict")])), which_test()]
    )
    assert found == {key: Trust(*told) for key, told in VERDICTS.items()}
    assert [found[key].place for key in VERDICTS] == [2, 0, 1]
    assert [bool(found[key].doubt) for key in VERDICTS] == [True, False, False]


def test_columns_of_tests_that_fail_come_last_of_their_kind(cells):
    plain = [column.metric for column in headline_columns(frame(cells))]
    assert plain == ["positive_auc", "negative_auc", "auprc"]
    table = frame(cells, [which_test()])
    columns = headline_columns(table)
    assert sorted(column.metric for column in columns) == sorted(plain)
    own = [column.metric for column in columns if column.evaluation == "perturbation"]
    assert own == ["negative_auc", "positive_auc"]
    board = make_board(table, columns)
    doubted = {heading.code or heading.name: heading.doubt for heading in board.columns}
    assert [name for name, doubt in doubted.items() if doubt] == ["positive_auc"]
    assert any("not here: fails controls" in sentence for sentence in board.below)
    assert not any(NOT_HERE in sentence for sentence in make_board(frame(cells), headline_columns(frame(cells))).below)


def test_below_the_table_stands_what_removals_leave(cells):
    labels, key = {"test": "a"}, f"perturbation.positive_auc.{REMOVALS}"
    table = Table(
        "which_test_removals",
        "",
        ("test",),
        pd.DataFrame([line(labels, "what they leave", note="they lead out", key=key)]),
    )
    told = frame(cells, [which_test(), table])
    below = make_board(told, headline_columns(told)).below
    assert [one for one in below if one.startswith("Removals of ")] == [
        "Removals of perturbation.positive_auc: they lead out."
    ]


def test_figures_are_the_same(cells):
    told = ["method", "evaluation", "metric", "value", "low", "high", "n"]
    pd.testing.assert_frame_equal(frame(cells)[told], frame(cells, [which_test()])[told])


def test_a_table_of_one_comparison_says_nothing_of_several(tmp_path):
    plans = [Plan(name, task={"name": task}) for task in ("a", "b") for name in ("attattr", "random")]
    table = frame(load_cells(write_cells(tmp_path / "runs", plans)), [which_test()])
    assert set(table["doubt"]) == {""}


def report_of(cells, folder, **settings):
    place = folder / "analyses"
    place.mkdir(parents=True)
    store.write_json(place / "which_test.json", sealed({"tables": [which_test().to_json()]}))
    write_report(cells, folder, ReportSettings(**settings))
    return folder


def test_every_file_says_it_unless_it_is_switched_off(cells, tmp_path):
    told, off = report_of(cells, tmp_path / "told"), report_of(cells, tmp_path / "off", trust=False)
    sentence = "not here: fails controls"
    for name in ("leaderboard.md", "leaderboard.tex"):
        assert sentence in (told / name).read_text(encoding="utf-8")
        assert sentence not in (off / name).read_text(encoding="utf-8")
    facts = {
        place: carried((place / "index.html").read_text(encoding="utf-8"))["overview-data"]["boards"][0]["scalars"]
        for place in (told, off)
    }
    assert {one["name"]: one["doubt"] for one in facts[told] if one["doubt"]} == {"positive_auc": sentence}
    assert not any(one["doubt"] for one in facts[off])
    assert (told / "leaderboard.csv").read_bytes() == (off / "leaderboard.csv").read_bytes()
    assert (told / "leaderboard.json").read_bytes() == (off / "leaderboard.json").read_bytes()


def test_the_terminal_dims_what_fails(cells):
    def printed(tables):
        console = Console(width=160, record=True, file=io.StringIO())
        console.print(terminal_table(cells, tables))
        return console.export_text(styles=True)

    told, plain = printed([which_test()]), printed([])
    assert "not here: fails controls" in " ".join(re.sub(r"\x1b\[[\d;]*m", "", told).split())
    assert told.count("\x1b[2m") > plain.count("\x1b[2m") + 5
