"""Commands in a folder of a stranger, whose modules are called like what libraries import where they are installed."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from benchmark.working_folder import WorkingFolder, asked_by_name, importable_from, own_classes_importable
from tests.conftest import REPOSITORY
from tests.report.folders import Plan, write_cell
from tests.test_doors import CONSOLE
from tests.test_mistakes import run

pytestmark = pytest.mark.thorough  # each test starts processes

OPTIONAL = (
    "numexpr", "bottleneck", "numba", "odfpy", "openpyxl", "zstandard", "torchvision", "torchaudio", "peft", "accelerate",
    "triton", "torch_npu", "kernels", "flash_attn", "cv2", "bitsandbytes", "soundfile", "librosa", "tensorflow", "jax",
    "faiss", "apex", "torch_xla", "optree", "simplejson", "dateparser", "hydra_plugins", "ipywidgets", "boto3", "captum",
)  # fmt: skip
"""What pandas, torch, transformers, datasets, matplotlib, rich, W&B and Hydra ask for where it is installed."""
SHADOWS = (
    "yaml",
    "hydra",
    "omegaconf",
    "torch",
    "pandas",
    "numpy",
    "rich",
    "argparse",
    "shlex",
    "tasks",
    "datasets",
    "tokenizers",
)
MODULE = "mine/norms.py"
TRAPPED = "import pathlib\npathlib.Path({trace!r}).open('a').write(__name__ + '\\n')\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder in which every import leaves a trace, and a method of the user's own."""
    there = tmp_path / "there"
    (there / "mine").mkdir(parents=True)
    trap = TRAPPED.format(trace=str(tmp_path / "trace"))
    for name in (*OPTIONAL, *SHADOWS):
        (there / f"{name}.py").write_text(trap)
    (there / "helper.py").write_text("from tests.tiny_task import Probe\n")
    (there / MODULE).write_text("from helper import Probe\n\n\nclass Mine(Probe):\n    '''Lengths of words.'''\n")
    return there


def traces(folder: Path) -> list[str]:
    trace = folder.parent / "trace"
    return sorted(set(trace.read_text().split())) if trace.exists() else []


@pytest.mark.parametrize(
    "program",
    [
        ["-c", CONSOLE, "report", "runs"],
        ["-m", "benchmark.report", "runs"],
        ["-mbenchmark.report", "runs"],
        ["-c", CONSOLE, "list"],
        ["-c", CONSOLE, "show", "norm", "--config-dir", "yamls"],
        ["-c", CONSOLE, "plan", "methods=[random]", "limit=none"],
        ["-m", "benchmark", "--help"],
        ["-m", "benchmark.train", "task=none"],
        ["-m", "benchmark.catalogue"],
    ],
    ids=lambda program: " ".join(program[:4]).replace(CONSOLE, "console"),
)
def test_nothing_of_the_folder_is_executed(folder, program):
    write_cell(folder / "runs", Plan("random"))
    (folder / "yamls" / "methods").mkdir(parents=True)
    (folder / "yamls" / "methods" / "norm.yaml").write_text("norm:\n  _target_: numexpr.Norm\n")
    done = run([sys.executable, *program], folder=folder)
    assert traces(folder) == []
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if "=" in program[-1] or "norm" in program else 0)
    assert (
        "norm" not in program or "methods.norm._target_=numexpr.Norm: the module numexpr has no 'Norm'" in done.stderr
    )


@pytest.mark.parametrize("program", [["-m", "benchmark"], ["-c", CONSOLE, "run"]], ids=["module", "console"])
def test_a_comparison_finds_what_its_configuration_names_and_libraries_find_nothing(place, folder, program):
    settings = [
        "--config-dir", str(place / "conf"), "task=tiny_task", "model=hf", f"model.path={place / 'bert'}",
        "methods=[random]", "+methods.mine={_target_: mine.norms.Mine}", "evaluations=[aopc]", "tracking=none", "limit=4",
        "out=out",
    ]  # fmt: skip
    done = run([sys.executable, *program, *settings], folder=folder)
    assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout
    assert traces(folder) == []


def test_a_mechanism_of_ones_own_is_found_by_its_name(place, folder):
    """As docs/mechanisms.md shows it, in a file beside which the command runs."""
    page = (REPOSITORY / "docs" / "mechanisms.md").read_text()
    (folder / "mine.py").write_text(page.split("```python\n")[-1].split("```")[0])
    shutil.rmtree(folder / "mine")
    told = run([sys.executable, "-c", CONSOLE, "show", "mechanism=mine.praise"], folder=folder)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("praise:")
    settings = [
        "task=mechanism", "task.mechanism=mine.praise", "model=written", "methods=[random]", "evaluations=[known_words]",
        "tracking=none", "limit=4", "out=out",
    ]  # fmt: skip
    done = run([sys.executable, "-m", "benchmark", *settings], folder=folder)
    assert done.returncode == 0, done.stderr
    assert traces(folder) == []


@pytest.fixture
def finders():
    before = list(sys.meta_path)
    yield sys.meta_path
    sys.meta_path[:] = before


def test_a_folder_answers_those_who_may_ask_and_what_it_gave_them(tmp_path, monkeypatch, finders):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.py").write_text("import asked_of_given\n")
    (tmp_path / "asked_of_given.py").write_text("")
    finder = WorkingFolder(str(tmp_path), ["somebody"])
    sys.meta_path.append(finder)
    with pytest.raises(ModuleNotFoundError):
        exec("import given", {"__name__": "pandas.compat", "__builtins__": __builtins__})
    exec("import given", {"__name__": "somebody", "__builtins__": __builtins__})
    assert sys.modules.pop("given").__file__ == str(tmp_path / "given.py")
    assert sys.modules.pop("asked_of_given").__file__ == str(tmp_path / "asked_of_given.py")


def test_there_is_one_folder(tmp_path, monkeypatch, finders):
    assert importable_from() is None or os.path.isdir(importable_from())
    for name in ("one", "two", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        own_classes_importable()
        assert importable_from() == str(tmp_path / name)
        assert sum(isinstance(finder, WorkingFolder) for finder in sys.meta_path) == 1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["python", "-m", "benchmark"], True),
        (["python", "-X", "dev", "-m", "benchmark.report", "runs"], True),
        (["python", "-mbenchmark.train"], True),
        (["python", "-m", "benchmarks"], False),
        (["python", "-m", "pytest", "benchmark"], False),
        (["python", "-m"], False),
    ],
)
def test_whether_the_interpreter_was_asked_for_us(monkeypatch, typed, meant):
    monkeypatch.setattr(sys, "orig_argv", typed)
    monkeypatch.setattr(sys, "argv", ["-m"])
    assert asked_by_name("benchmark") == meant
    monkeypatch.setattr(sys, "argv", ["/somewhere/benchmark/__main__.py"])
    assert not asked_by_name("benchmark")
