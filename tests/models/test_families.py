"""What is known of each family, and what is guessed of others, with a warning that names it."""

import logging
import re

import pytest
import torch
import transformers

import benchmark
from benchmark.checking import small_models
from benchmark.errors import UserError
from benchmark.models.families import FAMILIES
from benchmark.models.loading import states_read
from benchmark.models.removal import logits_without, operator_for
from benchmark.models.streams import Streams
from tests import text_models

_TEXT = small_models.FAMILIES["llama"][1]
_IMAGE = small_models.FAMILIES["vit"][1]
GUESSED = {
    "ernie": ("ErnieForSequenceClassification", "ErnieConfig", small_models.FAMILIES["bert"][1], "the first token"),
    "mistral": ("MistralForSequenceClassification", "MistralConfig", _TEXT, "the last token"),
    "mbart": (
        "MBartForSequenceClassification",
        "MBartConfig",
        small_models.FAMILIES["bart"][1],
        "end-of-sequence token.*cross-attention is called 'encoder_attn'",
    ),
    "dinov2_with_registers": (
        "Dinov2WithRegistersForImageClassification",
        "Dinov2WithRegistersConfig",
        small_models.FAMILIES["dinov2"][1],
        "the first token(.|\n)*5 tokens that are no patches(.|\n)*the guess is wrong: .* 0, 5, 6, .*, 13, not 0, of 14",
    ),
}


def load(family, folder):
    return small_models.load(family, folder, dtype="float32")


def test_every_family_of_the_table_is_tested():
    types = {getattr(transformers, name)(**settings).model_type for name, settings in small_models.FAMILIES.values()}
    assert types == set(FAMILIES) - {"camembert"}  # a RoBERTa by another name


@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_families_of_the_table_are_not_guessed(family, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        load(family, tmp_path)
    assert "guessed" not in caplog.text


@pytest.mark.parametrize("model_type", GUESSED)
def test_a_family_that_is_not_in_the_table_is_guessed_with_a_warning(model_type, tmp_path, caplog):
    classifier, config, settings, warning = GUESSED[model_type]
    torch.manual_seed(0)
    model = getattr(transformers, classifier)(getattr(transformers, config)(**settings)).eval()
    model.save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING):
        loaded = benchmark.load_model(tmp_path, device="cpu")
    message = caplog.text
    assert f"model type '{model_type}' is not in the table of families; guessed: its classifier reads" in message
    assert re.search(warning, message)
    kind = "vit" if "image_size" in settings else "bert"
    batch = loaded.encode(small_models.inputs(kind))
    trace = loaded.run(batch, record=("attentions", "embeddings", "hidden"))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        assert torch.equal(trace.logits, model(**batch.tensors).logits)
    assert trace.attentions[0].shape[-1] == batch.units.shape[1]
    assert ("the guess is wrong" in message) == (model_type == "dinov2_with_registers")
    assert loaded.cost.forward_passes == len(batch)


def test_what_cannot_be_instrumented_is_refused_in_one_line(tmp_path):
    t5 = transformers.T5Config(
        vocab_size=120, d_model=8, d_kv=4, num_layers=1, num_heads=2, d_ff=8, pad_token_id=0, eos_token_id=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    transformers.T5ForSequenceClassification(t5).save_pretrained(tmp_path / "t5")
    with pytest.raises(UserError, match="is not supported: T5Attention passes position_bias"):
        benchmark.load_model(tmp_path / "t5", device="cpu")
    swin = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
    )
    transformers.SwinForImageClassification(swin).save_pretrained(tmp_path / "swin")
    with pytest.raises(UserError, match="fewer states than it has patches"):
        benchmark.load_model(tmp_path / "swin", device="cpu")
    bart = transformers.BartConfig(**small_models.FAMILIES["bart"][1] | {"decoder_attention_heads": 2})
    transformers.BartForSequenceClassification(bart).save_pretrained(tmp_path / "bart")
    with pytest.raises(UserError, match=r"attention layers of \[2, 4\] heads"):
        benchmark.load_model(tmp_path / "bart", device="cpu")


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("vit", [1] + [0] * 9),
        ("deit", [1, 0] + [0] * 9),
        ("deit-teacher", [1 / 2, 1 / 2] + [0] * 9),
        ("dinov2", [1 / 2] + [1 / 18] * 9),
        ("beit", [0] + [1 / 9] * 9),
    ],
)
def test_read_weights_of_images(family, expected, tmp_path):
    model = load(family, tmp_path)
    batch = model.encode(small_models.inputs(family))
    assert torch.allclose(model.read_weights(batch), torch.tensor(expected, dtype=torch.float32).expand(3, -1))
    assert batch.units.tolist()[0] == [-1] * (len(expected) - 9) + list(range(9))
    assert model.mask_token_id is None


VARIANTS = {
    "modernbert": ({"classifier_pooling": "mean"}, [1 / 5] * 5),
    "beit": ({"use_mean_pooling": False}, [1] + [0] * 9),
}


@pytest.mark.parametrize("family", VARIANTS)
def test_settings_that_change_what_the_classifier_reads(family, tmp_path, monkeypatch):
    settings, expected = VARIANTS[family]
    name, usual = small_models.FAMILIES[family]
    monkeypatch.setitem(small_models.FAMILIES, family, (name, usual | settings))
    model = load(family, tmp_path)
    batch = model.encode(small_models.inputs(family, (5,)))
    assert torch.allclose(model.read_weights(batch), torch.tensor([expected], dtype=torch.float32))
    assert torch.equal(states_read(model, batch), model.read_weights(batch) > 0)


def test_the_window_of_families_whose_positions_start_after_padding(tmp_path):
    assert load("xlm-roberta", tmp_path).window == load("roberta", tmp_path).window == 41
    assert load("bert", tmp_path).window == 40


def test_calls_of_one_stream_are_numbered(tmp_path):
    model = load("albert", tmp_path)
    assert model.attention_names == ("0", "1")
    assert model.streams.entries == (0,)


def test_calls_of_an_encoder_decoder_are_named_apart_and_join_the_right_streams(tmp_path):
    model = load("bart", tmp_path)
    assert model.attention_names == ("encoder.0", "encoder.1", "decoder.0", "cross.0", "decoder.1", "cross.1")
    assert model.streams.queries == (0, 0, 1, 1, 1, 1)
    assert model.streams.keys == (0, 0, 1, 0, 1, 0)
    assert model.streams.entries == (0, 2)
    batch = model.encode(small_models.inputs("bart"))
    trace = model.run(batch, record=("attentions",))
    for name, attention in zip(model.attention_names, trace.attentions, strict=True):
        assert bool((attention.triu(1) == 0).all()) == name.startswith("decoder")
    padding = ~batch.attention_mask[:, None, None, :]
    assert all(float((attention * padding)[:, :, :5].abs().max()) == 0 for attention in trace.attentions)
    assert model.read_weights(batch).argmax(1).tolist() == [8, 4, 11]


def test_a_decoder_is_given_the_input_ids_and_no_others(tmp_path):
    with pytest.raises(UserError, match="ready inputs hold decoder_input_ids"):
        load("bart", tmp_path).encode([{"input_ids": [1, 5, 2], "decoder_input_ids": [2, 1, 5]}])


def test_edges_of_two_streams_are_placed_and_folded():
    streams = Streams(names=("encoder.0", "decoder.0", "cross.0"), queries=(0, 1, 1), keys=(0, 1, 0))
    edges = [torch.full((1, 2, 3, 3), float(value)) for value in (1, 2, 3)]
    joint = [streams.join(layer, call) for layer, call in enumerate(edges)]
    blocks = [[[float(call[0, 0, 3 * q, 3 * k]) for k in (0, 1)] for q in (0, 1)] for call in joint]
    assert blocks == [[[1, 0], [0, 0]], [[0, 0], [0, 2]], [[0, 0], [3, 0]]]
    assert all(call.shape == (1, 2, 6, 6) for call in joint)
    assert streams.join_read(torch.tensor([[0.0, 0.0, 1.0]])).tolist() == [[0, 0, 0, 0, 0, 1]]
    scores = torch.tensor([[1.0, 2.0, 4.0, 100.0, 10.0, 20.0]])
    assert streams.fold(scores, torch.tensor([[True, True, True]])).tolist() == [[11, 22, 4]]
    assert streams.fold(scores, torch.tensor([[True, True, False]])).tolist() == [[11, 2, 0]]


def test_one_stream_is_left_alone():
    streams = Streams(names=("0",), queries=(0,), keys=(0,))
    edges = torch.rand(1, 2, 3, 3)
    assert streams.join(0, edges) is edges
    assert streams.join_read(torch.ones(1, 3)).tolist() == [[1, 1, 1]]
    assert streams.fold(torch.ones(1, 3), torch.tensor([[True, True, False]])).tolist() == [[1, 1, 0]]


def test_a_decoder_reads_the_last_token_that_does_not_look_like_padding(tmp_path):
    model = load("llama", tmp_path)
    batch = model.encode([{"input_ids": [1, 7, 8, 0], "attention_mask": [1, 1, 1, 1]}])
    assert model.read_weights(batch).tolist() == [[0, 0, 1, 0]]
    assert torch.allclose(
        model.run(batch).logits, model.run(model.encode([{"input_ids": [1, 7, 8]}])).logits, atol=1e-6
    )


def test_an_encoder_decoder_on_text(tmp_path):
    model = benchmark.load_model(text_models.save_bart(tmp_path), dtype="float64", device="cpu")
    batch = model.encode(["the film was untoldly good", "bad plot"])
    assert model.mask_token_id is not None
    assert [row[row >= 0].unique().tolist() for row in batch.units] == [[0, 1, 2, 3, 4], [0, 1]]
    lengths = batch.attention_mask.sum(1)
    assert model.read_weights(batch).argmax(1).tolist() == (lengths - 1).tolist()
    for name in ("rollout", "attattr", "gradient_x_input"):
        tokens = benchmark.build(f"methods/{name}")(model, batch, torch.tensor([0, 1])).tokens
        assert bool((tokens != 0).eq(batch.attention_mask).all())
    removed = torch.zeros(1, 2, 5, dtype=torch.bool)
    removed[0, :, 1] = True
    for operator in ("mask", "pad", "delete", "attention", "zero_embedding"):
        without = logits_without(model, batch, removed, operator_for(operator, model, batch, "operator"))
        assert bool(without.isfinite().all())
        assert not torch.allclose(without[0], model.run(batch).logits, atol=1e-4)
    shorter = model.run(model.encode(["the was untoldly good", "bad"])).logits
    delete = logits_without(model, batch, removed, operator_for("delete", model, batch, "operator"))
    assert torch.allclose(delete[0], shorter)
