"""Models trained with fixed attention: what is fixed, and what the table says of them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import benchmark
from benchmark.analyses.context import Context
from benchmark.analyses.debate.trained_uniform import TrainedUniform, predicted
from benchmark.checking import small_models
from benchmark.errors import UserError
from benchmark.models import load_model
from benchmark.models.attention_interface import Tape, recording
from benchmark.run.workbench import open_setting
from benchmark.training.attended import Course, trainable
from benchmark.training.fixed_attention import FixedAttention
from benchmark.training.starts import Fresh
from tests import text_models
from tests.analyses.test_analyses import config
from tests.tiny_task import TinyTask

COURSE = Course(steps=3, batch_size=6, learning_rate=1e-2)
TASK = TinyTask()


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FixedAttention:
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    base = text_models.save_bert(tmp_path / "bert")
    return FixedAttention(base=str(base), course=COURSE, device="cpu", start=Fresh(local_layers=2))


def test_uniform_attention_is_uniform_in_every_pass_of_the_training(trainer, monkeypatch):
    rows = []
    learn = replace(trainer, attention="uniform", layers=(1,))

    class Watching:
        def __call__(self, trace, batch):
            for b, length in enumerate(batch.attention_mask.sum(1).tolist()):
                rows.append([layer[b, :, :length, :length] - 1 / length for layer in trace.attentions])
            return torch.nn.functional.cross_entropy(trace.logits, batch.label, reduction="none")

    monkeypatch.setattr(FixedAttention, "objective", lambda *_: Watching())
    model = load_model(learn.resolve(TASK), device="cpu")
    assert max(float(layers[1].detach().abs().max()) for layers in rows) < 1e-6
    assert max(float(layers[0].detach().abs().max()) for layers in rows) > 1e-2
    tape = Tape(frozenset(map(id, model.attention_modules)), edits=learn.edits(model), record=True)
    batch = model.encode(["the film was good"])
    with torch.no_grad(), recording(tape):
        model.model(**batch.tensors)
    assert torch.allclose(tape.attentions[1], torch.full_like(tape.attentions[1], 1 / batch.units.shape[1]))


def test_frozen_attention_keeps_its_random_projections(trainer):
    frozen = replace(trainer, attention="frozen", layers=(0,))
    base = load_model(frozen.base, device="cpu")
    torch.manual_seed(COURSE.seed)
    start = frozen.begins(base).bert.encoder.layer
    windows = Fresh(local_layers=2)(base).bert.encoder.layer
    made = load_model(frozen.resolve(TASK), device="cpu").model.bert.encoder.layer
    for name in ("query", "key"):
        first, last = (getattr(layers[0].attention.self, name).weight for layers in (start, made))
        assert torch.equal(first, last)
        assert float(first.detach().std()) == pytest.approx(base.config.initializer_range, rel=0.2)
        assert not torch.equal(first, getattr(windows[0].attention.self, name).weight)
        assert not torch.equal(
            getattr(start[1].attention.self, name).weight, getattr(made[1].attention.self, name).weight
        )
    assert not torch.equal(start[0].attention.self.value.weight, made[0].attention.self.value.weight)
    assert frozen.edits(base) == ()


def test_what_cannot_be_fixed_is_a_mistake(trainer, tmp_path):
    with pytest.raises(UserError, match="the model has no layer 5, but 0 to 1"):
        replace(trainer, layers=(5,)).resolve(TASK)
    gpt2 = small_models.load("gpt2", tmp_path)
    with pytest.raises(UserError, match="no separate projections to queries and keys"):
        replace(trainer, attention="frozen").constants(gpt2)
    with pytest.raises(UserError, match="heads start as windows in BERT alone"):
        Fresh(local_layers=1)(gpt2)
    with pytest.raises(UserError, match="is an encoder–decoder"):
        trainable(small_models.load("bart", tmp_path))


def test_the_table_has_a_line_for_every_model(place, trainer):
    setting = open_setting(config(place, "limit=8"))
    context = Context(setting, {}, {})
    analysis = TrainedUniform(trainer, each_layer=True)
    (table,) = analysis(context)
    table.check()
    lines = [*dict.fromkeys(zip(table.rows["attention"], table.rows["layers"], strict=True))]
    assert lines == [
        ("comparison's model", "as it is"), ("learned", "all"), ("uniform", "all"), ("uniform", "0"), ("uniform", "1"),
        ("frozen", "all"), ("frozen", "0"), ("frozen", "1"),
    ]  # fmt: skip
    assert {*table.rows["n"]} == {8}
    found = table.rows.set_index(["attention", "layers", "metric"])["value"]
    label = torch.cat([batch.label for batch in setting.data.batches]).numpy()
    right = predicted(setting.model, setting.data.batches) == label
    assert found["comparison's model", "as it is", "accuracy"] == right.mean()
    uniform = replace(trainer, base=str(place / "bert"))
    model = load_model(uniform.resolve(setting.task), device="cpu")
    expected = predicted(model, setting.data.batches, uniform.edits(model))
    assert found["uniform", "all", "accuracy"] == (expected == label).mean()
    assert len({*analysis.reads(context).values()}) == 7


def test_the_yaml_trains_as_the_tiny_model_is_trained():
    tiny, course = benchmark.build("model/tiny"), benchmark.build("analyses/trained_uniform").trainer.course
    shared = ("steps", "batch_size", "learning_rate", "embedding_learning_rate", "weight_decay", "mask_share")
    assert [getattr(tiny, name) for name in shared] == [getattr(course, name) for name in shared]
