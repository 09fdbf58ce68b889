"""A user's mistake is one line that names the setting and the way out, exit status 2, and nothing half-written."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoModelForSequenceClassification, BertConfig, BertModel

from benchmark.commands.running import settled_as_typed
from benchmark.comparison import run_comparison
from benchmark.errors import UserError
from benchmark.results import store
from benchmark.settings.checking import check
from benchmark.settings.configuration import compose
from benchmark.settings.making import build, make
from benchmark.types import Evaluation
from tests import text_models
from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def place(place):
    """The same with checkpoints that are bad in one way each."""
    folder = place
    text_models.save_bert(folder / "nan")
    model = AutoModelForSequenceClassification.from_pretrained(folder / "nan")
    with torch.no_grad():
        model.classifier.weight[0, 0] = torch.nan
    model.save_pretrained(folder / "nan")
    small = BertConfig(vocab_size=21, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    BertModel(small).save_pretrained(folder / "headless")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No pictures: they are tested with the report."""
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))


def settings(place, out, *overrides):
    given = {text.lstrip("+~").partition("=")[0] for text in overrides}
    defaults = (
        "task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "methods=[probe]",
        "evaluations=[perturbation]", f"out={out}",
    )  # fmt: skip
    return [*(text for text in defaults if text.partition("=")[0] not in given), *overrides]


def mistake(place, out, *overrides):
    """The message that a command line with these settings ends with."""
    chosen, directory = settings(place, out, *overrides), str(place / "conf")

    def command():
        _, config = settled_as_typed("config", chosen, directory, sweep=False)
        check(config)
        run_comparison(config)

    with pytest.raises(UserError) as caught:
        command()
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def nothing_written(out):
    return not out.exists() or [path for path in out.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("task=planetd", "task=planetd does not exist; did you mean planted, parsed, planted_patch?"),
        ("task=tiny_tusk", "task=tiny_tusk does not exist; did you mean tiny_task"),
        ("model=tini", "model=tini does not exist; did you mean tiny, tiny_vit, tiny_lm?"),
        ("methods=[rolout]", "methods=rolout does not exist; did you mean rollout?"),
        ("methods=[rollout,prob]", "methods=prob does not exist; did you mean probe?"),
        ("evaluations=[perturbatoin]", "evaluations=perturbatoin does not exist; did you mean perturbation"),
        ("tracking=mlflow", "tracking=mlflow does not exist; allowed: none, wandb"),
        ("+experiment=chefer2021", "experiment=chefer2021 does not exist; did you mean chefer2021_movies"),
        ("limt=3", "limt is no setting: there is no 'limt'; did you mean limit"),
        ("methods.probe.hou=x", "methods.probe.hou is no setting: there is no 'hou'; did you mean how?"),
        ("methods.prob.how=x", "methods.prob.how is no setting: there is no 'prob'; did you mean probe?"),
        ("limit", "'limit' is no setting; write NAME=VALUE"),
        ("limit=0", "limit=0 leaves no example; give a positive whole number, or null for all"),
        ("limit=-3", "limit=-3 leaves no example"),
        ("limit=many", "limit=many is no whole number"),
        ("limit=true", "limit=True is no whole number"),
        ("batch_size=0", "batch_size=0 must be a whole number of at least 1"),
        ("batch_size=2.5", "batch_size=2.5 must be a whole number of at least 1"),
        ("seed=abc", "seed=abc must be a whole number of at least 0"),
        ("checkpoint_seconds=soon", "checkpoint_seconds=soon must be a number of at least 0"),
        ("out=null", "out=None must be a text"),
        ("name=../../evil", "name='../../evil' names files: it may not hold /"),
        ("name=a/b", "name='a/b' names files"),
        ("name=.hidden", "name='.hidden' names files"),
        (f"name={'x' * 200}", "exceed 150 bytes"),
        ("+task.name=../../evil", "task.name='../../evil' names files: it may not hold /"),
        ("split=null", "split=None must be a text"),
        ("~seed", "seed is not set; give it on the command line: seed=..."),
        ("methods=[]", "methods is empty; name at least one of: accuracy_difference"),
        ("model.path=???", "model.path is not set; give it on the command line: model.path=..."),
        ("model.path=/nowhere/at/all", "model.path=/nowhere/at/all is not a directory; give a checkpoint's directory"),
        ("model.path=some/model", "model.path=some/model is no folder here, and as the name of a checkpoint"),
        ("model.dtype=float8", "model.dtype=float8: allowed are float32, float64, bfloat16, float16"),
        ("model.device=gpu7", "model.device=gpu7"),
        ("task.names=[negative,good]", "label negative of the task is unknown to the model 'bert'"),
        ("task._target_=tasks.nope.Nope", "task._target_=tasks.nope.Nope: there is no module tasks.nope"),
        ("~task._target_", "task names no class; the form of a YAML in task/ is _target_: CLASS"),
        ("+methods.version=1", "methods.version names no class; the form of a YAML in methods/ is NAME: {_target_: CLASS}"),
        ("+methods.probe.colour=red", "methods.probe.colour is no setting: there is no 'colour'; allowed: how"),
        ("tracking.mode=sometimes", "tracking.mode=sometimes: allowed are online, offline, disabled"),
        ("evaluations.perturbation.operator=erase", "evaluations.perturbation.operator=erase: allowed are auto"),
        ("evaluations.perturbation.fractions=[0.5,0.1]", "evaluations.perturbation.fractions"),
    ],
)  # fmt: skip
def test_a_wrong_setting_says_what_is_right(place, tmp_path, override, expected):
    message = mistake(place, tmp_path / "out", override)
    assert expected in message
    assert nothing_written(tmp_path / "out")


@pytest.mark.parametrize(
    ("method", "override", "expected"),
    [
        ("attattr", "edges.steps=0", "methods.attattr.edges.steps=0: allowed are whole numbers from 1"),
        ("attattr", "edges.steps=-5", "methods.attattr.edges.steps=-5: allowed are whole numbers from 1"),
        (
            "rollout",
            "readout.start_layer=7",
            "methods.rollout.readout.start_layer=7 is out of range: the model has 2 layers",
        ),
        (
            "partial_lrp",
            "readout.layer=9",
            "methods.partial_lrp.readout.layer=9 is out of range: the model has 2 layers",
        ),
    ],
)
def test_a_wrong_setting_of_a_method(place, tmp_path, method, override, expected):
    message = mistake(place, tmp_path / "out", f"methods=[random,{method}]", f"methods.{method}.{override}")
    assert message.startswith(expected)
    assert nothing_written(tmp_path / "out"), "said before another method is explained"


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        ("headless", "no trained classifier head (missing weights: classifier"),
        ("nan", "holds values that are not finite (NaN or infinity) in 'classifier.weight'"),
        ("empty", "cannot be loaded"),
        ("conf/task/tiny_task.yaml", "is not a directory"),
    ],
)
def test_a_checkpoint_that_cannot_be_compared(place, tmp_path, checkpoint, expected):
    message = mistake(place, tmp_path / "out", f"model.path={place / checkpoint}")
    assert f"model.path={place / checkpoint}" in message
    assert expected in message
    assert nothing_written(tmp_path / "out")


def test_an_output_folder_that_cannot_be_written(place, tmp_path):
    (tmp_path / "file").write_text("in the way")
    message = mistake(place, tmp_path / "file" / "out")
    assert message.startswith(f"out={tmp_path / 'file' / 'out'} cannot be written to (")
    assert "choose another folder" in message
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.fixture(scope="module")
def finished(place, tmp_path_factory):
    """A finished comparison of one method, to be copied and damaged."""
    out = tmp_path_factory.mktemp("finished")
    chosen = settings(place, out)
    return out, run_comparison(compose("config", chosen, str(place / "conf"))).cells[0].relative_to(out)


def cut(path):
    """Keep the first half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("damaged", "removed", "overrides"),
    [
        ("record.json", (), ()),
        ("rows.parquet", (), ("evaluations=[perturbation,rationale]",)),
        ("rows.parquet", (), ()),
        ("attributions-predicted.safetensors", (), ("evaluations=[perturbation,rationale]",)),
        ("attributions-predicted.safetensors", ("record.json", "rows.parquet"), ()),
    ],
)
def test_a_corrupt_run_folder_is_named_and_left_alone(place, tmp_path, finished, damaged, removed, overrides):
    out, cell = finished
    shutil.copytree(out, tmp_path / "out")
    folder = tmp_path / "out" / cell
    cut(folder / damaged)
    for name in removed:
        (folder / name).unlink()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "config.yaml"}
    message = mistake(place, tmp_path / "out", *overrides)
    assert str(folder / damaged) in message
    assert "corrupt" in message
    assert f"remove the folder {folder}" in message
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "config.yaml"}
    assert {path: after[path] for path in before} == before
    shutil.rmtree(folder)  # the way out that the message gives
    run_comparison(compose("config", settings(place, tmp_path / "out", *overrides), str(place / "conf")))
    assert store.find_cells(tmp_path / "out") == [folder]


@pytest.mark.parametrize("record", ["[]", "{}", '{"schema": 99}', '{"schema": 1}', ""])
def test_a_record_of_another_shape_is_corrupt(place, tmp_path, finished, record):
    out, cell = finished
    shutil.copytree(out, tmp_path / "out")
    (tmp_path / "out" / cell / "record.json").write_text(record)
    if record == '{"schema": 1}':  # a record without evaluations is computed again
        run_comparison(compose("config", settings(place, tmp_path / "out"), str(place / "conf")))
        assert store.read_record(tmp_path / "out" / cell).evaluations
        return
    assert f"{tmp_path / 'out' / cell / 'record.json'} is corrupt" in mistake(place, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "override", "expected"),
    [
        ("methods/rolout", None, "methods=rolout does not exist; did you mean rollout?"),
        ("evaluations/perturbatoin", None, "evaluations=perturbatoin does not exist; did you mean perturbation"),
        ("attattr", None, "build('attattr'): give the name of a YAML with its group, such as 'methods/attattr'"),
        ("methods/rollout", "readout.start_layer 2", "a setting is written NAME=VALUE"),
        ("methods/rollout", "readout.start_layer", "a setting is written NAME=VALUE"),
        ("methods/rollout", "readout.start_layer=[1", "a setting is written NAME=VALUE"),
        ("methods/rollout", "readout.start=2", "methods.rollout.readout.start is no setting"),
        ("methods/attattr", "edges.steps=0", "methods.attattr.edges.steps=0: allowed are whole numbers from 1"),
    ],
)
def test_the_python_call_says_the_same(name, override, expected):
    with pytest.raises(UserError) as caught:
        build(name, *([override] if override else []))
    assert expected in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@dataclass(frozen=True)
class Choosy:
    """The types of this module are not checked at the call, as those of a third party are not."""

    part: Literal["signed", "positive"] = "signed"
    inner: object = None


def test_a_choice_that_does_not_exist():
    target = {"_target_": "tests.test_bad_input.Choosy"}
    assert make(target) == Choosy()
    wrong = {**target, "part": "negative"}
    for config, path in ((wrong, "part"), ({**target, "inner": wrong}, "inner.part")):
        with pytest.raises(UserError, match=f"^{path}=negative: allowed are signed, positive"):
            make(config)


def test_what_lacks_a_part_of_its_protocol():
    """Said when it is made, before anything is loaded."""
    choosy = {"_target_": "tests.test_bad_input.Choosy"}
    tested = OmegaConf.create({"evaluations": {"mine": choosy}}).evaluations.mine
    with pytest.raises(
        UserError, match=r"^evaluations\.mine=Choosy: allowed are subclasses of benchmark\.types\.Evaluation$"
    ):
        make(tested, Evaluation)
    explainer = {"_target_": "methods.attention_explainer.AttentionExplainer", "edges": choosy}
    with pytest.raises(
        UserError, match=r"^edges=Choosy\(.*\): allowed are objects with class_specific, version \(EdgeS"
    ):
        make({**explainer, "readout": {"_target_": "methods.readouts.rollout.Rollout"}})


def start(*arguments):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "benchmark", *arguments],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("methods=[rolout]",), "error: methods=rolout does not exist; did you mean rollout?"),
        (("limit=0",), "error: limit=0 leaves no example"),
        (("model=hf",), "error: model.path is not set; give it on the command line: model.path=..."),
        (("--config-dir", "/nowhere"), "error: --config-dir=/nowhere is no folder"),
        (
            ("model=hf", "model.path=x", "evaluations=[perturbation]", "evaluations.perturbation.pool=median"),
            "error: evaluations.perturbation.pool=median: allowed are max, sum, mean",
        ),
    ],
)
def test_the_command_ends_with_status_2_and_one_line(tmp_path, arguments, expected):
    done = start(f"out={tmp_path / 'out'}", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr
    assert done.stdout == ""
    assert nothing_written(tmp_path / "out")


@pytest.mark.slow
def test_a_bug_keeps_its_traceback(place, tmp_path):
    chosen = settings(place, tmp_path / "out", "methods.probe.how=bug")
    done = start("--config-dir", str(place / "conf"), *chosen)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: a bug in a method" in done.stderr
    assert str(Path("tests", "tiny_task.py")) in done.stderr


def test_help_explains_the_command():
    done = start("--help")
    assert done.returncode == 0
    methods = sorted(["all", *(path.stem for path in Path("conf", "methods").glob("*.yaml"))])
    for text in (
        "python -m benchmark [SETTING=VALUE ...]", "limit=N", "+experiment=NAME", "--config-dir DIR", "Examples",
        f"methods: {', '.join(methods)}\n", "evaluations: agreement", "task: agreement, agreement_stimuli, attacked,",
        "model: adversarial, deceptive, encoder, finetuned, hf, lm, softened, tiny",
        "batch_size: 16", "python -m benchmark.report RUNS",
    ):  # fmt: skip
        assert text in done.stdout
