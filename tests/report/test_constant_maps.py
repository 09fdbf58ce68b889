"""Maps that say nothing are shown and not ranked, and figures that rest on too few examples are not shown."""

import io
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from benchmark.analyses.measured import figure_line
from benchmark.report.analysis_tables import printed, table_files
from benchmark.report.arrangement import ranks, span_of
from benchmark.report.cells import load_cells
from benchmark.report.latex import interval_of, latex_files
from benchmark.report.leaderboard import MetricColumn, frame, make_board, scalar_columns
from benchmark.report.markdown import markdown
from benchmark.report.naming import Names
from benchmark.report.page.overview import method_facts, scalars
from benchmark.report.pairs import differences, every_pair, pairs
from benchmark.report.printed import PrintedEntry
from benchmark.report.terminal import terminal_table
from benchmark.report.verdicts import against_random, calibration
from benchmark.report.write import SCHEMA, leaderboard_json
from benchmark.results.statistics import interval
from benchmark.results.tables import P_KEY, PROBABILITY, Table, line, reach_of
from benchmark.settings.report_settings import LatexSettings
from tests.analyses.rewording import reworded
from tests.report.folders import Plan, write_cells

LOWER, HIGHER = MetricColumn("perturbation", "positive_auc", False), MetricColumn("rationale", "auprc", True)
SILENT = {"rationale": 0.92, "perturbation": 0.3, "agreement": 0.0}
CONTROLS = [Plan("oracle"), Plan("random"), Plan("inverted")]
RULE = "constant on more than 10 % of the examples"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    kinds = {"perturbation": "faithfulness", "rationale": "plausibility"}
    plans = [
        *(Plan(name, kinds=kinds) for name in ("oracle", "random", "inverted")),
        Plan("silent", 0.95, constant=SILENT, kinds=kinds),
        Plan("good", 0.6, constant={"rationale": 0.05}, kinds=kinds),
        Plan("poor", -0.4, kinds=kinds),
    ]
    return load_cells(write_cells(tmp_path_factory.mktemp("runs"), plans))


def test_no_rank_rests_on_constant_maps(cells):
    table = frame(cells)
    columns = scalar_columns(table)
    board = make_board(table, columns)
    entries = {row.labels[0]: dict(zip(columns, row.entries, strict=True)) for row in board.rows}
    assert entries["silent"][HIGHER].value > entries["good"][HIGHER].value  # shown all the same
    assert [entries[name][HIGHER].rank for name in ("silent", "good", "poor")] == [None, 1, 2]
    assert [entries[name][LOWER].rank for name in ("silent", "good", "poor")] == [None, 1, 2]
    assert [row.labels[0] for row in board.groups["methods"]] == ["good", "poor", "silent"]  # no mean rank
    assert {row.labels[0]: row.constant for row in board.groups["methods"]} == {
        "good": "5 %", "poor": "", "silent": "0 %–92 %",
    }  # fmt: skip
    assert any(RULE in line and "silent (92 %) is shown, not ranked" in line for line in board.below)


def test_no_verdict_rests_on_constant_maps(cells):
    for column, share in ((HIGHER, 0.92), (LOWER, 0.3)):
        found, random = pairs(cells, column), against_random(cells, column)
        assert found.methods == ("good", "poor")
        assert set(found.adjusted) == {("good", "poor")}
        assert not any("silent" in pair for pair in found.comparisons)
        assert dict(random.constant) == dict(found.constant) == {"silent": share}
        assert (random.above, random.below, random.compared) == (("good",), ("poor",), 2)
        told = f"not compared, as their maps are constant: silent ({share * 100:.0f} %)"
        assert told in random.sentence
        assert told in found.sentences
    assert "silent" not in set(differences({("t", "m"): [pairs(cells, HIGHER)]})[["first", "second", "better"]].stack())


def test_the_share_stands_in_every_format(cells):
    table = frame(cells)
    compared = every_pair(cells, table)
    text = markdown(cells, table, compared)
    assert "| constant maps | n |" in text
    assert text.count(f"{RULE}: silent (92 %)") == 2  # the overview and the test; 30 % elsewhere
    assert f"{RULE}: silent (30 %)" in text
    assert "one seeded order per example tells apart for all methods: silent (30 %)." in text
    latex = dict(latex_files(cells, table, compared, Names.of(cells), LatexSettings()))["leaderboard.tex"].decode()
    assert "constant\\\\maps" in latex
    assert r"Silent (92 \%) is shown, not ranked" in latex
    console = Console(width=160, file=io.StringIO())
    console.print(terminal_table(cells))
    shown = console.file.getvalue()
    assert "constant" in shown
    assert "silent (92 %) is shown, not ranked" in shown.replace("\n", " ")
    content = json.loads(leaderboard_json(cells, table))
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content)
    silent = next(one for one in content["comparisons"][0]["methods"] if one["name"] == "silent")
    assert {one["test"]: (one["constant"], one["tied"]) for one in silent["figures"]} == {
        test: (share, share) for test, share in SILENT.items()
    }
    names = [cell.method for cell in cells]
    facts = method_facts({cell.method: cell for cell in cells}, names, Names.of(cells))
    told = {one["name"]: one["constant"] for one in facts}
    assert told["silent"] == "constant on 0 %–92 % of the examples, not ranked where that is more than a tenth"
    assert told["good"] == "constant on 5 % of the examples"
    assert told["poor"] is None
    auprc = next(one for one in scalars(cells, table, names) if one["name"] == "auprc")
    assert auprc["rank"][names.index("silent")] is None


def test_a_file_without_the_shares_is_valid(cells):
    content = json.loads(leaderboard_json(cells, frame(cells)))
    for method in content["comparisons"][0]["methods"]:
        for one in method["figures"]:
            del one["constant"], one["half_constant"], one["tied"]
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content)


def test_nothing_is_said_where_no_map_is_constant(tmp_path):
    cells = load_cells(write_cells(tmp_path, [*CONTROLS, Plan("a", 0.5, constant={"rationale": 0.0}), Plan("b")]))
    text = markdown(cells, frame(cells), every_pair(cells, frame(cells)))
    assert "constant maps" not in text
    assert RULE not in text


@pytest.mark.parametrize("column", [LOWER, HIGHER])
def test_constant_scores_must_not_beat_random_ones(tmp_path, column):
    for skill, told in ((0.6, "**not calibrated**, since constant scores beat random ones"), (0.0, "calibrated (")):
        plans = [*CONTROLS, Plan("constant", skill, constant={column.evaluation: 1.0})]
        sentence = calibration(load_cells(write_cells(tmp_path / str(skill), plans)), column)
        assert sentence.startswith(told)
        assert f"constant {'above' if skill else 'not above'} random: " in sentence
        assert "p " in sentence.split("constant ")[-1]


def test_a_control_that_is_cut_to_a_constant_calibrates_nothing(tmp_path):
    plans = [*CONTROLS[:2], Plan("inverted", constant={"rationale": 1.0})]
    cells = load_cells(write_cells(tmp_path, plans))
    assert calibration(cells, HIGHER) == "calibration not assessed (constant maps: inverted (100 %))"
    assert calibration(cells, LOWER).startswith("calibrated")


def test_best_of_equals_or_the_worst_that_is_possible_is_not_ranked():
    assert ranks({"a": 0.5, "b": 0.5}, True) == {}
    assert ranks({"a": 0.0, "b": 0.0, "c": 0.0}, True, (0, 1)) == {}
    assert ranks({"a": 0.0, "b": float("nan")}, True, (0, 1)) == {}
    assert ranks({"a": 1.0, "b": 1.0}, False, (0, 1)) == {}
    assert ranks({"a": 0.0, "b": 0.1, "c": 0.1}, True, (0, 1)) == {"a": 3, "b": 1, "c": 1}
    assert ranks({"a": 1.0, "b": 0.9}, True, (0, 1)) == {"a": 1, "b": 2}


def test_figures_that_few_examples_hardly_tell_are_not_printed(tmp_path):
    """Five values that lie far apart. CSV and JSON have the number."""
    few = {"rationale.auprc": [0.0, 1.0, 0.2, 0.9, 0.1], "perturbation.positive_auc": [0.50, 0.52, 0.51, 0.53, 0.49]}
    close = [0.3, 0.31, 0.32, 0.33, 0.34]
    plans = [Plan("wide", n=5, values=few), Plan("other", n=5, values={**few, "rationale.auprc": close})]
    cells = load_cells(write_cells(tmp_path, plans))
    table = frame(cells)
    row = table[(table["method"] == "wide") & (table["metric"] == "auprc")].iloc[0]
    assert row["high"] - row["low"] > 0.5
    board = make_board(table, scalar_columns(table))
    place = [heading.name for heading in board.columns].index("auprc")
    entry = next(row for row in board.rows if row.labels[0] == "wide").entries[place]
    assert (entry.value, entry.words, entry.rank) == (None, "n too small", None)
    assert "spans more than half" in board.notes[entry.mark - 1]
    text = markdown(cells, table, every_pair(cells, table))
    assert "n too small" in text
    assert "0.440" not in text
    content = json.loads(leaderboard_json(cells, table))
    values = {(m["name"], f["metric"]): f["value"] for m in content["comparisons"][0]["methods"] for f in m["figures"]}
    assert values["wide", "auprc"] == pytest.approx(0.44)


def test_nor_are_such_figures_and_small_p_values_in_the_tables_of_analyses():
    """What is known of the range comes with the interval; the CSV has every number."""
    apart, close = interval([1.0, 0.0, 1.0, 0.0], bounds=(0.0, 1.0)), interval([0.4, 0.5] * 20, bounds=(0.0, 1.0))
    endless = interval([1.0, 0.0, 1.0, 0.0])
    rows = [
        figure_line({"of": "apart"}, "share", apart),
        figure_line({"of": "close"}, "share", close),
        figure_line({"of": "noted"}, "share", apart, "2 of 6 left out"),
        figure_line({"of": "without a range"}, "share", endless),
        line({"of": "apart"}, "p", 3e-40, note=PROBABILITY, key=P_KEY),
        line({"of": "close"}, "p", 0.25, note=PROBABILITY, key=P_KEY),
    ]
    assert apart.high - apart.low > 0.5
    assert reach_of(rows[0]) == (0.0, 1.0)
    assert reach_of(rows[3]) == reach_of(line({"of": "nothing"}, "share", 1.0)) == (-math.inf, math.inf)
    shown = printed(Table("t", "T", ("of",), pd.DataFrame(rows)))
    entries = {row.labels[0]: row.entries for row in shown.rows}
    assert [(one.value, one.words) for one in entries["apart"]] == [(None, "n too small"), (None, "< 0.0001")]
    assert [one.value for one in entries["close"]] == [pytest.approx(0.45), 0.25]
    assert entries["close"][1].words == ""
    assert figure_line({"of": "said already"}, "share", apart, "n too small")["note"] == "n too small"

    assert (entries["noted"][0].value, entries["noted"][0].words) == (None, "n too small: 2 of 6 left out")
    assert entries["without a range"][0].value == 0.5
    assert any("spans more than half" in told for told in shown.below)
    assert any("a probability" in told for told in shown.below)
    again = printed(reworded(Table("t", "T", ("of",), pd.DataFrame(rows))))
    assert [[entry.value for entry in row.entries] for row in again.rows] == [
        [entry.value for entry in row.entries] for row in shown.rows
    ], "what is no result, and what is a probability, no note decides"
    assert again.below == shown.below
    files = dict(table_files([Table("t", "T", ("of",), pd.DataFrame(rows))]))
    assert b"3e-40" in files["table-t.csv"]
    assert rb"spans more than half" in files["analyses.tex"]


def test_an_interval_that_plus_minus_would_carry_out_of_the_range_is_shown_by_its_bounds():
    inside = PrintedEntry(0.5, 0.4, 0.59, reach=(0.0, 1.0))
    beyond = PrintedEntry(0.953, 0.9, 0.999, reach=(0.0, 1.0))
    assert interval_of(inside, "half") == "±0.100"
    assert interval_of(beyond, "half") == "[0.900, 0.999]"
    assert np.isnan(beyond.margin)


def test_shares_in_words():
    assert span_of([]) == ""
    assert span_of([None, 0.001]) == "< 1 %"
    assert span_of([0.5, 0.0, None]) == "0 %–50 %"


def test_verdicts_of_skewed_differences_are_not_drawn(tmp_path):
    """Most examples lie a little below a control that never varies, a few far above: the mean may well be equal."""
    generator = np.random.default_rng(0)
    ever = {"rationale.auprc": [0.5] * 20}
    low = 0.47 + 0.001 * generator.random(20)
    low[:2] = 0.52, 0.515
    plans = [
        Plan("oracle", n=20), Plan("random", n=20, values=ever), Plan("inverted", n=20),
        Plan("skewed", n=20, values={"rationale.auprc": low}),
        Plan("plain", n=20, values={"rationale.auprc": 0.7 + 0.05 * np.linspace(-1, 1, 20)}),
    ]  # fmt: skip
    cells = load_cells(write_cells(tmp_path, plans))
    random = against_random(cells, HIGHER)
    assert (random.skewed, random.above, random.below) == (("skewed",), ("plain",), ())
    assert random.sentence == "better than random: plain; not tested: too skewed: skewed"
    found = pairs(cells, HIGHER)
    assert found.better("plain", "skewed") or found.too_skewed(("plain", "skewed"))
    third = [
        *plans[:1],
        *plans[1:3],
        Plan("flat", n=20, values={"rationale.auprc": [0.51] * 20}),
        plans[3],
        Plan("x", n=20),
    ]
    cells = load_cells(write_cells(tmp_path / "more", third))
    found = pairs(cells, HIGHER)
    pair = next(pair for pair in found.adjusted if set(pair) == {"flat", "skewed"})
    assert found.adjusted[pair] < 0.05
    assert found.too_skewed(pair)
    assert not found.better(*pair)
    assert found.note(pair) == "not tested: too skewed"
    assert any(sentence.startswith("not tested: too skewed: ") for sentence in found.sentences)
    rows = differences({("t", "m"): [found]}).set_index(["first", "second"])
    assert rows.loc[pair, "note"] == "not tested: too skewed"
    assert rows.loc[pair, ["better"]].isna().all()
    words = [entry.words for row in found.matrix.rows for entry in row.entries]
    assert sum(word.endswith("*") for word in words) == sum(map(found.differs, found.adjusted))


@pytest.mark.parametrize(("p", "told"), [(0.0497, "0.0497"), (0.0503, "0.0503"), (0.05, ""), (0.0494, "")])
def test_a_p_value_says_on_which_side_of_the_level_it_lies(p, told):
    rows = [line({"of": "one"}, "p", p, note=PROBABILITY, key=P_KEY)]
    ((entry,),) = (row.entries for row in printed(Table("t", "T", ("of",), pd.DataFrame(rows))).rows)
    assert entry.words == told
    assert entry.value == (None if told else p)


def test_one_example_tells_no_more_than_two_do(tmp_path):
    """A figure without an interval says why, wherever it is shown, and is never the best."""
    one = {"rationale.auprc": [0.9], "perturbation.positive_auc": [0.5], "agreement.kendall_gradient": [0.2]}
    cells = load_cells(write_cells(tmp_path, [Plan("a", n=1, values=one), Plan("b", n=1, values=one)]))
    table = frame(cells)
    table = table[table["metric"].isin([name.partition(".")[2] for name in one])]
    assert {*table["remark"]} == {"no interval: n is 1"}
    board = make_board(table, scalar_columns(table))
    entries = [entry for row in board.rows for entry in row.entries if entry.n]
    assert {(entry.value, entry.words, entry.rank) for entry in entries} == {(None, "n too small", None)}
    assert {board.notes[entry.mark - 1].partition(",")[0] for entry in entries} == {
        "n too small: one example has no interval"
    }
    assert "0.900" not in markdown(cells, table, every_pair(cells, table))


def test_examples_that_do_not_differ_have_a_figure_with_the_reason_why_it_is_bare(tmp_path):
    """Nothing is known of what is rare where the largest possible value is not."""
    cells = load_cells(write_cells(tmp_path, [Plan("a", n=8), Plan("b", n=8)]))
    stored = cells[0].stored
    test = stored.record.evaluations["perturbation"]
    (figure,) = (one for one in test.figures if one.metric == "positive_auc")
    bare = replace(test, figures=(replace(figure, low=math.nan, high=math.nan),))
    record = replace(stored.record, evaluations={**stored.record.evaluations, "perturbation": bare})
    table = frame([replace(cells[0], stored=replace(stored, record=record)), cells[1]])
    board = make_board(table, scalar_columns(table))
    place = [heading.name for heading in board.columns].index("positive_auc")
    entry = next(row for row in board.rows if row.labels[0] == "a").entries[place]
    assert (entry.value, entry.rank) == (figure.value, None)
    assert board.notes[entry.mark - 1] == "no interval: too few of the examples differ"


@pytest.mark.parametrize(
    ("values", "bounds", "note"),
    [
        ([0.3], (0.0, 1.0), "n too small: n is 1"),
        ([0.3], (0.0, math.inf), "no interval: n is 1"),
        ([2.0] * 9, (0.0, math.inf), "no interval: too few of the examples differ"),
        ([2.0, 3.0] * 9, (0.0, math.inf), ""),
        ([0.5] * 9, (0.0, 1.0), ""),
        ([], (0.0, 1.0), ""),
    ],
)
def test_a_line_of_a_table_says_why_its_figure_is_bare(values, bounds, note):
    row = figure_line({"of": "it"}, "share", interval(values, bounds=bounds))
    assert row["note"] == note
    assert figure_line({"of": "it"}, "share", interval(values, bounds=bounds), "said")["note"].endswith("said")
