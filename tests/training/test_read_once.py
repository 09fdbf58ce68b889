"""Frozen blocks that read each text once: training goes on from what they make of it, as if they read it every time."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertModel,
    DebertaV2Config,
    GPT2Config,
    LongformerConfig,
    ModernBertConfig,
)
from transformers.models.bert.modeling_bert import BertLayer

from benchmark.errors import UserError
from benchmark.models import load_model
from benchmark.settings.declared import SettingError
from benchmark.training import prepared
from benchmark.training.finetune import FineTuned, Recipe, finetune
from benchmark.training.prepared import config_for, prepare_texts
from tasks.planted import Planted
from tests.text_models import VOCABULARY as WORDS
from tests.text_models import save_bert

TASK = Planted(train=40, validation=12, test=12)
VOCABULARY = len(WORDS)
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 70,
}
RECIPE = Recipe(epochs=3, batch_size=8, learning_rate=1e-3, checks_per_epoch=1, patience=50, freeze=1)


@pytest.fixture
def base(tmp_path):
    """An encoder of two blocks that drops nothing out, so that both ways of training are the same."""
    folder = save_bert(tmp_path / "base", window=64)
    BertModel.from_pretrained(folder).save_pretrained(folder)
    config = AutoConfig.from_pretrained(folder)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    config.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("by_length", [False, True])
def test_without_dropout_the_trained_weights_are_those_of_blocks_that_read_every_time(base, tmp_path, by_length):
    recipe = replace(RECIPE, group_by_length=by_length)
    records = [
        finetune(TASK, str(base), tmp_path / name, replace(recipe, read_once=once))
        for name, once in (("every", False), ("once", True))
    ]
    every, once = (load_file(tmp_path / name / "model.safetensors") for name in ("every", "once"))
    before = load_file(base / "model.safetensors")
    assert every.keys() == once.keys()
    for name, tensor in every.items():
        if name.endswith("key.bias"):  # nothing depends on it: its gradient is rounding, which AdamW makes large
            continue
        assert torch.allclose(tensor, once[name], atol=2e-5), name
    assert any(not torch.equal(before[name], once[f"bert.{name}"]) for name in before if "layer.1" in name)
    assert records[0]["accuracy"] == records[1]["accuracy"]
    assert json.loads((tmp_path / "once" / "training.json").read_text())["recipe"]["read_once"] is True
    model = load_model(tmp_path / "once", device="cpu")
    batch = model.encode_examples(list(TASK.split("validation")), model.label_map(TASK.labels))
    right = float((model.run(batch).logits.argmax(1) == batch.label).double().mean())
    assert records[1]["accuracy"]["validation"] == pytest.approx(right)


def test_each_text_is_read_once_whatever_the_epochs(base, tmp_path, monkeypatch):
    """The first block itself runs on no batch of the training; the second, which is trained, on all of them."""
    read, run = {}, BertLayer.forward

    def counted(self, hidden, *more, **others):
        read.setdefault(id(self), []).append(len(hidden))
        return run(self, hidden, *more, **others)

    monkeypatch.setattr(BertLayer, "forward", counted)
    finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, read_once=True))
    first, second = (sum(rows) for rows in read.values())
    assert first == 40 + 12 + 5 * 2, "and a few, to see which weights are frozen and whether going on is right"
    assert second > 3 * 40


@pytest.mark.parametrize("freeze", [1, 2])
def test_going_on_from_kept_states_is_the_whole_model(base, freeze):
    """The logits of texts of several lengths, padded otherwise than when they were read."""
    config = config_for(TASK, str(base))
    made = prepare_texts(TASK, str(base), config, 0, None, freeze, once=True)
    plain = prepare_texts(TASK, str(base), config, 0, None, freeze)
    lengths = [len(item["input_ids"]) for item in made.train]
    some = [lengths.index(min(lengths)), lengths.index(max(lengths)), 3]
    batches = (made.collate([made.train[k] for k in some]), plain.collate([plain.train[k] for k in some]))
    with torch.no_grad():
        found, expected = (one.model.eval()(**batch).logits for one, batch in zip((made, plain), batches, strict=True))
    assert torch.allclose(found, expected, atol=1e-6)
    assert made.train[some[0]]["states"].shape == (min(lengths), config.hidden_size)


def test_padding_on_the_left_is_kept_apart(base):
    """States stand where the tokenizer puts the tokens."""
    made = prepare_texts(TASK, str(base), config_for(TASK, str(base)), 0, None, 1, once=True)
    made.encoder.padding_side = "left"
    lengths = [len(item["input_ids"]) for item in made.train]
    short, long = lengths.index(min(lengths)), lengths.index(max(lengths))
    batch = made.collate([made.train[short], made.train[long]])
    assert torch.equal(batch["states"][0, -min(lengths) :], made.train[short]["states"])
    assert not batch["states"][0, : -min(lengths)].any()


def test_a_source_of_a_comparison_has_the_setting_and_another_checkpoint(base, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = FineTuned(base=str(base), epochs=1, batch_size=8, learning_rate=1e-3, freeze=1)
    assert source.resolve(TASK) != replace(source, read_once=True).resolve(TASK)


@pytest.mark.parametrize("settings", [{"freeze": 0}, {"freeze": 1, "mask_share": 0.5}])
def test_what_cannot_be_read_once_is_refused(settings):
    with pytest.raises(SettingError, match="read_once"):
        Recipe(read_once=True, **settings)


CONFIGS = {
    "modernbert": ModernBertConfig(
        **SIZES, global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, cls_token_id=2, sep_token_id=3
    ),
    "gpt2": GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2, n_positions=64, pad_token_id=0),
    "deberta_v2": DebertaV2Config(**SIZES, relative_attention=True, position_biased_input=False, pos_att_type=["p2c"]),
}
"""Blocks with masks of their own, of a decoder, and such as return a tuple."""


def save(folder, config):
    """A classifier of a family with the words of the small BERT."""
    save_bert(folder, window=64)
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", CONFIGS)
def test_models_of_other_families_go_on_from_states(tmp_path, family):
    base = save(tmp_path / "base", CONFIGS[family])
    made = prepare_texts(TASK, str(base), config_for(TASK, str(base)), 0, None, 1, once=True)
    plain = prepare_texts(TASK, str(base), config_for(TASK, str(base)), 0, None, 1)
    batches = [one.collate(one.train[:8]) for one in (made, plain)]
    with torch.no_grad():
        found, expected = (one.model.eval()(**batch).logits for one, batch in zip((made, plain), batches, strict=True))
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_base_that_pads_within_itself_is_refused_with_a_line(tmp_path):
    base = save(tmp_path / "base", LongformerConfig(**SIZES, attention_window=[4, 4], pad_token_id=0))
    with pytest.raises(UserError, match=r"read_once=true: the base .* cannot go on from"):
        prepare_texts(TASK, str(base), config_for(TASK, str(base)), 0, None, 1, once=True)


def test_a_base_whose_blocks_pass_on_more_than_states_is_refused_with_a_line(base, monkeypatch):
    """As where the first block computes what later ones add to their states."""
    keep = AutoModelForSequenceClassification.from_pretrained

    def adding(auto, source, *, config, **_):
        model = keep(source, config=config)
        first, second = model.bert.encoder.layer
        told, whole = {}, second.forward
        model.bert.embeddings.register_forward_pre_hook(lambda *_: told.clear())
        first.attention.register_forward_hook(lambda _, __, output: told.update(more=output[0]))
        second.forward = lambda hidden, *more, **others: whole(hidden + told.get("more", 0), *more, **others)
        return model

    monkeypatch.setattr(prepared, "load_weights", adding)
    with pytest.raises(UserError, match=r"read_once=true: the base .* cannot go on from"):
        prepare_texts(TASK, str(base), config_for(TASK, str(base)), 0, None, 1, once=True)
