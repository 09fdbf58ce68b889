"""Fine-tuning a base model: the finished checkpoint, resuming after a kill, mistakes."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertModel

from benchmark.errors import UserError
from benchmark.models import load_model
from benchmark.models.history import mask_share
from benchmark.progress import Advanced, Began
from benchmark.training.finetune import FineTuned, Recipe, _Order, finetune, finetuned_for
from benchmark.training.prepared import Masks
from benchmark.training.tiny import TinyModel
from benchmark.types import Example
from tasks.planted import Planted
from tests.conftest import REPOSITORY
from tests.progress.heard import heard
from tests.text_models import save_bert

TASK = Planted(train=48, validation=16, test=16)
RECIPE = Recipe(epochs=3, batch_size=8, learning_rate=1e-3, checks_per_epoch=2, patience=50)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A bare encoder: no classifier, no labels."""
    folder = save_bert(tmp_path / "base", window=64)
    BertModel.from_pretrained(folder).save_pretrained(folder)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_bare_encoder_becomes_a_classifier_of_the_tasks_labels(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    record = finetune(TASK, str(base), out, RECIPE)
    model = load_model(str(out), device="cpu")
    assert model.labels == ("negative", "positive")
    assert model.encode_examples(TASK.split("test"), (0, 1)).label.tolist() == [e.label for e in TASK.split("test")]
    assert json.loads((out / "training.json").read_text()) == record
    assert [path.name for path in out.parent.iterdir()] == ["out"]  # checkpoints are gone
    before, after = weights(base), weights(out)
    assert not torch.equal(before["embeddings.word_embeddings.weight"], after["bert.embeddings.word_embeddings.weight"])


def test_training_tells_its_steps(base: Path, tmp_path: Path, cache: Path) -> None:
    """What a bar shows: all steps, and each that is done."""
    with heard() as events:
        record = finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, epochs=1))
    begun = [event for event in events if isinstance(event, Began)]
    assert begun[0] == Began("fine-tuning", "fine-tuning", record["steps"], unit="steps")
    assert events.count(Advanced(1)) == record["steps"] == 6
    with heard() as events:
        TINY.resolve(TASK)
    assert events[0] == Began("training the tiny model", "training the tiny model", TINY.steps, unit="steps")
    assert events.count(Advanced(1)) == TINY.steps


def test_reported_accuracy_is_that_of_the_saved_model(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    record = finetune(TASK, str(base), out, RECIPE)
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    examples = TASK.split("validation")
    right = 0
    for example in examples:
        inputs = tokenizer(" ".join(example.inputs), truncation=True, max_length=64, return_tensors="pt")
        with torch.no_grad():
            right += int(model(**inputs).logits.argmax()) == example.label
    assert record["accuracy"]["validation"] == pytest.approx(right / len(examples))


def test_second_call_finds_the_finished_model_and_another_task_does_not_overwrite_it(
    base: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    record = finetune(TASK, str(base), out, RECIPE)
    stamp = (out / "model.safetensors").stat().st_mtime_ns
    assert finetune(TASK, str(base), out, RECIPE) == record
    assert (out / "model.safetensors").stat().st_mtime_ns == stamp
    with pytest.raises(UserError, match=r"out=.* holds something else"):
        finetune(Planted(seed=1, train=48, validation=16, test=16), str(base), out, RECIPE)


def test_early_stop(base: Path, tmp_path: Path) -> None:
    """With a vanishing learning rate no check improves on the first: training ends `patience` checks later."""
    recipe = Recipe(epochs=20, batch_size=8, learning_rate=1e-12, checks_per_epoch=1, patience=2)
    record = finetune(TASK, str(base), tmp_path / "out", recipe)
    assert record["best_step"] == 6  # the first check, after 48 / 8 steps
    assert record["steps"] == 18


def test_masks_hide_words_of_half_of_the_texts_and_nothing_special() -> None:
    masks = Masks(mask_id=4, special=(0, 2, 3, 4), share=1.0)
    ids = torch.randint(5, 50, (4000, 12))
    ids[:, 0], ids[:, -1] = 2, 3
    torch.manual_seed(0)
    hidden = masks.in_training(ids)
    assert torch.equal(hidden[:, [0, -1]], ids[:, [0, -1]])
    gone = (hidden == 4).float().sum(1) / 10
    assert torch.equal(hidden[hidden != 4], ids[hidden != 4])
    # a coin, then a share from [0, 1] of ten words: all stay with ½ + ½ · 1 / 11, and a quarter goes on the whole
    assert float((gone == 0).float().mean()) == pytest.approx(0.5 + 0.5 / 11, abs=0.03)
    assert float(gone.mean()) == pytest.approx(0.25, abs=0.015)


def test_held_out_texts_are_masked_once() -> None:
    masks = Masks(mask_id=4, special=(2, 3), share=1.0)
    items = [{"input_ids": [2, *range(5, 15), 3], "labels": 1} for _ in range(500)]
    before = torch.get_rng_state()
    first, second = masks.held_out(items, 7), masks.held_out(items, 7)
    assert torch.equal(torch.get_rng_state(), before)
    assert first == second != masks.held_out(items, 8)
    shares = [sum(number == 4 for number in item["input_ids"]) / 10 for item in first]
    assert sum(shares) / len(shares) == pytest.approx(0.5, abs=0.05)
    assert items[0]["input_ids"][1] == 5


def test_training_with_masks_says_so(base: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE, epochs=1, mask_share=1.0)
    record = finetune(TASK, str(base), tmp_path / "out", recipe)
    assert set(record["accuracy"]) == {"validation", "masked validation"}
    assert record["recipe"]["mask_share"] == 1.0
    plain = finetune(TASK, str(base), tmp_path / "plain", replace(RECIPE, epochs=1))
    assert "mask_share" not in plain["recipe"]
    assert mask_share(load_model(str(tmp_path / "out"), device="cpu")) == 1.0
    assert mask_share(load_model(str(tmp_path / "plain"), device="cpu")) == 0.0
    assert mask_share(load_model(str(base), device="cpu", head="zero", labels=["a", "b"])) is None
    assert not torch.equal(
        weights(tmp_path / "out")["classifier.weight"], weights(tmp_path / "plain")["classifier.weight"]
    )


def test_masks_need_a_mask_token(base: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mask_share=0\.5.*no mask token"):
        Masks.of(SimpleNamespace(mask_token_id=None), 0.5, str(base))
    assert Masks.of(SimpleNamespace(mask_token_id=None), 0.0, str(base)) is None


def test_batches_hold_texts_of_similar_length(base: Path, tmp_path: Path) -> None:
    """Every text once in an epoch, in another order in the next, and with much less padding than a drawn order has."""
    lengths = np.random.default_rng(0).integers(4, 60, size=203).tolist()
    order = _Order(lengths, 1, 8, by_length=True, seed=0)
    first = list(order)
    assert sorted(first) == list(range(203))
    assert first == list(order) == list(_Order(lengths, 1, 8, by_length=True, seed=0))
    assert first != list(_Order(lengths, 1, 8, by_length=True, seed=1))
    order.set_epoch(1)
    assert first != list(order)

    def padding(indices: Sequence[int]) -> float:
        batches = [[lengths[i] for i in indices[start : start + 8]] for start in range(0, 203, 8)]
        return sum(max(batch) * len(batch) - sum(batch) for batch in batches) / sum(lengths)

    assert padding(first) < 0.25 * padding(range(203))
    record = finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, epochs=1, group_by_length=True))
    assert record["recipe"]["group_by_length"] is True
    plain = finetune(TASK, str(base), tmp_path / "plain", replace(RECIPE, epochs=1))
    assert "group_by_length" not in plain["recipe"]
    ours, theirs = weights(tmp_path / "out"), weights(tmp_path / "plain")
    assert not torch.equal(ours["classifier.weight"], theirs["classifier.weight"])


def command(base: Path, out: Path, *more: str) -> list[str]:
    settings = ["train=48", "validation=16", "test=16"]
    recipe = [
        *more,
        "epochs=12",
        "batch_size=8",
        "learning_rate=1e-3",
        "checks_per_epoch=6",
        "patience=1000",
    ]
    overrides = [*(f"task.{s}" for s in settings), *(f"recipe.{s}" for s in recipe)]
    return [sys.executable, "-m", "benchmark.train", f"model.path={base}", f"out={out}", *overrides]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    "more", [("mask_share=0.5",), ("mask_share=0.5", "group_by_length=true"), ("freeze=1", "read_once=true")]
)
def test_killed_training_goes_on_and_ends_as_an_undisturbed_one(
    base: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(base, whole, *more), cwd=REPOSITORY, env=environment, check=True, capture_output=True)

    process = subprocess.Popen(command(base, broken, *more), cwd=REPOSITORY, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    complete = ".broken-training-*/checkpoint-*/trainer_state.json"
    while not any(
        int(state.parent.name.partition("-")[2]) > 6 for state in tmp_path.glob(complete)
    ):  # of the 2nd epoch
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not broken.exists()
    (work,) = tmp_path.glob(".broken-training-*")
    half_written = work / "checkpoint-1000"
    half_written.mkdir()  # as a kill in the middle of a save leaves it

    resumed = subprocess.run(
        command(base, broken, *more), cwd=REPOSITORY, env=environment, check=True, capture_output=True, text=True
    )
    assert "going on from checkpoint-" in resumed.stderr
    assert not work.exists()
    expected, found = weights(whole), weights(broken)
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0: allowed are numbers above 0"),
        ({"max_length": 2}, "max_length=2"),
    ],
)
def test_impossible_recipe(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Recipe(**settings)


def test_unusable_base_and_unwritable_place(base: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.path=.*nowhere"):
        finetune(TASK, str(tmp_path / "nowhere"), tmp_path / "out", RECIPE)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"out=.* cannot be written"):
        finetune(TASK, str(base), tmp_path / "file" / "out", RECIPE)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (base / name).unlink()
    with pytest.raises(UserError, match="has no tokenizer"):
        finetune(TASK, str(base), tmp_path / "out", RECIPE)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["out=x"], "model.path is not set"),
        (["model.path=x"], "out is not set"),
        (["task=plantd", "model.path=x", "out=y"], "did you mean planted"),
        (["model.path=./nowhere", "out=y"], "model.path=./nowhere is not a directory"),
    ],
)
def test_mistake_on_the_command_line_is_one_line(overrides: list[str], message: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.run(
        [sys.executable, "-m", "benchmark.train", *overrides],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    assert message in process.stderr
    assert "Traceback" not in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


TINY = TinyModel(layers=2, heads=2, hidden=16, intermediate=16, vocab_size=150, steps=6, batch_size=8)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def test_tiny_model_is_an_ordinary_checkpoint(cache: Path) -> None:
    folder = Path(TINY.resolve(TASK))
    assert folder.parent == cache
    model = load_model(folder, device="cpu")
    assert (model.labels, model.n_layers, model.n_heads) == (("negative", "positive"), 2, 2)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.is_fast
    assert tokenizer.model_max_length == TINY.max_length
    specials = (
        tokenizer.pad_token,
        tokenizer.unk_token,
        tokenizer.cls_token,
        tokenizer.sep_token,
        tokenizer.mask_token,
    )
    assert specials == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("The Lighthouse keeper", "A baker.")["input_ids"])
    assert tokens[0] == "[CLS]"
    assert tokens.count("[SEP]") == 2
    assert "[UNK]" not in tokens
    assert any(token.startswith("##") for token in tokens)  # words split
    record = json.loads((folder / "training.json").read_text())
    assert 0 <= record["accuracy"]["test"] <= 1
    example = TASK.split("test")[0]
    logits = model.run(model.encode([example.inputs])).logits
    assert bool(logits.isfinite().all())


def test_tiny_model_is_trained_once_and_the_same_every_time(cache: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = Path(TINY.resolve(TASK))
    assert torch.equal(torch.rand(3), expected)  # the random state is as it was
    before = weights(first)
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert Path(TINY.resolve(TASK)) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp
    shutil.rmtree(first)
    after = weights(Path(TINY.resolve(TASK)))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_tiny_model_is_kept_apart_by_task_and_settings(cache: Path) -> None:
    other_task = Planted(seed=1, train=48, validation=16, test=16)
    paths = [TINY.resolve(TASK), TINY.resolve(other_task), replace(TINY, seed=1).resolve(TASK)]
    assert len(set(paths)) == 3
    assert replace(TINY, dtype="float64").resolve(TASK) == paths[0]  # how it is loaded is no part of the training


def test_tiny_model_names_impossible_settings() -> None:
    with pytest.raises(UserError, match="steps=0: allowed are whole numbers from 1"):
        TinyModel(steps=0)
    with pytest.raises(UserError, match="hidden=30: allowed are multiples of 2 × heads=4"):
        TinyModel(hidden=30)


@pytest.mark.slow
def test_tiny_model_learns_the_planted_task() -> None:
    """The default model on the default task reads negators: without them it errs where they carry the label.

    It is that of the user's cache, which `make demo` fills too.
    """
    task = Planted()
    folder = Path(TinyModel().resolve(task))
    assert json.loads((folder / "training.json").read_text())["accuracy"]["test"] >= 0.97
    model = load_model(folder, device="cpu")
    negators = ("not", "never", "hardly", "wasn't", "weren't", "didn't")

    def kept(example: Example) -> list[str]:
        pairs = zip(example.inputs, example.rationale, strict=True)
        return [word for word, carries in pairs if not (carries and word.lower().strip(".,") in negators)]

    negated = [example for example in task.split("test") if len(kept(example)) < len(example.inputs)][:100]
    labels = torch.tensor([example.label for example in negated])
    whole = model.run(model.encode([example.inputs for example in negated])).logits.argmax(1) == labels
    without = model.run(model.encode([kept(example) for example in negated])).logits.argmax(1) == labels
    assert whole.float().mean() >= 0.92
    assert without.float().mean() <= whole.float().mean() - 0.05


def test_two_equal_trainings_at_once_train_once(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import benchmark.training.finetune as training

    made, log = training._trainer, tmp_path / "log"

    def logged(*arguments: object) -> object:
        with log.open("a") as file:
            file.write("trained\n")
        return made(*arguments)

    monkeypatch.setattr(training, "_trainer", logged)
    recipe = replace(RECIPE, epochs=1)

    def job() -> None:
        torch.set_num_threads(1)
        finetune(TASK, str(base), tmp_path / "deep" / "out", recipe)
        os._exit(0)

    processes = [multiprocessing.get_context("fork").Process(target=job) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert log.read_text() == "trained\n"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_frozen_blocks_stay_as_they_are_and_the_others_learn(base: Path, tmp_path: Path) -> None:
    finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, epochs=1, freeze=1))
    before, after = weights(base), weights(tmp_path / "out")
    moved = {name for name, tensor in before.items() if not torch.equal(tensor, after.get(f"bert.{name}", tensor))}
    assert not [name for name in moved if name.startswith(("embeddings.", "encoder.layer.0."))]
    assert [name for name in moved if name.startswith("encoder.layer.1.")]
    with pytest.raises(UserError, match=r"recipe.freeze=9: the model '.*' has 2 blocks; allowed are 0 to 2"):
        finetune(TASK, str(base), tmp_path / "other", replace(RECIPE, freeze=9))


def test_a_task_that_is_learned_from_another_trains_on_that(base: Path, tmp_path: Path) -> None:
    class Wrapped(Planted):
        learned_from = TASK

    finetune(Wrapped(train=8, validation=4, test=4), str(base), tmp_path / "wrapped", replace(RECIPE, epochs=1))
    finetune(TASK, str(base), tmp_path / "plain", replace(RECIPE, epochs=1))
    first, second = weights(tmp_path / "wrapped"), weights(tmp_path / "plain")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_base_fine_tuned_on_first_use_is_kept(base: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = FineTuned(base=str(base), epochs=1, batch_size=8, learning_rate=1e-3)
    with caplog.at_level("INFO"):
        folder = source.resolve(TASK)
        assert "validation accuracy" in caplog.text
        caplog.clear()
        assert source.resolve(TASK) == folder
        assert not caplog.text
    unread = Planted(seed=3, train=8, validation=4, test=4)
    assert replace(source, task=TASK).resolve(unread) == folder
    others = [replace(source, seed=1), replace(source, freeze=1)]
    assert len({folder, *(other.resolve(TASK) for other in others)}) == 3
    assert load_model(folder, device="cpu").labels == TASK.labels
    BertModel.from_pretrained(save_bert(base, window=64, seed=1)).save_pretrained(
        base
    )  # other weights at the same place
    assert source.resolve(TASK) != folder
    caplog.clear()
    with caplog.at_level("INFO"):
        finetuned_for(Planted(seed=2, train=8, validation=4, test=4), str(base), RECIPE, told=False)
    assert "validation accuracy" not in caplog.text
