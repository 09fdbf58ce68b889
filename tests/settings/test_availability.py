"""What may not be there is asked for in one line, before any work: packages of extras, and names of the hub (offline)."""

import ast
import time
import tomllib

import huggingface_hub
import pytest

from benchmark.commands.entry import main
from benchmark.errors import UserError
from benchmark.models.weights import existing_source
from benchmark.settings.availability import EXTRAS, check_on_hub
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


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A working folder with a checkpoint, an empty cache, and a hub that nothing answers for."""
    (tmp_path / "checkpoints" / "sst-2").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    return monkeypatch


def test_a_hub_that_does_not_answer_is_asked_once(alone):
    started = time.monotonic()
    with pytest.raises(UserError) as caught:
        existing_source("checkpoints/sst2")
    assert time.monotonic() - started < 10
    message = str(caught.value)
    assert message.startswith(
        "model.path=checkpoints/sst2 is no folder here, and as the name of a checkpoint of the hub"
    )
    assert "the hub does not answer" in message
    assert message.endswith("did you mean model.path=checkpoints/sst-2?")
    assert "\n" not in message


def test_a_hub_that_may_not_be_asked_is_not(alone):
    alone.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"model\.path=some/model is no folder.*HF_HUB_OFFLINE.*give the folder of the"):
        existing_source("some/model")


def test_a_data_set_likewise(alone, tmp_path):
    with pytest.raises(
        UserError, match=r"task\.path=some/data is no folder .* data set .* give the folder of the data set"
    ):
        check_on_hub("task.path", "some/data", "dataset")
    (tmp_path / "prepared" / "some___data").mkdir(parents=True)
    alone.setenv("HF_DATASETS_CACHE", str(tmp_path / "prepared"))
    check_on_hub("task.path", "some/data", "dataset")


@pytest.mark.parametrize("status", [401, 404])
def test_a_name_that_the_hub_does_not_have(alone, status):
    class Session:
        def head(self, address, **_):
            assert address == "http://127.0.0.1:9/api/models/checkpoints/sst2"
            return type("Answer", (), {"status_code": status})()

    alone.setattr(huggingface_hub, "get_session", Session)
    with pytest.raises(UserError, match=r"of the hub it is not there \(or is private: hf auth login\); did you mean"):
        existing_source("checkpoints/sst2")


def test_what_is_here_or_in_the_cache_is_not_asked_for(alone, tmp_path):
    (tmp_path / "hub" / "models--some--model").mkdir(parents=True)
    assert existing_source("some/model") == "some/model"
    assert existing_source("checkpoints/sst-2") == "checkpoints/sst-2"
