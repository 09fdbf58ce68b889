import subprocess
import sys

import pytest

from benchmark.report.__main__ import main
from tests.report.folders import Plan, write_cell, write_cells


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
