"""Every command, block of code and setting that the pages show works, with small stand-ins for the reader's folders."""

import ast
import contextlib
import dataclasses
import importlib.util
import io
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from omegaconf import OmegaConf
from transformers import BertConfig
from wandb.cli.cli import cli as wandb_commands

from benchmark.catalogue import main as print_catalogue
from benchmark.commands import board, checking, entry
from benchmark.commands.running import settled_as_typed
from benchmark.comparison import run_comparison
from benchmark.errors import UserError
from benchmark.planning.planner import make_plan
from benchmark.report.__main__ import main as report
from benchmark.run.cell import STEPS
from benchmark.settings.checking import check
from benchmark.settings.configuration import compose, options
from benchmark.settings.defaults import whole
from benchmark.settings.making import make
from benchmark.tracking import Wandb
from benchmark.tracking.method_run import summary
from benchmark.training.finetune import run_training
from tests import pages, reader
from tests.conftest import REPOSITORY
from tests.report.folders import Plan, write_cells

README = REPOSITORY / "README.md"
COMPARE = "python -m benchmark "
COMMANDS = list(dict.fromkeys(command for page in pages.PAGES for command in pages.commands(page)))
FILES = {
    name: code for page in pages.PAGES for name, code in (pages.named_files(page) | pages.shown_files(page)).items()
}
SCRIPTS = list(dict.fromkeys(script for page in pages.PAGES for script in pages.job_scripts(page)))
MADE = " ".join("\n".join(pages.made(page) for page in pages.PAGES).replace("\\\n", " ").split())
DEMO = re.findall(rf"{COMPARE}.*", (REPOSITORY / "Makefile").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A reader's folder: data, checkpoints, and the files that the pages show."""
    place = reader.write(tmp_path_factory.mktemp("reader"))
    for name, code in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(code, encoding="utf-8")
    return place


@pytest.fixture
def here(folder, monkeypatch, no_pictures):
    """Commands run in the reader's folder and find modules there; W&B keeps its copies there."""
    monkeypatch.chdir(folder)
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(folder / "wandb-data"))
    monkeypatch.syspath_prepend(folder)
    return monkeypatch


def run_small(config, run=run_comparison):
    """Make every part of a comparison, and run it with two examples, its first method beside random and two tests.

    Of an experiment, only random and the first test are run.
    """
    check(config)
    for group in ("methods", "evaluations", "analyses"):
        for settings in config[group].values():
            make(settings)
    if config.model.get("gguf_file"):  # another language model, which has few words
        config.model = {**config.model, "path": "checkpoints/lm", "gguf_file": None}
        if config.task.get("words"):
            config.task.words = ["bad", "good"]
    if config.task._target_ == "tasks.generated_prompts.GeneratedPrompts":
        looked_up = {"kinds": ["ioi"]} if set(config.task.kinds) & {"needle", "facts"} else {}
        config.task = {**config.task, "train": 3000, "validation": 6, "test": 6, **looked_up}
        config.model = {"_target_": "benchmark.training.tiny_lm.TinyLM", "steps": 1, "hidden": 8, "intermediate": 8}
    elif "path" not in config.model:
        told = (config.task.get("task") or config.task)._target_
        known = "digits" if told == "tasks.digit_scenes.DigitScenes" else "planted"
        labels = None if known == "digits" else list(make(config.task).labels)
        source = "benchmark.training.sources.HubOrDirectory"
        config.model = {"_target_": source, "path": f"checkpoints/{known}", "labels": labels}
    if config.task.get("path") == "DIRECTORY_OR_HUB_ID":  # of a data set in the folders' layout
        config.task.path, config.task.splits = "data/tiny_imagenet", None
    if config.task._target_ == "tasks.planted.Planted":
        config.task = {"_target_": "tasks.planted.Planted", "train": 4, "validation": 4, "test": 4}
    experiment = config.name != "comparison"
    chosen = ("random",) if experiment else (next(iter(config.methods)), "random")
    methods = [name for name in chosen if name in config.methods] or [next(iter(config.methods))]
    config.methods = {name: config.methods[name] for name in methods}
    config.evaluations = {name: config.evaluations[name] for name in list(config.evaluations)[: 1 if experiment else 2]}
    config.limit, config.analyses = 2, {}
    make(config.engine)  # an engine that is shown can be made; what workers compute is tested elsewhere
    config.engine = {"_target_": "benchmark.engines.local.Local"}
    if config.tracking.get("mode") != "offline":  # which a command says that shows it
        config.tracking = {"_target_": "benchmark.tracking.Wandb", "mode": "disabled"}
    return in_steps(config, run)


def in_steps(config, run):
    """The step that a command names, after those before it, which another process of the tests may have been asked for."""
    if config.get("stage", "all") in STEPS:
        for before in STEPS[: STEPS.index(config.stage)]:
            run(OmegaConf.merge(config, {"stage": before}))
    return run(config)


def compare(words, here):
    """`python -m benchmark`: composed and checked as it stands, run with two examples."""
    if words == ["--help"]:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            entry.compare(words, COMPARE.strip())
        assert "usage:" in printed.getvalue()
        return
    if words[0] == "-m":
        assert settled_as_typed("config", words[1:], None, sweep=True)
        words = [word if "[" in word else word.partition(",")[0] for word in words[1:]]  # the first of each sweep
    directory = str(Path(words[1]).absolute()) if words[0] == "--config-dir" else None
    run_small(settled_as_typed("config", words[2:] if directory else words, directory, sweep=False)[1])


def plan(words, here):
    """`python -m benchmark plan`: composed and checked as it stands, planned with two examples."""
    here.setattr("benchmark.planning.reporting.curve_files", lambda *_: iter(()))
    assert run_small(settled_as_typed("config", words, None, sweep=False)[1], make_plan).examples == 2


def train(words, here):
    """`python -m benchmark.train`: one epoch, on the local files of the task."""
    if not words:
        return
    named = (word.removeprefix("task.root=") for word in words if word.startswith("task.root="))
    root = next((folder for folder in named if Path(folder).is_dir()), "data/glue/SST-2")
    config = settled_as_typed("train", [*words, f"task.root={root}"], None, sweep=False)[1]
    shutil.rmtree("trained", ignore_errors=True)  # of another command that a page shows
    config.out, config.recipe.epochs = "trained", 1
    config.recipe.freeze = min(config.recipe.freeze, 2)  # the small model has three blocks
    assert run_training(config)["steps"] == 1


def make_report(words, here):
    """`python -m benchmark.report`: of the run folders of two methods."""
    shutil.rmtree(words[0], ignore_errors=True)
    write_cells(Path(words[0]), [Plan("random"), Plan("attattr")])
    assert report(words) == 0


def list_methods(words, here):
    """`python -m benchmark.catalogue`: a page holds what it prints."""
    here.setattr("sys.argv", ["catalogue", *words])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        print_catalogue()
    begin, end = "<!-- python -m benchmark.catalogue -->\n", "<!-- end of the list -->"
    page = (REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8")
    assert page.partition(begin)[2].partition(end)[0].strip() == printed.getvalue().strip()


def write_results(words, here):
    """`python -m docs.results`: what it computes the pages show; what is named is written to a page."""
    docs = Path("docs")
    shutil.copytree(REPOSITORY / "docs", docs, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_build"))
    shutil.copyfile(README, "README.md")
    specification = importlib.util.spec_from_file_location("results", docs / "results.py")
    results = importlib.util.module_from_spec(specification)
    here.setitem(sys.modules, "results", results)
    specification.loader.exec_module(results)
    computed = []

    def small(*overrides):
        computed.append([word for word in overrides if not word.startswith("out=")])
        return run_small(settled_as_typed("config", overrides, None, sweep=False)[1]) if "sst2" in words else None

    here.setattr(results, "compare", small)
    here.setattr(results.Results, "keep", lambda *_: None)  # `tests/test_results.py` looks at what is kept
    here.setitem(results.KINDS, "figure", lambda *_: [])
    if "--check" in words:
        computed_again = [results.Rechecked("random", 0, 4, (), 0.0)]
        here.setattr(results, "recheck_kept", lambda cells, tests, kept: computed_again if len(kept) else [])
        assert results.main(words) == 0
        return
    if "sst2" not in words:  # each of the others is a command of a page
        here.setattr(
            results, "KINDS", dict.fromkeys(results.KINDS, lambda made, block: [str(made.run(block.comparison))])
        )
    results.main(words)
    assert {shlex.join(COMPARE.split() + overrides) for overrides in computed} <= {*COMMANDS, *DEMO}
    assert Path("README.md").read_text(encoding="utf-8") != README.read_text(encoding="utf-8")


def make_target(words, here):
    """`make`: the target is there; the comparison that it runs is in `DEMO`."""
    subprocess.run(["make", "--dry-run", "--always-make", *words], cwd=REPOSITORY, capture_output=True, check=True)


def module(words, here):
    """`python -m tests...`, which takes minutes: it is there, and a program."""
    found = importlib.util.find_spec(words[0])
    program = found if found.submodule_search_locations is None else importlib.util.find_spec(f"{words[0]}.__main__")
    assert "__main__" in Path(program.origin).read_text(encoding="utf-8")


def send_offline_runs(words, here):
    """`wandb sync`: W&B's command takes the words, of which the paths must be there; nothing is sent."""
    compare(["tracking.mode=offline", "out=runs"], here)
    paths = [str(path) for word in words[1:] for path in Path().glob(word)]
    command = wandb_commands.get_command(None, words[0])
    assert sorted(command.make_context(words[0], [*paths]).params["paths"]) == sorted(paths) != []


def run_tests(words, here):
    """`python -m pytest`: folders and marks are there."""
    markers = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").partition("markers = ")[2]
    for word in words:
        assert (
            word.startswith("-") or word == "auto" or (REPOSITORY / word).exists() or f'"{word.split()[-1]}:' in markers
        )


def hook(words, here):
    """`pre-commit`, which is not installed with the tests."""
    assert (REPOSITORY / ".pre-commit-config.yaml").is_file()


def check_one(words, here):
    """`attention-benchmark check`: read as it stands, and one of its checks made."""
    asked = checking.looked_at(words)
    one = "rows" if asked.method is None else "form"
    kept = [word for word in words if not word.startswith(("only=", "golden=", "write_golden="))]
    with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as caught:
        entry.check([*kept, f"only={one}", "out=checked"], "attention-benchmark check")
    assert caught.value.code == 0, printed.getvalue()


RUNNERS = {
    f"{COMPARE}plan ": plan,
    COMPARE: compare,
    "python -m benchmark.train ": train,
    "python -m benchmark.report ": make_report,
    "python -m benchmark.catalogue ": list_methods,
    "python -m docs.results ": write_results,
    "make ": make_target,
    "python -m ": module,
    ".venv/bin/python -m pytest ": run_tests,
    "pre-commit ": hook,
    "wandb ": send_offline_runs,
    "attention-benchmark check ": check_one,
}
"""How the commands that begin so are run; the first that fits."""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[pytest.mark.thorough] if place % 3 or f" {command} " in MADE else [])
        for place, command in enumerate([*COMMANDS, *DEMO])
    ],
)
def test_a_command_that_is_shown(command, here):
    """`make test` asks every third one, and none of those that `docs.results` writes, which are many and of one form."""
    begin = next(begin for begin in RUNNERS if f"{command} ".startswith(begin))
    RUNNERS[begin](shlex.split(f"{command} ".removeprefix(begin)), here)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_job_script_that_is_shown(script, here):
    """The command of Python that it hands to `srun` is one whose settings exist."""
    stub = """
        srun() { while [ $# -gt 0 ] && [ "$1" != python ]; do shift; done; [ $# -eq 0 ] || printf '%s\\n' "$@"; }
        scontrol() { echo node; }
        sleep() { :; }
    """
    shown = subprocess.run(
        ["bash", "-c", stub + script], env={"SLURM_ARRAY_TASK_ID": "0"}, capture_output=True, check=True
    )
    words = shown.stdout.decode().splitlines()
    assert shlex.join(words[:3]) + " " == COMPARE
    assert settled_as_typed("config", words[3:], None, sweep=False)


OF_PYTHON = [page for page in pages.PAGES if pages.programs(page) and page.stem != "wandb"]  # which needs runs of W&B


@pytest.mark.parametrize("page", OF_PYTHON, ids=lambda page: page.stem)
def test_blocks_of_python_run(page, here):
    """Statement by statement; a comment in brackets after one is the shape of its value."""
    here.setattr(
        "benchmark.comparison.compare",
        lambda *words: run_small(settled_as_typed("config", words, None, sweep=False)[1]),
    )
    names = {}
    for code in pages.programs(page):
        for statement in ast.parse(code).body:
            comment = code.splitlines()[statement.end_lineno - 1][statement.end_col_offset :].strip()
            text = ast.get_source_segment(code, statement)
            if isinstance(statement, ast.Expr):
                value = eval(text, names)
                assert not comment.startswith("# [") or value.dim() == comment.count(",") + 1
            else:
                exec(text, names)


def test_runs_are_read_back_from_wandb(here, monkeypatch, capsys):
    """The block of the page on a run as it was logged, in the place of W&B's server."""
    ((_, code),) = [block for block in pages.blocks(REPOSITORY / "docs" / "wandb.md") if block[0] == "python"]
    cells = run_small(settled_as_typed("config", ["evaluations=[perturbation]"], None, sweep=False)[1]).loaded
    rows = SimpleNamespace(type="rows", download=lambda place: print("downloaded to", place))
    runs = [
        SimpleNamespace(name=cell.method, job_type="method", summary=summary(cell), logged_artifacts=lambda: [rows])
        for cell in cells
    ]
    api = SimpleNamespace(runs=lambda path, filters: runs if (path, *filters) == (Wandb().project, "group") else [])
    monkeypatch.setattr("wandb.Api", lambda: api)
    exec(code, {})
    assert re.fullmatch(r"(\w+ [\d.]+\ndownloaded to rows\n){2}", capsys.readouterr().out)


def test_other_blocks_are_files():
    for page in pages.PAGES:
        for language, code in pages.blocks(page):
            assert language in ("", "text", "bash", "python") or code in FILES.values()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_paper_that_is_shown_compiles(here, tmp_path):
    write_cells(tmp_path, [Plan("random"), Plan("attattr")])
    assert report([str(tmp_path), "report.latex.columns=two"]) == 0
    (table,) = tmp_path.rglob("leaderboard.tex")
    here.chdir(table.parent)
    Path("paper.tex").write_text(FILES["paper.tex"], encoding="utf-8")
    made = subprocess.run(
        ["pdflatex", "-halt-on-error", "paper"], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert b"Overfull" not in made.stdout
    assert Path("paper.pdf").stat().st_size > 1000


def test_extras_that_are_named_exist():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    spans = [span for page in pages.PAGES for span in pages.spans(page)]
    named = {name for span in spans for name in re.findall(r"pip install .*\[(\w+)\]", span)}
    assert named <= {*project["optional-dependencies"]}
    assert "all" in named


@pytest.fixture(scope="module")
def parts():
    """Every setting of the commands, and of every method and test by the name of its YAML."""
    every = ["methods=all", "evaluations=all", f"analyses=[{','.join(options('analyses'))}]", "model=hf"]
    config = OmegaConf.to_container(compose("config", every), resolve=True)
    groups = ("methods", "evaluations", "analyses")
    named = {f"{group}/{name}": part for group in groups for name, part in config[group].items()}
    named |= {
        f"{group}/{name}": {group: _chosen(group, name)}
        for group, names in (
            (
                "task",
                (
                    "text_classification",
                    "eraser",
                    "image_folder",
                    "digit_scenes",
                    "multiple_choice",
                    "attacked",
                    "listed_options",
                    "distinct_passages",
                ),
            ),
            ("model", ("hf", "lm")),
            ("engine", ("ray",)),
        )
        for name in names
    }
    train_config = OmegaConf.to_container(compose("train"))
    return {name: whole(part) for name, part in {**named, "config": config, "train": train_config}.items()}


def _chosen(group, name):
    """What a command's configuration holds where an option of a group is chosen."""
    return OmegaConf.to_container(compose(None, [f"+{group}={name}"])[group])


def holds(settings, key):
    """Whether a part has a setting."""
    name, _, rest = key.partition(".")
    return isinstance(settings, dict) and name in settings and (not rest or holds(settings[name], rest))


def takes(settings, key, value):
    """Whether a part can be made with a value of a setting; a command's configuration is no part that is made."""
    if "_target_" not in settings:
        return True
    changed = OmegaConf.create(settings)
    OmegaConf.update(changed, key, yaml.safe_load(value), merge=False)
    try:
        return make(changed) is not None
    except UserError:
        return False


@pytest.mark.parametrize("span", dict.fromkeys(span for page in pages.PAGES for span in pages.settings(page)))
def test_a_setting_that_is_shown(span, parts):
    """It can be given to the command, or it is one of some method or test, which takes each of the values shown; or a
    checkpoint's `config.json` holds it."""
    if re.match(r"-m |methods=|evaluations=|report\.", span):
        assert settled_as_typed("config", shlex.split(span.removeprefix("-m ")), None, sweep=span.startswith("-m "))
        return
    if span.startswith("hydra.launcher."):
        submitit = pytest.importorskip(
            "hydra_plugins.hydra_submitit_launcher.config", reason="needs the extra `launchers`"
        )
        joblib = pytest.importorskip("hydra_plugins.hydra_joblib_launcher.config", reason="needs the extra `launchers`")
        launchers = (submitit.SlurmQueueConf, joblib.JobLibLauncherConf)
        fields = {field.name for launcher in launchers for field in dataclasses.fields(launcher)}
        assert {setting.partition("=")[0].removeprefix("hydra.launcher.") for setting in span.split()} <= fields
        return
    key, _, values = span.partition("=")
    if hasattr(BertConfig(), key) or any(key in keys for keys in board.KEYS.values()):
        return
    group, _, rest = key.partition(".")
    name, _, inner = rest.partition(".")
    of_part = f"{group}/{name}" in parts
    inner, names = (inner, [f"{group}/{name}"]) if of_part else (key, list(parts))
    owners = [name for name in names if holds(parts[name], inner)]
    assert owners
    swept = values[:1] not in "[{" and "," in values
    for value in filter(None, values.split("," if swept else "|")):
        assert any(takes(parts[part], inner, value) for part in owners), value


_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_brackets_stand_in_quotation_marks(page):
    """zsh takes a bracket outside of them for a pattern, and says "no matches found"."""
    shells = [code for language, code in pages.blocks(page) if language in ("", "bash")]
    lines = [line for code in shells for line in code.replace("\\\n", " ").splitlines()]
    shown = [line.partition(" #")[0] for line in (*lines, *pages.spans(page)) if pages.is_command(line)]
    assert [line for line in shown if {*"[{"} & {*_QUOTED.sub("", line)}] == []
