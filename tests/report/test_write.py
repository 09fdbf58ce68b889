"""A report is made again only where it is not there as it would be made; `leaderboard.json` is what its schema says."""

import json
from copy import deepcopy

import jsonschema
import pytest

from benchmark.report import load_cells, write, write_report
from benchmark.report.leaderboard import frame
from benchmark.report.write import SCHEMA, leaderboard_json
from benchmark.results import store
from benchmark.settings.report_settings import LatexSettings, ReportSettings

NOTE = "drawn/report.json"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def written(comparison, tmp_path, no_pictures):
    cells, folder = load_cells(comparison[1][:4]), tmp_path / "report"
    write_report(cells, folder)
    return cells, folder, contents(folder)


@pytest.fixture
def made(monkeypatch):
    """Counts how often files are made."""
    calls, files = [], write._files
    monkeypatch.setattr(write, "_files", lambda *given, **named: calls.append(1) or files(*given, **named))
    return calls


def test_an_unchanged_report_is_not_made_again(written, made):
    cells, folder, before = written
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert {path.name for path in write_report(cells, folder)} == set(before)
    assert made == []
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


@pytest.mark.parametrize("harm", ["deleted", "truncated", "changed", "note lost", "note broken"])
def test_a_report_that_is_not_whole_is_made_again(written, made, harm):
    cells, folder, before = written
    path = folder / (NOTE if "note" in harm else "leaderboard.md")
    if harm in ("deleted", "note lost"):
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(content[:-20] if harm == "truncated" else content.replace(b"a", b"b"))
    write_report(cells, folder)
    assert made == [1]
    assert contents(folder) == before
    write_report(cells, folder)
    assert made == [1]


def test_other_settings_cells_and_code_are_other_inputs(written, made, monkeypatch):
    cells, folder, before = written
    write_report(cells, folder, ReportSettings(latex=LatexSettings(columns="two")))
    write_report(cells[:1], folder)
    monkeypatch.setattr(write, "_code", lambda: "another")
    write_report(cells, folder)
    assert made == [1, 1, 1]
    assert contents(folder) == before


def test_a_report_that_was_stopped_while_it_was_written_is_not_taken_for_whole(written, made, monkeypatch):
    cells, folder, before = written
    monkeypatch.setattr(write, "_note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_report(cells, folder, ReportSettings(latex=LatexSettings(columns="two")))
    monkeypatch.undo()
    assert store.read_sealed(folder / NOTE)
    write_report(cells, folder)
    assert contents(folder) == before


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="module")
def content(comparison):
    cells = load_cells(comparison[1])
    return json.loads(leaderboard_json(cells, frame(cells)))


def test_the_file_is_valid_and_complete(content, validator, comparison):
    validator.validate(content)
    (only,) = content["comparisons"]
    assert len(only["methods"]) == len(comparison[1])
    assert only["methods"][0]["shown"] == "transformer_attribution"
    assert next(method["name"] for method in only["methods"] if method["control"]) == "oracle"
    table = frame(load_cells(comparison[1]))
    scalars = table[table["x"].isna() & (table["metric"] != "")]
    figures = {
        (method["shown"], figure["test"], figure["metric"]): figure
        for method in only["methods"]
        for figure in method["figures"]
    }
    assert len(figures) == len(scalars)
    row = scalars[(scalars["method"] == "rollout") & (scalars["metric"] == "auprc")].iloc[0]
    figure = figures["rollout", "rationale", "auprc"]
    assert (figure["value"], figure["low"], figure["high"], figure["n"]) == (
        row["value"],
        row["low"],
        row["high"],
        row["n"],
    )
    assert figures["lrp", "rationale", "auprc"]["value"] is None
    assert "token scores" in figures["lrp", "rationale", "auprc"]["dash"]
    assert figures["broken", "perturbation", "positive_auc"]["value"] is None, "NaN is null"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.pop("order"),
        lambda content: content.update(version=2),
        lambda content: content["comparisons"][0]["methods"][0].pop("hash"),
        lambda content: content["comparisons"][0]["methods"][0]["figures"][0].update(value="0.5"),
        lambda content: content["comparisons"][0]["tests"]["rationale"].update(kind="nice"),
        lambda content: content["comparisons"][0].update(other=1),
    ],
)
def test_the_schema_refuses_what_is_not_such_a_file(content, validator, spoil):
    spoiled = deepcopy(content)
    spoil(spoiled)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(spoiled)
