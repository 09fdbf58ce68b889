"""What an extra brings is asked for in one line, before any work, and by nobody else."""

import ast
import tomllib

import pytest

from benchmark.commands.entry import main
from benchmark.errors import UserError
from benchmark.settings.availability import EXTRAS
from benchmark.settings.configuration import compose
from benchmark.settings.making import build
from benchmark.training.finetune import run_training
from tests.conftest import REPOSITORY
from tests.test_architecture import sources

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def bare(monkeypatch):
    """No package of an extra is installed."""
    monkeypatch.setattr("benchmark.settings.availability.find_spec", lambda package: None)


@pytest.mark.parametrize("name", ["captum", "kernel_shap", "lime", "shapley_sampling"])
def test_a_method_names_the_extra_that_it_needs(name, bare):
    with pytest.raises(
        UserError, match=rf"{name} needs captum, .* install the extra 'captum': pip install '\.\[captum\]'"
    ):
        build(f"methods/{name}")


def test_other_methods_need_none(bare):
    assert build("methods/rollout")
    assert build("methods/attattr")


def test_training_names_the_extra_that_it_needs(bare):
    with pytest.raises(UserError, match=r"benchmark\.train needs accelerate, .* the extra 'train'"):
        run_training(compose("train", ["model.path=base", "out=trained"]))


def test_the_command_says_it_in_one_line(bare, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["run", "methods=[lime]", f"out={tmp_path / 'runs'}"])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "extra 'captum'" in line
    assert not [*tmp_path.glob("runs/*/*")]


def test_no_module_needs_an_extra_to_be_imported():
    """Imports of these packages stand in functions."""
    for path in sources():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & {*EXTRAS}, path


def test_extras_bring_what_they_say():
    for package, extra in EXTRAS.items():
        (requirement,) = PROJECT["optional-dependencies"][extra]
        assert requirement.startswith(f"{package}>=")
        assert not [name for name in PROJECT["dependencies"] if name.startswith(package)]
