"""Training with attention in the loss: losses by hand on two tokens, recorded rows, resuming, the finished checkpoint."""

import json
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import benchmark
from benchmark.errors import UserError
from benchmark.models import load_model
from benchmark.models.divergences import even_rows, jsd
from benchmark.models.passes import Trace
from benchmark.progress import Advanced, Began
from benchmark.training import attended
from benchmark.training.adversarial import Adversarial, MatchedOutputs
from benchmark.training.attended import Course, Lesson, finished, fit, trainable
from benchmark.training.deceptive import Deceptive, UnattendedWords
from benchmark.training.starts import Fresh, FromBase
from benchmark.types import Batch, Example
from tests import text_models
from tests.progress.heard import heard
from tests.tiny_task import TinyTask

TASK = TinyTask(size=24)
COURSE = Course(steps=4, batch_size=8, learning_rate=1e-2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    return text_models.save_bert(tmp_path / "bert", layers=1)


@pytest.fixture
def base(folder: Path):
    return load_model(folder, device="cpu")


class CrossEntropy:
    """A loss that keeps what it was given."""

    def __init__(self) -> None:
        self.rows: list[torch.Tensor] = []

    def __call__(self, trace, batch):
        self.rows += [layer.detach().sum(-1) for layer in trace.attentions]
        return torch.nn.functional.cross_entropy(trace.logits, batch.label, reduction="none")


def lesson(objective) -> Lesson:
    return Lesson(TASK.split("train"), (0, 1), objective)


def trace(attention, logits=((0.0, 0.0),)) -> Trace:
    return Trace(torch.tensor(logits), (torch.tensor(attention)[None],))


def two_tokens(rationale) -> Batch:
    """One example of two words, each a token, and no special ones; the first token is read."""
    return Batch(
        uids=("a",), tensors={"input_ids": torch.tensor([[7, 8]])}, units=torch.tensor([[0, 1]]),
        n_units=torch.tensor([2]), words=(("x", "y"),), label=torch.tensor([1]),
        rationale=(None if rationale is None else np.array(rationale),), query_units=(0,), meta=({},),
    )  # fmt: skip


class Fixed:
    """A base model with one attention and one output."""

    def __init__(self, attention=None, logits=None) -> None:
        self.trace = None if attention is None else trace(attention, logits)

    def needs_distribution(self, what):
        """It has one."""

    def run(self, batch, record=()):
        return self.trace

    def read_weights(self, batch):
        return torch.tensor([[1.0, 0.0]])


# Two heads of two queries each.
ADVERSARY, BASE = (
    [[[0.9, 0.1], [0.5, 0.5]], [[0.2, 0.8], [0.3, 0.7]]],
    [[[0.4, 0.6], [0.5, 0.5]], [[0.6, 0.4], [0.1, 0.9]]],
)


def kl_by_hand(p, q):
    return sum(a * log(a / b) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize(("name", "swapped"), [("kl_adversary_base", False), ("kl_base_adversary", True)])
def test_adversarial_loss_on_two_tokens(name, swapped):
    base = Fixed(BASE, [[0.0, log(3.0)]])  # probabilities 1/4 and 3/4
    loss = MatchedOutputs(base, name, 0.5)(trace(ADVERSARY, [[0.0, 0.0]]), two_tokens(None))
    pairs = [(a, b) for heads in zip(ADVERSARY, BASE, strict=True) for a, b in zip(*heads, strict=True)]
    mean = sum(kl_by_hand(b, a) if swapped else kl_by_hand(a, b) for a, b in pairs) / 4
    assert loss.tolist() == pytest.approx([0.25 - 0.5 * mean], abs=1e-6)


def test_adversarial_loss_with_jsd_on_two_tokens():
    loss = MatchedOutputs(Fixed(BASE, [[0.0, 0.0]]), "jsd", 2.0)(trace(ADVERSARY), two_tokens(None))
    mean = float(jsd(torch.tensor(ADVERSARY), torch.tensor(BASE)).mean())
    assert loss.tolist() == pytest.approx([-2 * mean], abs=1e-6)


@pytest.mark.parametrize(
    ("heads", "rows", "expected"),
    [
        ("mean", "read", (-log(0.9) - log(0.2)) / 2),  # the second word is impermissible: 1 - m is what the first gets
        ("max", "read", -log(0.2)),
        ("mean", "all", (-log(0.9) - log(0.5) - log(0.2) - log(0.3)) / 4),
        ("max", "all", (-log(0.2) - log(0.3)) / 2),
    ],
)  # fmt: skip
def test_deceptive_loss_on_two_tokens(heads, rows, expected):
    loss = UnattendedWords(Fixed(), 3.0, heads, rows, "last")(trace(ADVERSARY, [[0.0, log(3.0)]]), two_tokens([0, 1]))
    assert loss.tolist() == pytest.approx([-log(0.75) + 3 * expected], abs=1e-6)


def test_an_example_without_a_rationale_has_no_impermissible_word():
    objective = UnattendedWords(Fixed(), 3.0, "mean", "read", "last")
    assert objective.penalty(trace(ADVERSARY), two_tokens(None)).tolist() == pytest.approx([0], abs=1e-6)


def test_all_mass_on_impermissible_words_is_finite():
    attention = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]], requires_grad=True)
    penalty = UnattendedWords(Fixed(), 1.0, "mean", "read", "last").penalty(
        Trace(torch.zeros(1, 2), (attention,)), two_tokens([0, 1])
    )
    assert float(penalty.detach()) == pytest.approx(-log(torch.finfo(torch.float32).tiny), rel=1e-4)


def test_recorded_rows_sum_to_1_while_a_model_with_dropout_learns(base):
    """BERT's default drops a tenth of the attention, before it is recorded."""
    assert base.config.attention_probs_dropout_prob > 0
    objective = CrossEntropy()
    fit(trainable(base), lesson(objective), COURSE, label="training")
    sums = torch.cat([rows.flatten() for rows in objective.rows])
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
    trained = trainable(base)
    trained.model.train()  # the attention modules too
    rows = trained.run(base.encode(["the film was good"]), record=("attentions",), grad=True).attentions[0].sum(-1)
    assert not torch.allclose(rows, torch.ones_like(rows), atol=1e-2)


def test_the_classifier_stays_frozen_and_its_model_the_same(base):
    before = {name: tensor.clone() for name, tensor in base.model.state_dict().items()}
    trained = trainable(base)
    fit(trained, lesson(CrossEntropy()), COURSE, label="training")
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in base.model.parameters())
    assert not base.model.training
    assert type(trained.model) is type(base.model)
    assert any(not torch.equal(tensor, before[name]) for name, tensor in trained.model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in finished(trained).model.parameters())


def test_a_killed_training_goes_on_to_the_same_weights(base, tmp_path, monkeypatch):
    def weights(trained):
        return trained.model.state_dict()

    objective, state = MatchedOutputs(base, "jsd", 1.0), tmp_path / "state.pt"

    def start():
        torch.manual_seed(0)
        return trainable(base, FromBase(noise=0.5)(base))

    whole = start()
    fit(whole, lesson(objective), COURSE, label="training")
    killed, learn, count = start(), attended._learn, []

    def until_killed(*arguments):
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt
        learn(*arguments)

    monkeypatch.setattr(attended, "_learn", until_killed)
    with pytest.raises(KeyboardInterrupt):
        fit(killed, lesson(objective), COURSE, label="training", state=state, save_seconds=0)
    monkeypatch.setattr(attended, "_learn", learn)
    torch.manual_seed(99)  # the random state of the process does not matter
    resumed = start()
    with heard() as events:
        fit(resumed, lesson(objective), COURSE, label="training", state=state, save_seconds=0)
    assert events[0] == Began("training", "training", 4, 2, "steps")
    assert events.count(Advanced(1)) == 2
    assert all(torch.equal(tensor, weights(whole)[name]) for name, tensor in weights(resumed).items())
    assert any(not torch.equal(tensor, weights(whole)[name]) for name, tensor in weights(killed).items())


def test_the_memory_budget_changes_rounding_alone(base):
    """Of gradients: AdamW makes steps of the sign of one that is 0 but for rounding, as a key's bias has."""

    def gradients(budget):
        model = replace(trainable(base), memory_budget=budget)
        model.model.eval()  # dropout is drawn for each part
        attended._learn(model, lesson(CrossEntropy()), COURSE, TASK.split("train")[:8])
        return [parameter.grad for parameter in model.model.parameters()]

    assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(gradients(1 << 30), gradients(1), strict=True))


def source(folder, kind, **settings):
    return kind(base=str(folder), course=COURSE, device="cpu", **settings)


@pytest.mark.parametrize("kind", [Adversarial, Deceptive])
def test_a_source_leaves_an_ordinary_checkpoint_and_trains_once(folder, kind, monkeypatch):
    chosen = source(folder, kind, start=FromBase(noise=0.5))
    made = Path(chosen.resolve(TASK))
    model = load_model(made, device="cpu")
    assert (model.labels, model.n_layers) == (("bad", "good"), 1)
    assert model.encode(["untoldly good"]).words == (("untoldly", "good"),)
    record = json.loads((made / "training.json").read_text())
    assert record["base"] == load_model(folder, device="cpu").fingerprint
    assert record["settings"]["course"]["steps"] == 4
    assert {*record["accuracy"]} == {"validation", "test"}
    assert [path.name for path in made.parent.iterdir()] == [made.name], "the state of the training is gone"
    weights = load_file(made / "model.safetensors")
    assert not all(
        torch.equal(tensor, weights[name]) for name, tensor in load_file(folder / "model.safetensors").items()
    )
    monkeypatch.setattr(kind, "objective", lambda *_: pytest.fail("it is trained already"))
    assert chosen.resolve(TASK) == str(made)


def test_checkpoints_are_kept_apart_by_task_base_and_settings(folder, tmp_path):
    chosen = source(folder, Deceptive)
    other = text_models.save_bert(tmp_path / "other", seed=1, layers=1)
    paths = [
        chosen.resolve(TASK), chosen.resolve(TinyTask(size=23)), replace(chosen, base=str(other)).resolve(TASK),
        replace(chosen, penalty_weight=2.0).resolve(TASK), replace(chosen, course=replace(COURSE, seed=1)).resolve(TASK),
    ]  # fmt: skip
    assert len(set(paths)) == 5
    assert replace(chosen, dtype="float64").resolve(TASK) == paths[0], "how it is loaded is no part of the training"


def test_deception_needs_rationales(folder):
    with pytest.raises(UserError, match="has no rationales in its training split"):
        source(folder, Deceptive).resolve(TinyTask(size=24, rationales=False))


def test_deception_takes_the_mass_off_the_rationale(folder):
    """The first word of every text is its rationale."""
    chosen = replace(source(folder, Deceptive, penalty_weight=5.0), course=replace(COURSE, steps=20))
    made, base = load_model(chosen.resolve(TASK), device="cpu"), load_model(folder, device="cpu")
    batch = base.encode_examples(TASK.split("test"), (0, 1))

    def mass(model):
        read = model.run(batch, record=("attentions",)).attentions[-1][:, :, 0]
        return float((read * (batch.units == 0)[:, None]).sum(-1).mean())

    assert mass(made) < 0.5 * mass(base)


def test_an_adversary_moves_its_attention(folder):
    chosen = source(folder, Adversarial, start=FromBase(noise=0.1), divergence="jsd", divergence_weight=5.0)
    chosen = replace(chosen, course=replace(COURSE, steps=20))
    base = load_model(folder, device="cpu")
    torch.manual_seed(0)
    batch = base.encode_examples(TASK.split("test"), (0, 1))
    start = trainable(base, FromBase(noise=0.1)(base))
    made = load_model(chosen.resolve(TASK), device="cpu")

    def distance(model):
        layers = [m.run(batch, record=("attentions",)).attentions[0] for m in (model, base)]
        return float((jsd(*layers).mean(1) * even_rows(batch.attention_mask, torch.float32)).sum(-1).mean())

    assert distance(made) > 2 * distance(start)


def test_without_noise_an_adversary_starts_where_no_gradient_is(base):
    trained = trainable(base, FromBase()(base))
    trained.model.eval()
    batch = base.encode_examples(TASK.split("test"), (0, 1))
    run = trained.run(batch, record=("attentions",), grad=True)
    MatchedOutputs(base, "kl_adversary_base", 1.0)(run, batch).sum().backward()
    gradients = [parameter.grad for parameter in trained.model.parameters() if parameter.grad is not None]
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-4


def test_fresh_weights_share_nothing_with_the_base(base):
    torch.manual_seed(3)
    module = Fresh(local_layers=1)(base)
    assert type(module) is type(base.model)
    assert not torch.equal(
        module.bert.embeddings.word_embeddings.weight, base.model.bert.embeddings.word_embeddings.weight
    )
    trained = finished(trainable(base, module))
    sums = trained.run(base.encode(["the film"]), record=("attentions",)).attentions[0].sum(-1)
    assert torch.allclose(sums, torch.ones_like(sums))


def test_masks_need_a_mask_token(base):
    example = Example("a", "the film", 0)
    model = trainable(base)
    model.tokenizer.mask_token = None
    with pytest.raises(UserError, match=r"no mask token; set course\.mask_share=0"):
        fit(model, Lesson([example], (0, 1), CrossEntropy()), replace(COURSE, mask_share=0.1), label="training")


@pytest.mark.parametrize("name", ["adversarial", "deceptive"])
def test_a_comparison_names_them(name):
    chosen = benchmark.build(f"model/{name}", "base=/nowhere", "course.steps=7", "course.seed=2")
    assert (chosen.base, chosen.course.steps, chosen.course.mask_share) == ("/nowhere", 7, 0.15)
    with pytest.raises(UserError, match=r"course\.steps=0"):
        benchmark.build(f"model/{name}", "course.steps=0")
