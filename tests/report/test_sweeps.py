"""Figures against a setting that was swept: which methods have a curve, and what it says."""

import pytest

from benchmark.commands import running
from benchmark.report.analysis_tables import printed, table_files
from benchmark.report.cells import load_cells
from benchmark.report.leaderboard import frame
from benchmark.report.naming import Names
from benchmark.report.sweeps import sweep_tables
from benchmark.report.write import write_report
from benchmark.settings.report_settings import NO_NAMES, FigureSettings, GivenNames, ReportSettings
from tests.report.folders import Plan, write_cells

STEPS = (5, 10, 20)


def tables_of(cells, given=NO_NAMES):
    return sweep_tables(cells, frame(cells), Names.of(cells, given))


def plans(values=STEPS, **more):
    swept = [Plan("attattr", skill=0.3 + value / 50, settings={"edges": {"steps": value}}, **more) for value in values]
    return [*swept, Plan("rollout", **more), Plan("random", **more)]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return load_cells(write_cells(tmp_path_factory.mktemp("swept"), plans()))


def test_a_method_with_three_values_has_a_line_for_each_with_the_leaderboards_figures(cells):
    (table,) = tables_of(cells)
    assert table.labels == ("data", "method", "steps")
    assert sorted(table.rows["steps"].unique()) == [*STEPS]
    assert {*table.rows["method"]} == {"attattr"}
    figures = frame(cells)
    for value in STEPS:
        own = figures[(figures["method"] == f"attattr (steps={value})") & (figures["metric"] == "auprc")].iloc[0]
        mine = table.rows[(table.rows["steps"] == value) & table.rows["metric"].str.startswith("auprc")]
        mine = mine if len(mine) else table.rows[(table.rows["steps"] == value) & (table.rows["value"] == own["value"])]
        assert (mine.iloc[0]["value"], mine.iloc[0]["low"], mine.iloc[0]["high"]) == (
            own["value"],
            own["low"],
            own["high"],
        )
    assert any("against steps" in sentence for sentence in table.sentences)


def test_what_a_value_cost_stands_beside_its_figures(cells):
    (table,) = tables_of(cells)
    cost = table.rows[table.rows["metric"] == "seconds per example"]
    assert len(cost) == len(STEPS)
    assert {*cost["note"]} == {"one run"}, "it has no interval"


@pytest.mark.parametrize("values", [(5,), (5, 10)])
def test_two_values_are_no_curve(tmp_path, values):
    assert tables_of(load_cells(write_cells(tmp_path, plans(values)))) == []


def test_settings_of_words_and_switches_are_no_curve(tmp_path):
    named = [Plan("attattr", settings={"quadrature": rule}) for rule in ("left", "right", "middle")]
    switched = [
        Plan("lrp", settings={"residual": on, "rule": rule}) for on, rule in ((True, "a"), (False, "b"), (True, "c"))
    ]
    assert tables_of(load_cells(write_cells(tmp_path, [*named, *switched]))) == []


def test_several_models_are_lines_of_one_figure(tmp_path):
    folders = []
    for model in ("small", "large"):
        folders += write_cells(tmp_path / model, plans(model={"name": model, "fingerprint": model * 4}))
    (table,) = tables_of(load_cells(folders))
    assert {*table.rows["data"]} == {"planted · small", "planted · large"}
    assert table.drawing.series == "data"
    assert any(sentence.startswith("planted · small: ") for sentence in table.sentences)


def test_a_second_setting_gives_a_line_for_each_of_its_values(tmp_path):
    grid = [
        Plan("attattr", skill=0.2, settings={"edges": {"steps": steps, "quadrature": rule}})
        for steps in STEPS for rule in ("left", "middle")
    ]  # fmt: skip
    (table,) = tables_of(load_cells(write_cells(tmp_path, grid)))
    assert table.labels == ("data", "method", "steps", "with")
    assert {*table.rows["with"]} == {"quadrature=left", "quadrature=middle"}
    assert table.drawing.series == "with"


def test_a_second_setting_that_differs_with_the_first_is_told(tmp_path):
    """Values that occur once each are no reason to join what was computed by two rules."""
    mixed = [
        Plan("attattr", skill=0.2, settings={"edges": {"steps": steps, "quadrature": rule}})
        for steps, rule in ((5, "left"), (10, "left"), (7, "middle"), (20, "middle"))
    ]
    (table,) = tables_of(load_cells(write_cells(tmp_path, mixed)))
    assert {*table.rows["with"]} == {"quadrature=left", "quadrature=middle"}
    assert any(sentence.startswith("quadrature=left: ") for sentence in table.sentences)
    assert not any("at 5 and" in sentence and "at 20;" in sentence for sentence in table.sentences)


def test_models_of_one_name_stay_two(tmp_path):
    folders = []
    for letter in "ab":
        model = {"name": f"tiny-{letter * 16}", "fingerprint": letter * 16}
        folders += write_cells(tmp_path / letter, plans(model=model))
    (table,) = tables_of(load_cells(folders))
    assert table.rows["data"].nunique() == 2


@pytest.mark.parametrize("name", ["n", "method", "value"])
def test_a_setting_that_is_called_as_a_column_keeps_its_values(tmp_path, name):
    swept = [Plan("mine", skill=value / 10, settings={"own": {name: value}}) for value in (1, 2, 3)]
    (table,) = tables_of(load_cells(write_cells(tmp_path, swept)))
    assert sorted(table.rows[table.labels[2]].unique()) == [1, 2, 3]
    assert {*table.rows["method"]} == {"mine"}


def test_a_person_calls_what_was_swept(cells):
    given = GivenNames(methods={"attattr": "Ours"}, tasks={"planted": "Reviews"}, models={"tiny": "BERT-T"})
    (table,) = tables_of(cells, given)
    assert {*table.rows["data"]} == {"Reviews · BERT-T"}
    assert printed(table, Names.of(cells, given)).rows[0].labels[1] == "Ours"


def test_the_report_draws_it(cells, tmp_path):
    look = ReportSettings(figures=FigureSettings("column", title=False, format=("pdf",)))
    names = {path.name for path in write_report(cells, tmp_path, look)}
    assert {"table-sweep_attattr_steps.csv", "table-sweep_attattr_steps.pdf", "analyses.md"} <= names
    assert "table-sweep_attattr_steps.png" not in names
    assert "ATTATTR: headline figures against" in (tmp_path / "analyses.md").read_text()
    (table,) = tables_of(cells)
    assert dict(table_files([table], Names.of(cells)))["table-sweep_attattr_steps.csv"]
    assert len(printed(table).rows) == len(STEPS)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (STEPS, "with curves of the figures: "),
        (STEPS[:2], "without curves of the figures (three or more numbers of a method's setting have them): "),
    ],
)
def test_the_command_says_whether_the_report_has_curves(tmp_path, monkeypatch, capsys, no_pictures, values, said):
    def report(out, name, look):
        write_report(load_cells(write_cells(out, plans(values))), out / "report")
        return out / "report" / "index.html"

    monkeypatch.setattr(running.together, "report", report)
    running._report_sweep("mine", tmp_path, None)
    assert f"All values of the sweep together, {said}" in capsys.readouterr().out.replace("\n", " ")
