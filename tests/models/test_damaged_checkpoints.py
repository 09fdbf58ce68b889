"""Checkpoints that are broken, or whose parts do not fit together: one line each, and nothing of theirs is executed."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertModel

import benchmark
from benchmark.errors import UserError
from benchmark.training.finetune import Recipe, finetune
from tests import text_models
from tests.tiny_task import TinyTask

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return text_models.save_bert(tmp_path_factory.mktemp("whole") / "bert")


@pytest.fixture
def checkpoint(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "bert"))


def configured(**settings):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    return change


def weighed(change_weights):
    def change(folder):
        path = folder / "model.safetensors"
        weights = change_weights(load_file(path))
        save_file(weights, path, {"format": "pt"})

    return change


def content(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def cut(name, share):
    def change(folder):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * share)])

    return change


class Planted:
    """What a pickle may hold: it makes a folder when it is read."""

    def __reduce__(self):
        return os.mkdir, ("planted",)


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"classifier.weight": Planted()}))


def own_code(folder):
    configured(model_type="planted", auto_map={"AutoConfig": "planted.Planted"})(folder)
    (folder / "planted.py").write_text("import os\nos.mkdir('planted')\n")


THREE = {"id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
BROKEN = {
    "weights cut": (cut("model.safetensors", 0.6), "cannot be loaded"),
    "weights empty": (content("model.safetensors", b""), "model.safetensors is empty"),
    "weights pointer": (content("model.safetensors", POINTER), "pointer in place of model.safetensors; run: git lfs pull"),
    "weights text": (content("model.safetensors", b"<html>gone</html>"), "cannot be loaded"),
    "weights gone": (lambda folder: (folder / "model.safetensors").unlink(), "cannot be loaded"),
    "weights pickled": (pickled, "a pickle with more in it than tensors"),
    "config cut": (cut("config.json", 0.5), "cannot be loaded"),
    "config type": (configured(hidden_size="x"), "cannot be loaded"),
    "config heads": (configured(num_attention_heads=3), "cannot be loaded"),
    "own code": (own_code, "Python code of its own, which is not executed"),
    "hidden size": (configured(hidden_size=8), "other sizes: bert.embeddings"),
    "labels": (configured(**THREE), "other sizes: classifier.bias is [2], not [3]"),
    "label names": (configured(id2label={"0": "a", "5": "b"}), "has 2 names, but none for class 1"),
    "vocabulary": (configured(vocab_size=10), "bert.embeddings.word_embeddings.weight is [21, 16], not [10, 16]"),
    "fewer layers": (configured(num_hidden_layers=1), "weights without a layer: bert.encoder.layer.1."),
    "more layers": (configured(num_hidden_layers=3), "layers without weights: bert.encoder.layer.2."),
    "tokenizer cut": (cut("tokenizer.json", 0.5), "its tokenizer: tokenizer.json"),
    "tokenizer empty": (content("tokenizer.json", b""), "tokenizer.json is empty"),
    "tokenizer pointer": (content("tokenizer.json", POINTER), "Git LFS pointer in place of tokenizer.json"),
    "tokenizer odd": (content("tokenizer.json", b"{}"), "its tokenizer: tokenizer.json"),
    "tokenizer config": (content("tokenizer_config.json", b"{"), "cannot be loaded"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_checkpoint_is_one_line(checkpoint, monkeypatch, tmp_path, case):
    monkeypatch.chdir(tmp_path)
    change, expected = BROKEN[case]
    change(checkpoint)
    with pytest.raises(UserError) as caught:
        benchmark.load_model(checkpoint)
    message = str(caught.value)
    assert expected in message
    assert str(checkpoint) in message
    assert len(message.splitlines()) == 1
    assert not (tmp_path / "planted").exists()
    for advice in ("weights_only=False", "trust_remote_code=True", "ignore_mismatched_sizes"):
        assert advice not in message


def test_a_tokenizer_of_another_model(checkpoint):
    words = "\n".join([*text_models.VOCABULARY, "more", "words"])
    (checkpoint / "vocab.txt").write_text(words)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (checkpoint / name).unlink()
    with pytest.raises(UserError, match="the tokenizer's ids reach 22, but the model has 21 embeddings"):
        benchmark.load_model(checkpoint)


def test_a_checkpoint_without_tokenizer_files_takes_ids(checkpoint):
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (checkpoint / name).unlink()
    model = benchmark.load_model(checkpoint)
    assert model.run(model.encode([{"input_ids": [2, 5, 3]}])).logits.shape == (1, 2)


def test_weights_that_are_not_used_are_named(checkpoint, caplog):
    weighed(lambda weights: {**weights, "another.head.weight": torch.zeros(2)})(checkpoint)
    with caplog.at_level("WARNING"):
        benchmark.load_model(checkpoint)
    assert "does not use: another.head.weight" in caplog.text


def test_a_base_with_other_layers_than_its_configuration_is_not_trained(checkpoint, tmp_path):
    configured(num_hidden_layers=3)(checkpoint)
    with pytest.raises(UserError, match="layers without weights: bert"):
        finetune(TinyTask(), str(checkpoint), tmp_path / "out", Recipe(epochs=1))
    configured(num_hidden_layers=2, hidden_size=8)(checkpoint)
    with pytest.raises(UserError, match="other sizes: bert"):
        finetune(TinyTask(), str(checkpoint), tmp_path / "out", Recipe(epochs=1))


@pytest.mark.parametrize("architecture", [BertModel, BertForMaskedLM])
def test_a_pretrained_body_gets_a_fresh_head(whole, tmp_path, architecture):
    folder = Path(shutil.copytree(whole, tmp_path / "base"))
    architecture(BertConfig.from_pretrained(folder)).save_pretrained(folder)
    record = finetune(TinyTask(), str(folder), tmp_path / "out", Recipe(epochs=1))
    assert record["steps"] > 0
    assert benchmark.load_model(tmp_path / "out").labels == ("bad", "good")


def test_the_current_folder_has_a_name(checkpoint, monkeypatch):
    monkeypatch.chdir(checkpoint)
    assert benchmark.load_model(".").name == "bert"
    (checkpoint / "inside").mkdir()
    monkeypatch.chdir(checkpoint / "inside")
    assert benchmark.load_model("..").name == "bert"
    (checkpoint.parent / "link").symlink_to(checkpoint)
    assert benchmark.load_model(checkpoint.parent / "link").name == "link"
