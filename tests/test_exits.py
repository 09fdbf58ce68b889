"""Ctrl-C, SIGTERM, a full disk and a folder that vanishes: one line, a status, and the same command goes on."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module

import pytest
from transformers import BertModel

from benchmark.commands.running import run_guarded
from benchmark.errors import Missing, UserError
from benchmark.exits import Kept, disk_problem, guarded, kept_in
from benchmark.report.__main__ import main as report_main
from benchmark.results import store
from benchmark.settings.configuration import compose
from benchmark.training.finetune import Recipe, finetune
from tests import tiny_task
from tests.conftest import REPOSITORY
from tests.report.folders import Plan, write_cell


def settings(place, out):
    return [
        "task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "methods=[probe,raw_attention]",
        "evaluations=[perturbation]", f"out={out}", "checkpoint_seconds=0", "batch_size=2",
    ]  # fmt: skip


def configuration(place, out):
    return compose("config", settings(place, out), str(place / "conf"))


def ends(capsys, action):
    """Status and message of something that ends early in one line."""
    with pytest.raises(SystemExit) as caught:
        action()
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    return caught.value.code, lines[-1], lines


LARGEST = 6000  # bytes: rows and attributions fit, the record does not


@contextmanager
def file_limit(size):
    """No file grows beyond so many bytes, as under `ulimit -f`: writing more fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def started(place, out, errors):
    environment = os.environ | {"TINY_SECONDS": "0.2", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "benchmark", "--config-dir", str(place / "conf"), *settings(place, out)]
    return subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=heed_interrupts
    )


def heed_interrupts():
    """Undo what a shell does to its background jobs, of which the tests may be one: they ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_an_interrupt_is_one_line_and_what_is_done_is_kept(place, tmp_path):
    out = tmp_path / "out"
    with (tmp_path / "errors").open("w") as errors:
        process = started(place, out, errors)
        deadline = time.monotonic() + 200
        while not list(out.rglob("parts/*/0*")):
            assert process.poll() is None, (tmp_path / "errors").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    told = (tmp_path / "errors").read_text()
    assert "Traceback" not in told
    assert told.strip().splitlines()[-1] == (
        f"interrupted: finished methods, and parts of others, are kept in {out}; the same command goes on where it was"
    )
    assert list(out.rglob("parts/*/0*"))
    assert not list(out.rglob(".*.*/*")), "half-written files are removed"


def test_a_termination_unwinds_and_is_told(tmp_path):
    code = (
        "import time; from benchmark.exits import *; on_termination()\n"
        "def work():\n  try:\n    print('on', flush=True); time.sleep(60)\n  finally:\n    print('off')\n"
        "guarded(work, Kept('all is kept'))"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("off\n", "terminated: all is kept\n")
    assert process.returncode == 143


LOST = """
import os, signal, sys
from benchmark import progress
from benchmark.exits import *
on_termination()

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        for _ in range(1000):
            pass  # the handler runs here, and what it raises is swallowed

def work():
    if {batches}:
        with progress.step('batches', 9) as advance:
            for number in range(9):
                print(number, flush=True)
                if number == 2:
                    Finalised()
                advance(1)
    else:
        Finalised()
        print('on', flush=True)
    return 'done'

guarded(work, Kept('all is kept'))
print('not reached')
"""


@pytest.mark.parametrize(("name", "told", "status"), [("SIGINT", "interrupted", 130), ("SIGTERM", "terminated", 143)])
@pytest.mark.parametrize(("batches", "printed"), [(True, "0\n1\n2\n"), (False, "on\n")])
def test_a_signal_in_a_finaliser_is_not_lost(name, told, status, batches, printed):
    command = [sys.executable, "-c", LOST.format(name=name, batches=batches)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=100, preexec_fn=heed_interrupts, check=False
    )
    assert "Exception ignored in" in done.stderr  # it was raised where nobody can catch it
    assert done.stdout == printed
    assert done.stderr.splitlines()[-1] == f"{told}: all is kept"
    assert done.returncode == status


def test_a_signal_that_was_caught_is_not_raised_again():
    code = (
        "import os, signal; from benchmark import progress; from benchmark.exits import *; on_termination()\n"
        "def first():\n  os.kill(os.getpid(), signal.SIGINT)\n  import time; time.sleep(9)\n"
        "try: guarded(first, Kept('x'))\nexcept SystemExit as ended: print(ended.code)\n"
        "with progress.step('more', 1) as advance: advance(1)\n"
        "print(guarded(lambda: 'on', Kept('x')))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=100, preexec_fn=heed_interrupts, check=False
    )
    assert done.stdout == "130\non\n"


def test_a_second_signal_is_not_waited_for(tmp_path):
    code = (
        "import time; from benchmark.exits import *; on_termination()\n"
        "def work():\n  try:\n    print('on', flush=True); time.sleep(60)\n  finally:\n    time.sleep(60)\n"
        "guarded(work, Kept('x'))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM
    process.stdout.close()


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("size", [50, 1500, LARGEST])
def test_a_disk_that_takes_no_more(place, tmp_path, capsys, size):
    out = tmp_path / "out"
    with file_limit(size):
        status, line, _ = ends(capsys, lambda: run_guarded(configuration(place, out)))
    assert status == 1
    assert line.startswith("error: File too large")
    assert line.endswith(f"are kept in {out}; the same command goes on where it was")
    if size == LARGEST:
        run_guarded(configuration(place, out))
        assert len(store.find_cells(out)) == 2


def test_a_disk_that_takes_no_checkpoint(place, tmp_path, capsys):
    base = tmp_path / "base"
    shutil.copytree(place / "bert", base)
    BertModel.from_pretrained(base).save_pretrained(base)
    recipe = Recipe(epochs=1, batch_size=8)

    def train():
        return guarded(
            lambda: finetune(tiny_task.TinyTask(), str(base), tmp_path / "out", recipe), Kept("kept", tmp_path)
        )

    for size in (100, 20_000):
        with file_limit(size):
            status, line, _ = ends(capsys, train)
        assert (status, line.rpartition("; ")[2]) == (1, "kept"), line
        assert not (tmp_path / "out").exists()
    assert train()["steps"] > 0


def test_a_report_that_does_not_fit(tmp_path, capsys):
    write_cell(tmp_path, Plan("rollout", evaluations=("rationale",)))
    with file_limit(500):
        with pytest.raises(SystemExit) as ended:
            report_main([str(tmp_path)])
        assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith("error: File too large")
    assert told.count("\n") == 1
    assert "the same command writes them all" in told
    assert report_main([str(tmp_path)]) == 0


@pytest.mark.parametrize("what", ["write_report", "terminal_table"])
def test_a_report_that_is_interrupted(tmp_path, capsys, monkeypatch, what):
    write_cell(tmp_path, Plan("rollout", evaluations=()))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"benchmark.report.__main__.{what}", interrupt)
    with pytest.raises(SystemExit) as ended:
        report_main([str(tmp_path)])
    assert ended.value.code == 130
    told = capsys.readouterr().err
    assert told.startswith("interrupted: each file in")
    assert told.count("\n") == 1


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("moment", ["benchmark.comparison.read_stored", "benchmark.comparison.write_report"])
def test_an_output_folder_that_is_removed(place, tmp_path, capsys, monkeypatch, moment):
    out = tmp_path / "out"
    module, _, name = moment.rpartition(".")
    whole = getattr(import_module(module), name)

    def removing(*arguments):
        shutil.rmtree(out)
        return whole(*arguments)

    monkeypatch.setattr(moment, removing)
    status, line, _ = ends(capsys, lambda: run_guarded(configuration(place, out)))
    assert status == 1
    assert line == f"error: {out} was removed while the command ran; the same command computes what is missing again"


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("there_before", [True, False])
def test_an_output_folder_that_is_removed_and_made_again(place, tmp_path, capsys, monkeypatch, there_before):
    """Another step makes the folder again meanwhile, so that a file in it is missing and not the folder."""
    out = tmp_path / "out"
    if there_before:
        out.mkdir()
    whole = store.read_record

    def removing(cell):
        shutil.rmtree(out)
        cell.mkdir(parents=True)
        return whole(cell)

    monkeypatch.setattr("benchmark.results.store.read_record", removing)
    status, line, _ = ends(capsys, lambda: run_guarded(configuration(place, out)))
    assert (status, line) == (
        1,
        f"error: {out} was removed while the command ran; the same command computes what is missing again",
    )


@pytest.mark.parametrize("again", [True, False])
def test_a_folder_is_gone_where_it_is_not_there_or_another_one_is(tmp_path, capsys, again):
    out = tmp_path / "out"
    out.mkdir()
    kept = Kept("kept", out)
    assert not kept.is_gone

    def act():
        out.rename(tmp_path / "elsewhere")
        if again:
            out.mkdir()
        raise Missing(out / "a" / "graphs.json")

    status, line, _ = ends(capsys, lambda: guarded(act, kept))
    assert (status, "was removed while the command ran" in line) == (1, True)


def test_a_file_that_another_process_takes_away_is_not_the_folder(tmp_path, capsys):
    def act():
        (tmp_path / "a" / "rows.parquet").read_bytes()

    status, line, _ = ends(capsys, lambda: guarded(act, Kept("kept", tmp_path)))
    assert status == 1
    assert line == (
        f"error: {tmp_path}/a/rows.parquet is not there any more: somebody else, or another process, works in {tmp_path}; "
        "the same command computes what is missing again"
    )

    def missing():
        raise Missing(tmp_path / "a" / "graphs.json")

    assert ends(capsys, lambda: guarded(missing, Kept("kept", tmp_path)))[0] == 2


def test_a_folder_that_nothing_was_put_into_goes_again(tmp_path):
    with kept_in("kept", tmp_path / "a" / "out") as kept:
        assert kept.identity is not None
    assert not (tmp_path / "a" / "out").exists()
    with kept_in("kept", tmp_path / "out"):
        (tmp_path / "out" / "x").write_text("")
    assert (tmp_path / "out" / "x").exists()


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("bug"),
        FileNotFoundError(2, "No such file", "/elsewhere/x"),
        KeyError("x"),
        OSError("odd"),
        RuntimeError("no"),
    ],
)
def test_a_bug_keeps_its_traceback(tmp_path, error):
    def bug():
        raise error

    with pytest.raises(type(error)):
        guarded(bug, Kept("kept", tmp_path))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "x"), "No space left on device; make room"),
        (OSError(122, "x"), "Disk quota exceeded; make room, or have the quota raised"),
        (OSError(30, "x", "/a/b"), "Read-only file system (/a/b); make it writable"),
        (PermissionError(13, "x"), "Permission denied; make it writable"),
        (RuntimeError("PytorchStreamWriter failed writing file data/0"), "could not be written"),
        (UserError("x"), None),
    ],
)  # fmt: skip
def test_what_a_disk_says(error, told):
    found = disk_problem(error)
    assert found is None if told is None else told in found


@pytest.mark.usefixtures("no_pictures")
def test_a_finished_comparison_is_shown_again_where_nothing_can_be_written(place, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    run_guarded(configuration(place, out))
    shown = capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}

    def refuse(folder):
        return UserError(f"out={folder} cannot be written to (Read-only file system); choose another folder")

    monkeypatch.setattr("benchmark.results.store.refusal", refuse)
    run_guarded(configuration(place, out))
    assert capsys.readouterr().out == shown
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    more = compose("config", [*settings(place, out), "limit=5"], str(place / "conf"))
    status, line, _ = ends(capsys, lambda: run_guarded(more))
    assert (status, "cannot be written to" in line) == (2, True)
