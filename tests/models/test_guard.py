"""What a method leaves changed is put back, said in one line that names it, and stored nowhere."""

import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

import benchmark
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.comparison import analyse
from benchmark.engines.worker import Worker
from benchmark.errors import NotApplicable
from benchmark.exits import Kept, ended
from benchmark.models.guard import Look, ModelChangedError, is_ours
from benchmark.planning.planner import make_plan
from benchmark.results import store
from benchmark.run.explaining import Checked, Explain
from benchmark.run.steps import UnfinishedError
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Method, as_compared
from tests import text_models, tiny_task
from tests.covering import covering, one_in

pytestmark = pytest.mark.mistyped  # beartype's own draws change the random state that the guard watches

GIVEN = ["the film was good", "a dull plot"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return benchmark.load_model(text_models.save_bert(tmp_path_factory.mktemp("model") / "bert"), device="cpu")


def weight(model):
    return model.model.bert.encoder.layer[0].attention.self.query.weight


def with_grad(model, batch, target):
    weight(model).requires_grad_(True)
    model.model(**batch.tensors).logits.sum().backward()
    weight(model).requires_grad_(False)


def replaced_attention(model, batch, target):
    model.model.set_attn_implementation("eager")


def forward_of_an_object(model, batch, target):
    layer = model.model.bert.encoder.layer[0]
    layer.forward = MethodType(type(layer).forward, layer)


def forward_of_a_class(model, batch, target):
    kind = type(model.model.bert.encoder.layer[0])
    own = kind.forward
    kind.forward = lambda *given, **named: own(*given, **named)


def rationale(model, batch, target):
    batch.rationale[0][:] = True


SPOILS: dict[str, tuple[Callable[..., Any], str]] = {
    "train": (lambda model, batch, target: model.model.train(), "training mode"),
    "train_one": (lambda model, batch, target: model.model.bert.pooler.train(), "training mode of bert.pooler"),
    "hook": (lambda model, batch, target: model.model.bert.pooler.register_forward_hook(lambda *_: None), "a hook"),
    "pre_hook": (
        lambda model, batch, target: weight(model) is None
        or model.model.bert.register_forward_pre_hook(lambda *_: None, with_kwargs=True),
        "a hook",
    ),
    "global_hook": (
        lambda model, batch, target: torch.nn.modules.module.register_module_forward_hook(lambda *_: None),
        "of all modules",
    ),
    "zero": (lambda model, batch, target: weight(model).zero_(), "weights of bert.encoder.layer.0"),
    "zero_one": (lambda model, batch, target: weight(model)[0, 0].zero_(), "weights of bert.encoder.layer.0"),
    "data": (lambda model, batch, target: weight(model).data.mul_(1.01), "weights of bert.encoder.layer.0"),
    "numpy_view": (
        lambda model, batch, target: np.copyto(weight(model).numpy(), weight(model).numpy() * 2),
        "weights of bert.encoder.layer.0",
    ),
    "other_data": (
        lambda model, batch, target: setattr(weight(model), "data", torch.zeros_like(weight(model))),
        "weights of bert.encoder.layer.0",
    ),
    "other_parameter": (
        lambda model, batch, target: setattr(
            model.model.bert.encoder.layer[0].attention.self, "query", torch.nn.Linear(4, 4)
        ),
        "modules of bert.encoder.layer.0.attention.self",
    ),
    "double": (lambda model, batch, target: model.model.double(), "weights of"),
    "buffer": (lambda model, batch, target: model.model.bert.embeddings.position_ids.zero_(), "position_ids"),
    "requires_grad": (lambda model, batch, target: model.model.requires_grad_(True), "requires_grad of"),
    "grad": (with_grad, "grad of bert.encoder.layer.0.attention.self.query.weight"),
    "dropout": (
        lambda model, batch, target: setattr(model.model.bert.embeddings.dropout, "p", 0.5), "p of bert.embeddings.dropout",
    ),
    "forward_of_an_object": (forward_of_an_object, "forward of bert.encoder.layer.0"),
    "forward_of_a_class": (forward_of_a_class, "forward of BertLayer"),
    "attention": (replaced_attention, "of the configuration"),
    "config": (lambda model, batch, target: model.config.id2label.update({0: "x"}), "id2label of the configuration"),
    "attention_functions": (
        lambda model, batch, target: __import__("transformers").AttentionInterface.register("sdpa", print),
        "attention functions",
    ),
    "tokenizer": (
        lambda model, batch, target: setattr(model.tokenizer, "padding_side", "left"), "padding_side of the tokenizer",
    ),
    "numpy": (lambda model, batch, target: np.random.seed(5), "the random state of numpy"),
    "python": (lambda model, batch, target: random.seed(5), "the random state of Python"),
    "torch": (lambda model, batch, target: torch.manual_seed(5), "the seed of torch's random state"),
    "dtype": (lambda model, batch, target: torch.set_default_dtype(torch.float64), "torch's default dtype"),
    "device": (lambda model, batch, target: torch.set_default_device("meta"), "torch's default device"),
    "grad_mode": (lambda model, batch, target: torch.set_grad_enabled(False), "torch's gradient mode"),
    "deterministic": (
        lambda model, batch, target: torch.use_deterministic_algorithms(True), "torch's deterministic algorithms",
    ),
    "threads": (lambda model, batch, target: torch.set_num_threads(3), "torch's number of threads"),
    "denormal": (lambda model, batch, target: torch.set_flush_denormal(True), "denormal numbers"),
    "errors": (lambda model, batch, target: np.seterr(all="raise"), "numpy's handling of errors"),
    "batch": (lambda model, batch, target: batch.tensors["input_ids"].zero_(), "input_ids of the batch"),
    "batch_view": (
        lambda model, batch, target: np.copyto(batch.tensors["input_ids"].numpy(), 3), "input_ids of the batch",
    ),
    "batch_key": (lambda model, batch, target: batch.tensors.pop("attention_mask"), "the tensors of the batch"),
    "batch_other": (
        lambda model, batch, target: batch.tensors.update(input_ids=batch.tensors["input_ids"] * 0),
        "the tensors of the batch",
    ),
    "label": (lambda model, batch, target: batch.label.fill_(1), "label of the batch"),
    "units": (lambda model, batch, target: batch.units.fill_(0), "units of the batch"),
    "rationale": (rationale, "the rationale of the batch"),
    "target": (lambda model, batch, target: target.classes.fill_(1), "the target"),
}  # fmt: skip


@dataclass(frozen=True)
class Spoils(Method):
    """A third party's method that leaves something changed; `then` says how it ends."""

    how: str = "train"
    then: str = "answers"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model, batch, target):
        SPOILS[self.how][0](model, batch, target)
        if self.then == "refuses":
            raise NotApplicable("not today")
        if self.then == "breaks":
            raise ZeroDivisionError
        return Attribution(target=target, tokens=torch.zeros(batch.units.shape, dtype=torch.float32, device="cpu"))

    def with_edges(self, model, batch, target):
        return self(model, batch, target)

    def edge_scores(self, model, batch, target):
        self(model, batch, target)
        return torch.zeros(len(batch), 2, 2, *batch.units.shape[1:], batch.units.shape[1], device="cpu")


def encoded(model):
    marks = [np.array([True, False, False, False]), None]
    return model.encoder(
        GIVEN, uids=["a", "b"], labels=[0, 0], rationale=marks, query_units=[0, 0], meta=[{}, {}]
    )  # fmt: skip


def state(model, batch):
    """Logits, and what else others would notice."""
    logits = model.run(batch).logits
    switches = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        np.geterr(),
        random.random(),
    )
    marks = batch.rationale[0].tolist()
    facts = (switches, model.tokenizer.padding_side, marks, batch.units.tolist(), batch.label.tolist())
    return logits.tolist(), str(model.config), facts, [name for name, _ in model.model.named_parameters()]


@pytest.mark.parametrize(
    ("how", "asked"), covering({how: ["__call__", "with_edges", "edge_scores"] for how in SPOILS}, share=3)
)
def test_whatever_a_method_leaves_is_put_back_and_said(model, how, asked):
    batch, target = encoded(model), ClassTarget(torch.tensor([0, 0]))
    torch.manual_seed(0)
    random.seed(1)
    before = state(model, batch)
    with pytest.raises(ModelChangedError) as caught:
        getattr(Checked("mine", Spoils(how)), asked)(model, batch, target)
    assert str(caught.value).startswith("methods.mine left changed: ")
    assert SPOILS[how][1] in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    random.seed(1)
    assert state(model, batch) == before
    assert target.classes.tolist() == [0, 0]
    Checked("good", tiny_task.Probe())(model, batch, target)  # nothing of it is left


@pytest.mark.parametrize("then", ["refuses", "breaks"])
def test_an_exception_does_not_hide_it(model, then):
    batch, target = encoded(model), ClassTarget(torch.tensor([0, 0]))
    with pytest.raises(ModelChangedError if then == "refuses" else ZeroDivisionError):
        Checked("mine", Spoils("zero", then))(model, batch, target)
    assert bool(weight(model).any())
    with pytest.raises(ZeroDivisionError):
        Checked("mine", Spoils("train", "breaks"))(model, batch, target)
    assert not model.model.training


def test_what_is_changed_for_a_while_is_no_fault(model):
    batch, target = encoded(model), ClassTarget(torch.tensor([0, 0]))
    drawn = []

    def method(model, batch, target):
        with torch.random.fork_rng():
            torch.manual_seed(3)
        drawn.append(torch.rand(2).tolist())  # torch's own generator is set before each call
        kept = weight(model).clone()
        weight(model).zero_()
        weight(model).copy_(kept)
        return Attribution(target=target, tokens=torch.zeros(batch.units.shape))

    torch.manual_seed(0)
    for _ in range(2):
        Checked("mine", as_compared(method))(model, batch, target)
    assert drawn[0] == drawn[1]


def test_ours_are_known_by_all_their_parts():
    for name, settings in compose(None, ["+methods=all"])["methods"].items():
        assert is_ours(instantiate(settings)), name
    assert not is_ours(tiny_task.Probe())
    parts = {
        "_target_": "methods.attention_explainer.AttentionExplainer",
        "edges": {"_target_": "tests.tiny_task.Probe"},
        "readout": {"_target_": "methods.readouts.rollout.Rollout"},
    }
    assert not is_ours(instantiate(OmegaConf.create(parts)))


def test_one_of_ours_that_changes_a_weight_ends_the_comparison(model):
    before = Look(model)
    before.check("mine")
    kept = weight(model).clone()
    weight(model).zero_()
    with pytest.raises(ModelChangedError, match=r"weights of .*cannot be put back") as caught:
        before.check("mine")
    assert not caught.value.restored
    weight(model).copy_(kept)
    before = Look(model)
    model.model.train()
    with pytest.raises(ModelChangedError, match="training mode") as caught:
        before.check("mine")
    assert caught.value.restored
    assert not model.model.training


def test_a_worker_finds_it_too(model):
    from ray.cloudpickle import dumps

    worker = Worker(dumps(model), "cpu", 1, [])
    batch, target = encoded(model), ClassTarget(torch.tensor([0, 0]))
    items = dumps([(batch, (target,))])
    good = dumps(Explain(Checked("probe", tiny_task.Probe())))
    first = worker.run("good", good, items)
    told = worker.run("bad", dumps(Explain(Checked("mine", Spoils("numpy_view")))), items)
    assert told.status == "answer"
    error = pickle.loads(told.content)
    assert isinstance(error, ModelChangedError)
    assert error.restored
    assert "methods.mine left changed: weights of bert.encoder.layer.0" in str(error)
    assert pickle.loads(worker.run("good", good, items).content)[0].arrays["tokens"].tolist() == (
        pickle.loads(first.content)[0].arrays["tokens"].tolist()
    )


@pytest.fixture
def conf(place):
    (place / "conf" / "methods" / "spoils.yaml").write_text(
        "spoils:\n  _target_: tests.models.test_guard.Spoils\n  how: train\n  then: answers\n"
    )
    return place


def contents(folder: Path) -> dict[str, Any]:
    """Rows and attributions, by method and file."""
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in folder.rglob("rows.parquet")}


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("how", one_in(2, ["train", "zero", "data", "hook", "dtype", "batch"]))
def test_a_strangers_method_spoils_nothing_but_its_own_row(conf, tmp_path, how):
    tests = "evaluations=[perturbation,rationale]"
    clean = tiny_task.compared(conf, tmp_path / "clean", "methods=[rollout,raw_attention]", tests)
    with pytest.raises(UnfinishedError) as caught:
        tiny_task.compared(
            conf, tmp_path / "out", "methods=[spoils,rollout,raw_attention]", f"methods.spoils.how={how}", tests
        )
    status, line = ended(caught.value, Kept("kept"))
    assert status == 1
    assert line.startswith("error: methods.spoils left changed: ")
    assert "\n" not in line
    assert contents(tmp_path / "out") == contents(tmp_path / "clean")
    assert not list((tmp_path / "out").rglob("spoils*"))
    (folder,) = (tmp_path / "out" / "comparisons").iterdir()
    board = benchmark.leaderboard(folder)
    assert board["value"].tolist() == benchmark.leaderboard(clean.folder)["value"].tolist()


@pytest.mark.usefixtures("no_pictures")
def test_a_plan_gives_up_what_a_comparison_would(conf, tmp_path):
    chosen = ("methods=[spoils,rollout]", "methods.spoils.how=zero", "evaluations=[perturbation]")
    spoils, rollout = make_plan(tiny_task.settings(conf, tmp_path, *chosen)).cells
    assert spoils.note.startswith("given up: methods.spoils left changed: ")
    assert (spoils.seconds, rollout.note) == (0, "")
    assert rollout.seconds > 0
    assert not list(tmp_path.rglob("spoils*/*")), "a comparison would read parts of it"
    assert list(tmp_path.rglob("rollout*/parts/*"))


@pytest.mark.usefixtures("no_pictures")
def test_what_was_stored_before_stays_and_nothing_is_added(conf, tmp_path):
    """The first test reads explanations that are stored; the second asks for others."""
    (conf / "conf" / "methods" / "later.yaml").write_text("later:\n  _target_: tests.models.test_guard.Later\n")
    (cell,) = tiny_task.compared(conf, tmp_path, "methods=[later]", "evaluations=[rationale]").cells
    before = {path.name: path.read_bytes() for path in cell.iterdir()}
    Later.spoils = True
    try:
        with pytest.raises(UnfinishedError):
            tiny_task.compared(conf, tmp_path, "methods=[later]", "evaluations=[rationale,perturbation_target]")
    finally:
        Later.spoils = False
    assert {path.name: path.read_bytes() for path in cell.iterdir()} == before
    assert store.read_record(cell).evaluations.keys() == {"rationale"}


@dataclass(frozen=True)
class Later(Method):
    """Well-behaved at first."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True
    spoils: ClassVar[bool] = False

    def explain(self, model, batch, target):
        if self.spoils:
            model.model.train()
        return tiny_task.Probe()(model, batch, target)


def test_an_analysis_that_asks_a_method_keeps_no_table_of_a_spoilt_model(conf, tmp_path):
    class Asks(Analysis):
        def __init__(self, how):
            self.how = how

        def __call__(self, context):
            np.random.seed(3)  # an analysis may
            batch = context.setting.data.batches[0]
            SPOILS[self.how][0](context.setting.model, batch, batch.label)
            return []

    config = compose(
        "config",
        [
            "task=tiny_task",
            "model=hf",
            f"model.path={conf / 'bert'}",
            "methods=[spoils]",
            "evaluations=[]",
            f"out={tmp_path}",
        ],
        str(conf / "conf"),
    )
    setting = open_setting(config)
    context = Context(setting, {"spoils": setting.cell("spoils")}, {}, tmp_path)
    drawn = np.random.get_state()[1].tolist()
    with pytest.raises(ModelChangedError, match=r"a method that analyses\.asks asks left changed: weights of"):
        analyse({"asks": Asks("data")}, context, tmp_path)
    assert not (tmp_path / "analyses").exists()
    assert np.random.get_state()[1].tolist() == drawn
    analyse({"asks": Asks("threads")}, context, tmp_path)
    assert torch.get_num_threads() != 3
    assert (tmp_path / "analyses" / "asks.json").exists()


def test_in_python_too(model):
    def bad(model, batch, target):
        model.model.train()
        return Attribution(target=target, tokens=torch.zeros(batch.units.shape))

    def of_a_text(text):
        weight(model).data.zero_()
        return [1.0 for _ in text.split()]

    for function, what in ((bad, "training mode"), (of_a_text, "weights of bert.encoder.layer.0")):
        with pytest.raises(ModelChangedError, match=rf"methods.{function.__name__} left changed: {what}"):
            benchmark.explain(model, GIVEN, methods=[function, "rollout"])
        with pytest.raises(ModelChangedError, match=rf"methods.{function.__name__} left changed: {what}"):
            benchmark.evaluate(model, GIVEN, methods=[function])
    assert not model.model.training
    assert bool(weight(model).any())


def test_a_model_that_its_owner_trains_between_two_calls_is_no_fault(model):
    def counts(text):
        return [1.0 for _ in text.split()]

    benchmark.explain(model, GIVEN, methods=[counts])
    kept = weight(model).data.clone()
    weight(model).data.mul_(0.5)
    benchmark.explain(model, GIVEN, methods=[counts])
    assert torch.equal(weight(model), 0.5 * kept)
    weight(model).data.copy_(kept)
