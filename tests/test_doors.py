"""The commands from outside: the console command, its pages, and a working folder with modules that are named like ours."""

import os
import sys
from importlib.metadata import entry_points

import pytest

from benchmark.commands import entry
from benchmark.commands import help as pages
from benchmark.commands.running import looked_at
from benchmark.commands.shown import description, listing
from benchmark.errors import UserError
from benchmark.settings.configuration import GROUPS, options
from benchmark.working_folder import own_modules_first
from tests.conftest import REPOSITORY
from tests.test_mistakes import HEAVY, run

CONSOLE = "import sys; sys.path.pop(0); from benchmark.commands.entry import main; main()"
"""What an installed console command runs: the working folder is not on its path."""

LIGHT = f"import sys; print([name for name in {HEAVY} + ('hydra',) if name in sys.modules], file=sys.stderr)"


@pytest.fixture
def shadowed(tmp_path):
    """A folder with modules named like ours and like those of libraries, and a method of the user's own."""
    for name in ("tasks", "methods", "conf", "datasets", "tokenizers"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name}.py of the working folder was imported')\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "norms.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Norm:\n    power: int = 2\n"
    )
    (tmp_path / "yamls" / "methods").mkdir(parents=True)
    (tmp_path / "yamls" / "methods" / "norm.yaml").write_text("norm:\n  _target_: mine.norms.Norm\n")
    return tmp_path


@pytest.mark.parametrize("program", [["-m", "benchmark"], ["-c", CONSOLE, "run"]], ids=["module", "console"])
def test_modules_of_the_working_folder_do_not_stand_in_for_ours(shadowed, program):
    words = ["--config-dir", "yamls", "methods=[norm,random]", "methods.norm.power=two", f"out={shadowed / 'out'}"]
    done = run([sys.executable, *program, *words], folder=shadowed)
    assert done.stderr == "error: methods.norm.power=two: allowed are whole numbers\n"
    assert done.returncode == 2
    words[3] = "methods.random._target_=tasks.Mine"
    done = run([sys.executable, *program, *words], folder=shadowed)
    assert "tasks is a package of this benchmark: give your tasks.py another name" in done.stderr


def test_own_modules_are_found_before_those_of_the_working_folder(shadowed, monkeypatch):
    monkeypatch.chdir(shadowed)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    own_modules_first()
    assert {"", str(shadowed)}.isdisjoint(sys.path)
    for name in ("conf", "methods", "tasks"):
        assert sys.modules[name].__file__ == str(REPOSITORY / name / "__init__.py")


def test_the_console_command_is_declared():
    scripts = (REPOSITORY / "pyproject.toml").read_text()
    assert 'attention-benchmark = "benchmark.commands.entry:main"' in scripts
    for script in entry_points(group="console_scripts", name="attention-benchmark"):
        assert script.value == "benchmark.commands.entry:main"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "usage: attention-benchmark COMMAND ..."),
        (["--help"], "usage: attention-benchmark COMMAND ..."),
        (["--version"], "attention-explainer-benchmark "),
        (["run", "--version"], "attention-explainer-benchmark "),
        (["run", "--help"], "usage: attention-benchmark run [SETTING=VALUE ...]"),
        (["plan", "--help"], "usage: attention-benchmark plan [SETTING=VALUE ...]"),
        (["train", "--help"], "usage: attention-benchmark train task=NAME model.path=BASE out=DIR"),
    ],
)
def test_pages(capsys, words, expected):
    entry.main(words)
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rnu"], "error: rnu is no command; did you mean run, train?"),
        (["limit=5"], "error: limit=5 is a setting; the command comes first: attention-benchmark run limit=5"),
        (
            ["plan", "-m", "seed=1,2"],
            "error: -m: a plan is of one comparison; leave out -m, and give each setting one value",
        ),
        (["plan", "limit=0"], "error: limit=0 leaves no example; give a positive whole number, or null for all"),
        (["show"], "error: the following arguments are required: NAME; attention-benchmark show --help tells how"),
        (["list", "method"], "error: there is no list of method; did you mean methods?"),
        (["list", "methods", "all"], "error: unrecognized arguments: all; attention-benchmark list --help tells how"),
        (["show", "rolout"], "error: nothing is called rolout; did you mean rollout?"),
    ],
)
def test_a_wrong_command(capsys, words, expected):
    with pytest.raises(SystemExit) as caught:
        entry.main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"{expected}\n"


def test_report_help_is_ours(capsys):
    with pytest.raises(SystemExit) as caught:
        entry.main(["report", "--help"])
    assert caught.value.code == 0
    assert "RUNS" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["benchmark", "benchmark.train"])
def test_help_imports_nothing_but_what_it_prints(module):
    program = (
        f"import runpy, sys; sys.argv = ['', '--help']; runpy.run_module('{module}', run_name='__main__'); {LIGHT}"
    )
    done = run([sys.executable, "-c", program])
    assert done.returncode == 0
    assert done.stderr == "[]\n"
    assert f"usage: python -m {module} " in done.stdout


def test_help_names_every_option_and_setting():
    page = pages.help_of("config", "python -m benchmark")
    for group in GROUPS:
        line = next(line for line in page.splitlines() if line.startswith(f"  {group}: "))
        assert set(options(group)) <= set(line.partition(": ")[2].split(", "))
    for setting in ("limit: null", "seed: 0", "batch_size: 16", "checkpoint_seconds: 30"):
        assert f"  {setting} " in page
    assert "  epochs: 3" in pages.help_of("train", "python -m benchmark.train")


def test_every_name_is_listed_with_what_it_is():
    lines = listing().splitlines()
    for group in GROUPS:
        for name in options(group):
            found = [line for line in lines if line.startswith(f"  {name} ")]
            assert found
            assert all(len(line.split()) > 3 for line in found)


def test_one_thing_is_shown_with_its_settings_source_and_cost():
    text = description("partial_lrp")
    for part in (
        "partial_lrp (methods): methods=[partial_lrp]",
        "methods.partial_lrp.readout.layer=-1    # whole numbers, and mean, max",
        "methods.partial_lrp.edges.precision=float64    # model, float64",
        "Source: ",
        "Cost: ",
    ):
        assert part in text
    assert "head_pruning.calibration.limit=100    # whole numbers from 1" in description("head_pruning")
    assert "evaluations:" in description("chefer2021_movies")


def test_what_is_shown_is_for_a_person_who_types(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = description("raw_attention")
    assert "Attributes:" not in text
    assert "With factors=" not in text
    assert text.index("`E[l,h,i,j] = A[l,h,i,j]`, in [0, 1]") < text.index("Scores edges once")  # its own part first
    assert text.count("Cost: 1 forward pass.") == 1
    assert "2 backward passes" not in text  # of other factors
    assert '  "methods.raw_attention.edges.factors=[attention]"    # lists of' in text
    setting = text.partition("  methods.raw_attention.readout.head=null")[2].splitlines()
    assert setting[1] == "      which head, counted from 0 or from the end; None is the mean over heads."
    assert max(map(len, text.partition("\nSettings\n")[0].splitlines())) <= 80
    assert "      of what is drawn." in description("lime")  # which its class leaves to its ancestor


def test_one_group_is_listed_alone():
    lines = listing("model").splitlines()
    names = ["model", *options("model")]
    assert [line.split()[0] for line in lines[: len(names)]] == names
    assert lines[len(names)] == ""


def test_a_list_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = listing().splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("  rollout ") and "`E[l,h,i,j] = A[l,h,i,j]`, in [0, 1]" in line for line in lines)


@pytest.mark.parametrize("words", [["list"], ["show", "lime"], ["run", "--help"], ["--help"]])
def test_a_reader_that_stops_early_ends_a_page_quietly(words, monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        entry.main(words)


@pytest.mark.parametrize("name", [f"{group}/{option}" for group in GROUPS for option in options(group)[:2]])
def test_everything_can_be_shown(name):
    assert name.partition("/")[2] in description(name)


def test_a_setting_of_readouts_is_named_by_the_path_of_the_yaml_that_was_used():
    with pytest.raises(
        UserError, match=r"^methods\.partial_lrp\.readout\.layer=9\.5: allowed are whole numbers, and mean"
    ):
        looked_at(["methods=[partial_lrp]", "evaluations=[aopc]", "methods.partial_lrp.readout.layer=9.5"])
