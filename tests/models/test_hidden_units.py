"""Units that an example hides: a mask stands in their place, in training as when the model is asked."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoTokenizer

import benchmark
from benchmark.errors import UserError
from benchmark.models.removal import operator_for
from benchmark.training.prepared import prepare_texts
from benchmark.training.tiny import TinyModel
from benchmark.training.tiny_vit import TinyVit
from benchmark.types import Example
from tasks.digit_scenes import DigitScenes
from tests import text_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return text_models.save_bert(tmp_path_factory.mktemp("bert"), window=12)


@pytest.fixture(scope="module")
def bert(folder):
    return benchmark.load_model(folder, device="cpu")


def example(inputs, hidden, uid="a"):
    return Example(uid=uid, inputs=inputs, label=0, hidden=hidden)


def test_all_tokens_of_a_hidden_word_are_mask_tokens_and_no_others(bert):
    batch = bert.encode_examples([example("the untoldly film", [0, 1, 0])], [0, 1])
    plain = bert.encode(["the untoldly film"])
    hit = plain.units == 1
    assert hit.sum() == 3
    ids, mask = plain.tensors["input_ids"], bert.tokenizer.mask_token_id
    assert torch.equal(batch.tensors["input_ids"], torch.where(hit, mask, ids))
    assert batch.words == plain.words


@pytest.mark.parametrize("inputs", ["the untoldly film", ["the", "untoldly", "film"], ("the untoldly", "film film")])
def test_what_is_hidden_reads_as_the_operator_leaves_it(bert, inputs):
    plain = bert.encode([inputs])
    hidden = np.arange(int(plain.n_units[0])) % 2 == 1
    batch = bert.encode_examples([example(inputs, hidden)], [0, 1])
    mask = operator_for("mask", bert, plain, "operator")
    removed = mask(bert, plain.tensors, plain.units, torch.from_numpy(hidden)[None])
    assert torch.equal(batch.tensors["input_ids"], removed.tensors["input_ids"])


def test_examples_of_a_batch_hide_their_own(bert):
    texts = ["the film", "the untoldly film the film"]
    batch = bert.encode_examples([example(texts[0], None, "a"), example(texts[1], [0, 0, 0, 0, 1], "b")], [0, 1])
    plain = bert.encode(texts)
    differ = (batch.tensors["input_ids"] != plain.tensors["input_ids"]).nonzero().tolist()
    assert [row for row, _ in differ] == [1]


def test_a_unit_that_is_not_there_and_a_model_without_a_mask(bert, tmp_path):
    with pytest.raises(UserError, match="says of 3 units whether they are hidden, and has 2"):
        bert.encode_examples([example("the film", [0, 0, 1])], [0, 1])
    gpt2 = benchmark.load_model(text_models.save_gpt2(tmp_path), device="cpu")
    with pytest.raises(UserError, match="no mask token"):
        gpt2.encode_examples([example("the film", [0, 1])], [0, 1])


class Task:
    name, version, labels, fingerprint = "two", 1, ("a", "b"), "x"

    def __init__(self, examples):
        self.examples = examples

    def split(self, name):
        return self.examples


@pytest.mark.parametrize("inputs", ["the untoldly film", ["the", "untoldly", "film"], ("the untoldly", "film film")])
def test_fine_tuning_reads_hidden_words_as_the_comparison_does(folder, bert, inputs):
    hidden = np.array([False, True] + [False] * (len(bert.encode([inputs]).words[0]) - 2))
    config = AutoConfig.from_pretrained(folder)
    prepared = prepare_texts(Task([example(inputs, hidden)] * 2), str(folder), config, 0, None, 0)
    batch = bert.encode_examples([example(inputs, hidden)], [0, 1])
    assert prepared.train[0]["input_ids"] == batch.tensors["input_ids"][0].tolist()


def test_the_tiny_model_learns_from_what_the_comparison_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["Alpha", "beta,", "gamma", "delta."]
    examples = [replace(example(words, [0, 1, 0, 1]), uid=str(i), label=i % 2) for i in range(8)]
    source = TinyModel(steps=1, layers=1, heads=2, hidden=16, vocab_size=60)
    folder = source.resolve(Task(examples))
    tiny = benchmark.load_model(folder, device="cpu")
    tokenizer = AutoTokenizer.from_pretrained(folder)._tokenizer
    ids, _ = source._encoded(tokenizer, examples[:1])[0]
    assert ids == tiny.encode_examples(examples[:1], [0, 1]).tensors["input_ids"][0].tolist()
    assert ids.count(tiny.tokenizer.mask_token_id) == torch.isin(tiny.encode([words]).units, torch.tensor([1, 3])).sum()


def test_hidden_patches_are_black_in_training_and_when_the_model_is_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = DigitScenes(train=4, validation=2, test=2)
    source = TinyVit(steps=1, layers=1, heads=2, hidden=16)
    model = benchmark.load_model(source.resolve(task), device="cpu")
    scene = task.split("test")[0]
    plain = model.encode_examples([scene], range(len(task.labels)))
    units = int(plain.n_units[0])
    hidden = replace(scene, hidden=np.arange(units) == 3)
    batch = model.encode_examples([hidden], range(len(task.labels)))
    removed = operator_for("black", model, plain, "operator")(
        model, plain.tensors, plain.units, torch.from_numpy(hidden.hidden)[None]
    )
    assert torch.equal(batch.tensors["pixel_values"], removed.tensors["pixel_values"])
    assert not torch.equal(batch.tensors["pixel_values"], plain.tensors["pixel_values"])
    trained = source._encoded(model.encoder.processor, [hidden])
    assert torch.allclose((trained.float() - 127.5) / 127.5, batch.tensors["pixel_values"], atol=1e-5)


def test_hidden_is_one_boolean_per_unit():
    with pytest.raises(UserError, match="one yes or no"):
        example("the film", [0.5, 1])
    assert example("the film", [0, 1]).hidden.dtype == bool
