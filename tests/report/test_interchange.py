"""`leaderboard.json` is what its schema says, and the folders of several machines are merged where they are comparable."""

import json
from copy import deepcopy

import jsonschema
import pytest

from benchmark.report.__main__ import main
from benchmark.report.cells import load_cells
from benchmark.report.interchange import SCHEMA, leaderboard_json
from benchmark.report.leaderboard import frame
from tests.report.folders import Plan, changed, write_cells


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))


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


def machines(tmp_path, change=None, **plan):
    """Run folders of two machines; those of the second with another plan, or another record."""
    write_cells(tmp_path / "one", [Plan("rollout"), Plan("random")])
    for folder in write_cells(tmp_path / "two", [Plan("attattr", **plan), Plan("oracle", **plan)]):
        if change is not None:
            changed(folder, change)
    return [str(tmp_path / "one"), str(tmp_path / "two"), "--out", str(tmp_path / "out")]


def test_folders_of_several_machines_make_one_leaderboard(tmp_path, validator):
    assert main(machines(tmp_path)) == 0
    content = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    validator.validate(content)
    (only,) = content["comparisons"]
    assert {method["name"] for method in only["methods"]} == {"rollout", "random", "attattr", "oracle"}


def of_evaluation(record):
    record["evaluations"]["rationale"]["version"] = 7


def of_benchmark(record):
    record["versions"]["benchmark"] = "9"


@pytest.mark.parametrize(
    ("plan", "change", "what"),
    [
        ({"task": {"name": "sst2"}}, None, "the task differs: planted version 1 in "),
        ({"task": {"fingerprint": "e" * 16}}, None, "the data differs"),
        ({"n": 40}, None, "the choice of examples differs"),
        ({"model": {"fingerprint": "n" * 16}}, None, "the model differs"),
        ({}, of_evaluation, "the test rationale differs"),
        ({}, of_benchmark, "the version of benchmark differs"),
    ],
)
def test_what_cannot_be_compared_is_refused_unless_told_to(tmp_path, capsys, plan, change, what):
    arguments = machines(tmp_path, change, **plan)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert what in told
    assert "--mixed" in told
    assert told.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert main([*arguments, "--mixed"]) == 0
    assert (tmp_path / "out" / "index.html").exists()
