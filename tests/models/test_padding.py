"""The token that a decoder's classifier reads is that of the example alone in transformers, whatever the batch."""

import pytest
import torch
import transformers
from tokenizers import processors
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import benchmark
from benchmark.checking.small_models import FAMILIES
from benchmark.errors import UserError
from benchmark.models.removal import logits_without, operator_for
from tests.text_models import save_bart, save_gpt2

TEXTS = ["a fine film , good story", "the plot was dull and the acting bad", "good", "bad plot ?"]
_OPT = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 24,
        "max_position_embeddings": 40, "word_embed_proj_dim": 16, "num_labels": 3, "pad_token_id": 0,
        "eos_token_id": 2}  # fmt: skip
_NEOX = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
         "max_position_embeddings": 40, "num_labels": 3, "pad_token_id": 0, "eos_token_id": 2}  # fmt: skip
DECODERS = {
    **{name: FAMILIES[name] for name in ("gpt2", "llama", "qwen3")},
    "mistral": ("MistralConfig", FAMILIES["llama"][1]),
    "opt": ("OPTConfig", _OPT),
    "gpt_neox": ("GPTNeoXConfig", _NEOX),
}


def changed(folder, model=(), tokenizer=(), end=None):
    """The checkpoint with other settings of model and tokenizer; `end` is a token that the tokenizer appends."""
    own = AutoModelForSequenceClassification.from_pretrained(folder)
    for name, value in dict(model).items():
        setattr(own.config, name, value)
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.mul_(8 if parameter.dim() > 1 else 1)
    own.save_pretrained(folder)
    words = AutoTokenizer.from_pretrained(folder)
    if dict(tokenizer):
        words.add_special_tokens(dict(tokenizer))
    if end is not None:
        number = words.convert_tokens_to_ids(end)
        words.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, number)]
        )
    words.save_pretrained(folder)
    return folder


def alone(folder, texts=TEXTS):
    """The logits of each text alone, in transformers and double precision: rounding is no excuse."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float64).eval()
    with torch.no_grad():
        return torch.cat([model(**tokenizer(text, return_tensors="pt")).logits for text in texts])


END = "<|endoftext|>"
CASES = {
    "padding of the tokenizer, end in the configuration": ({"pad_token_id": 0}, {"pad_token": "!"}, None),
    "end appended, no padding id": ({"pad_token_id": None}, {}, END),
    "end appended, padding id of the tokenizer alone": ({"pad_token_id": None}, {"pad_token": END}, END),
    "end appended, which pads": ({"pad_token_id": 0}, {"pad_token": END}, END),
    "a negative padding id": ({"pad_token_id": -1}, {}, None),
    "no padding at all": ({"pad_token_id": None, "eos_token_id": None}, {"eos_token": None, "bos_token": None}, None),
    "padding that is a word": ({"pad_token_id": 30}, {}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_decoder_reads_alone_and_in_batches_what_transformers_reads(tmp_path, case):
    settings, special, end = CASES[case]
    folder = changed(save_gpt2(tmp_path / "m"), settings, {k: v for k, v in special.items() if v}, end)
    model, expected = benchmark.load_model(folder, device="cpu", dtype="float64"), alone(folder)
    assert (expected - expected[0]).abs().max() > 0.1
    for parts in ([[text] for text in TEXTS], [TEXTS], [TEXTS[:1], TEXTS[1:]]):
        found = torch.cat([model.run(model.encode(part)).logits for part in parts])
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    batch = model.encode(TEXTS)
    recorded = model.run(batch, record=("attentions", "hidden")).logits
    torch.testing.assert_close(recorded, expected, atol=1e-9, rtol=1e-9)
    rows = model.read_weights(batch).argmax(1)
    for index in range(len(TEXTS)):
        assert rows[index] == model.read_weights(model.encode([TEXTS[index]])).argmax(1)


@pytest.mark.parametrize("pad", [0, 7, None])
@pytest.mark.parametrize("family", DECODERS)
def test_ready_ids_may_hold_and_end_with_any_id(tmp_path, family, pad):
    torch.manual_seed(1)
    name, settings = DECODERS[family]
    plain = AutoModelForSequenceClassification.from_config(getattr(transformers, name)(**settings)).eval()
    plain.config.pad_token_id = pad
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.mul_(10 if parameter.dim() > 1 else 1)
    plain.save_pretrained(tmp_path / "m")
    plain.double().config.pad_token_id = pad
    model = benchmark.load_model(tmp_path / "m", device="cpu", dtype="float64")
    rows = [[1, 9, 0, 12, 7], [5, 7, 0], [8, 30, 0, 0, 11, 2, 59, 3, 2], [13], [4, 7, 7, 9, 0, 7]]
    with torch.no_grad():
        expected = torch.cat([plain(input_ids=torch.tensor([row])).logits for row in rows])
    inputs = [{"input_ids": row} for row in rows]
    for parts in ([inputs], [[value] for value in inputs]):
        found = torch.cat([model.run(model.encode(part)).logits for part in parts])
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    longer = [{"input_ids": row + [33] * 3, "attention_mask": [1] * len(row) + [0] * 3} for row in rows]
    torch.testing.assert_close(model.run(model.encode(longer)).logits, expected, atol=1e-9, rtol=1e-9)


def test_removals_in_a_batch_are_those_of_the_example_alone(tmp_path):
    folder = changed(save_gpt2(tmp_path / "m"), {"pad_token_id": None}, {"pad_token": END}, END)
    model = benchmark.load_model(folder, device="cpu", dtype="float64")
    batch = model.encode(TEXTS)
    removed = torch.zeros(2, len(TEXTS), batch.units.max() + 1, dtype=torch.bool)
    removed[0, :, 0], removed[1, :2, -2:] = True, True
    for name in ("delete", "attention", "zero_embedding"):
        together = logits_without(model, batch, removed, operator_for(name, model, batch, "operator"))
        for index, text in enumerate(TEXTS):
            single = model.encode([text])
            mine = removed[:, index : index + 1, : int(single.units.max()) + 1]
            own = logits_without(model, single, mine, operator_for(name, model, single, "operator"))
            torch.testing.assert_close(together[:, index], own[:, 0], atol=1e-9, rtol=1e-9)


def test_the_model_that_was_given_keeps_its_padding(tmp_path):
    folder = changed(save_gpt2(tmp_path / "m"), {"pad_token_id": None})
    given = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float64)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = benchmark.load_model(given, tokenizer=tokenizer, device="cpu")
    torch.testing.assert_close(model.run(model.encode(TEXTS)).logits, alone(folder), atol=1e-9, rtol=1e-9)
    assert given.config.pad_token_id is None
    assert tokenizer.pad_token_id is None


@pytest.mark.parametrize("pad", [1, 2])
def test_an_encoder_decoder_reads_its_last_end_whatever_pads(tmp_path, pad):
    folder = changed(save_bart(tmp_path / "m"), {"pad_token_id": pad})
    model = benchmark.load_model(folder, device="cpu", dtype="float64")
    torch.testing.assert_close(model.run(model.encode(TEXTS)).logits, alone(folder), atol=1e-9, rtol=1e-9)


def test_ends_that_differ_in_number_and_ids_without_embedding_are_one_line(tmp_path):
    model = benchmark.load_model(save_bart(tmp_path / "m"), device="cpu")
    with pytest.raises(UserError, match="1 to 2 end-of-sequence tokens"):
        model.encode([{"input_ids": [0, 9, 2]}, {"input_ids": [0, 9, 2, 8, 2]}])
    with pytest.raises(UserError, match="no end-of-sequence token"):
        model.encode([{"input_ids": [0, 9, 8]}])
    with pytest.raises(UserError, match="ready ids hold 4000"):
        model.encode([{"input_ids": [0, 4000, 2]}])
