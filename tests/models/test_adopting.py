"""Models that are loaded already: copied, so that the caller's stays what it is, and equal to the checkpoint's."""

import copy

import pytest
import torch
import transformers
from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification, AutoTokenizer

import benchmark
from benchmark.checking import small_models
from benchmark.errors import UserError
from tests import text_models

TEXTS = ["the untoldly film [SEP] was dull", "good"]


@pytest.fixture(scope="module", params=[text_models.save_bert, text_models.save_gpt2, text_models.save_bart])
def checkpoint(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("checkpoint") / "model")


def test_a_loaded_model_is_the_one_of_the_checkpoint(checkpoint):
    loaded, tokenizer = (
        auto.from_pretrained(checkpoint) for auto in (AutoModelForSequenceClassification, AutoTokenizer)
    )
    model, same = benchmark.load_model(loaded, tokenizer=tokenizer), benchmark.load_model(checkpoint, device="cpu")
    assert model.fingerprint == same.fingerprint
    assert (model.name, model.labels, model.window) == (same.name, same.labels, same.window)
    one, two = model.encode(TEXTS), same.encode(TEXTS)
    assert all(torch.equal(one.tensors[name], two.tensors[name]) for name in two.tensors)
    assert torch.equal(one.units, two.units)
    assert torch.equal(model.run(one).logits, same.run(two).logits)
    double, same = benchmark.load_model(loaded, "float64"), benchmark.load_model(checkpoint, "float64", "cpu")
    ids = {"input_ids": one.tensors["input_ids"][0].tolist()}
    assert torch.equal(double.run(double.encode([ids])).logits, same.run(same.encode([ids])).logits)


def test_the_callers_model_is_left_alone(checkpoint):
    loaded, tokenizer = (
        auto.from_pretrained(checkpoint) for auto in (AutoModelForSequenceClassification, AutoTokenizer)
    )
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    loaded.config.pad_token_id = tokenizer.pad_token_id
    loaded.train()
    config, state = loaded.config.to_dict(), copy.deepcopy(loaded.state_dict())
    tokens = tokenizer(TEXTS, padding=True)["input_ids"]
    implementation, backend = loaded.config._attn_implementation, tokenizer.backend_tokenizer.to_str()
    model = benchmark.load_model(loaded, tokenizer=tokenizer)
    benchmark.build("methods/gradient_x_input")(model, model.encode(TEXTS), [0, 1])
    assert loaded.config.to_dict() == config
    assert loaded.config._attn_implementation == implementation == "sdpa"
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in state.items())
    assert loaded.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in loaded.parameters())
    assert tokenizer.backend_tokenizer.to_str() == backend
    assert tokenizer(TEXTS, padding=True)["input_ids"] == tokens


def test_training_on_does_not_change_the_classifier(checkpoint):
    loaded, tokenizer = (
        auto.from_pretrained(checkpoint) for auto in (AutoModelForSequenceClassification, AutoTokenizer)
    )
    model = benchmark.load_model(loaded, tokenizer=tokenizer)
    batch = model.encode(TEXTS)
    before = model.run(batch).logits
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    loaded.train()(**inputs, labels=torch.tensor([1])).loss.backward()
    torch.optim.SGD(loaded.parameters(), lr=1.0).step()
    assert torch.equal(model.run(batch).logits, before)
    assert not any(tensor is other for tensor, other in zip(model.model.parameters(), loaded.parameters(), strict=True))


def test_a_tokenizer_in_place_of_the_checkpoints(tmp_path):
    folder = text_models.save_bert(tmp_path / "bert")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = benchmark.load_model(folder, device="cpu", tokenizer=tokenizer)
    assert model.tokenizer is not tokenizer
    assert model.fingerprint == benchmark.load_model(folder, device="cpu").fingerprint


def test_an_image_model(tmp_path):
    folder = small_models.save("vit", tmp_path)
    loaded = AutoModelForImageClassification.from_pretrained(folder)
    model, same = benchmark.load_model(loaded), benchmark.load_model(folder, device="cpu")
    batch = model.encode(small_models.inputs("vit"))
    assert torch.equal(model.run(batch).logits, same.run(batch).logits)
    assert model.fingerprint == same.fingerprint
    with pytest.raises(UserError, match=r"no image processor: give .*load_model\(model, processor="):
        model.encode([object()])


class Compiled(torch.nn.Module):
    """As `torch.compile` wraps a model."""


def small(kind, **settings):
    config = kind.config_class(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=20, **settings
    )
    return kind(config)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: 3, "load_model takes a directory, a hub id or a transformers model, found int"),
        (lambda: None, "found NoneType"),
        (Compiled, "found Compiled; of a model that is wrapped .* give the transformers model inside"),
        (lambda: small(transformers.BertModel), "BertModel is no classifier; give a model whose class ends in"),
        (lambda: small(transformers.MPNetForSequenceClassification), "of the family mpnet, which is not supported"),
        (lambda: small(transformers.BertForSequenceClassification).to("meta"), "lies on meta; load it on one device"),
    ],
)
@pytest.mark.mistyped
def test_what_is_no_classifier(make, message):
    with pytest.raises(UserError, match=message):
        benchmark.load_model(make())


def test_what_is_no_tokenizer_and_no_tokenizer_at_all():
    loaded = small(transformers.BertForSequenceClassification)
    with pytest.raises(UserError, match="tokenizer=str cannot align words; give a fast tokenizer"):
        benchmark.load_model(loaded, tokenizer="bert-base-uncased")
    with pytest.raises(UserError, match=r"no tokenizer: give ready ids .*load_model\(model, tokenizer="):
        benchmark.load_model(loaded).encode(["a text"])


@pytest.mark.mistyped
def test_a_tokenizer_without_its_name_is_told_how_to_be_given(checkpoint):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    with pytest.raises(UserError, match=r"a tokenizer is given by name: benchmark.load_model\(model, tokenizer=tok"):
        benchmark.load_model(checkpoint, tokenizer)
