import json
import subprocess
import sys

import jsonschema
import pytest

from benchmark.report.__main__ import main
from benchmark.report.write import SCHEMA
from tests.report.folders import Plan, changed, write_cell, write_cells


def test_it_writes_beside_the_runs_and_prints_the_table(tmp_path, capsys):
    write_cells(tmp_path, [Plan("rollout"), Plan("random")])
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / "report" / "leaderboard.md").exists()
    out = capsys.readouterr().out
    assert "rollout" in out
    assert "files in" in out
    assert main([str(tmp_path)]) == 0  # the report itself is no run folder


def test_several_roots_and_another_folder(tmp_path):
    write_cell(tmp_path / "a", Plan("rollout"))
    write_cell(tmp_path / "b", Plan("attattr"))
    assert main([str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "leaderboard.csv").read_text()
    assert text.count("auprc") == 2
    assert not (tmp_path / "a" / "report").exists()


def corrupt_record(folder):
    write_cell(folder, Plan("rollout")).joinpath("record.json").write_text("{")


def corrupt_rows(folder):
    cells = write_cells(folder, [Plan("oracle"), Plan("random"), Plan("inverted")])
    cells[0].joinpath("rows.parquet").write_bytes(b"PAR1 no more")


@pytest.mark.parametrize(
    ("prepare", "names"),
    [
        (lambda folder: None, "no folder"),
        (lambda folder: folder.mkdir(), "no finished run folder"),
        (corrupt_record, "rollout-"),
        (corrupt_rows, "oracle-"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, capsys, prepare, names):
    prepare(tmp_path / "runs")
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "runs")])
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert names in captured.err
    assert not (tmp_path / "runs" / "report").exists()


def test_an_output_folder_that_cannot_be_made(tmp_path, capsys):
    write_cell(tmp_path, Plan("rollout"))
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path), "--out", str(tmp_path / "file" / "report")])
    assert ended.value.code == 2
    assert "--out: cannot write to" in capsys.readouterr().err


def test_the_command_starts_without_torch(tmp_path):
    write_cell(tmp_path, Plan("rollout"))
    code = (
        "import sys; from benchmark.report.__main__ import main; assert main(sys.argv[1:]) == 0; "
        "print([name for name in ('torch', 'transformers', 'wandb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def machines(tmp_path, change=None, **plan):
    """Run folders of two machines; those of the second with another plan, or another record."""
    write_cells(tmp_path / "one", [Plan("rollout"), Plan("random")])
    for folder in write_cells(tmp_path / "two", [Plan("attattr", **plan), Plan("oracle", **plan)]):
        if change is not None:
            changed(folder, change)
    return [str(tmp_path / "one"), str(tmp_path / "two"), "--out", str(tmp_path / "out")]


def test_folders_of_several_machines_make_one_leaderboard(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
    assert main(machines(tmp_path)) == 0
    content = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content)
    (only,) = content["comparisons"]
    assert {method["name"] for method in only["methods"]} == {"rollout", "random", "attattr", "oracle"}


def of_evaluation(record):
    record["evaluations"]["rationale"]["version"] = 7


def test_folders_of_another_release_are_reported_where_every_version_that_matters_is_equal(tmp_path, monkeypatch):
    def of_another_release(record):
        record["versions"]["benchmark"] = "9"

    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
    assert main(machines(tmp_path, of_another_release)) == 0


@pytest.mark.parametrize(
    ("plan", "change", "what"),
    [
        ({"task": {"name": "sst2"}}, None, "the task differs: planted version 1 in "),
        ({"task": {"fingerprint": "e" * 16}}, None, "the data differs"),
        ({"n": 40}, None, "the choice of examples differs"),
        ({"model": {"fingerprint": "n" * 16}}, None, "the model differs"),
        ({}, of_evaluation, "the test rationale differs"),
    ],
)
def test_what_cannot_be_compared_is_refused_unless_told_to(tmp_path, capsys, monkeypatch, plan, change, what):
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
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
