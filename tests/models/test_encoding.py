"""The alignment of tokens to words, and what is refused."""

import dataclasses

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import benchmark
from benchmark.errors import UserError
from benchmark.types import Example
from tests import text_models


def save_unigram(folder):
    """A BERT whose tokenizer is a unigram model, as SentencePiece makes them, between <s> and </s>."""
    text_models.save_bert(folder)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    pieces = ["▁the", "▁film", "▁", "<", ">", "/", "s", "p", "a", "d", "m", "k"]
    raw = Tokenizer(models.Unigram([("<pad>", 0.0), ("<unk>", 0.0), *((piece, -1.0) for piece in pieces)], unk_id=1))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.add_special_tokens(["<s>", "</s>", "<mask>"])
    ends = [(token, raw.token_to_id(token)) for token in ("<s>", "</s>")]
    raw.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    names = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=24, **names).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return benchmark.load_model(text_models.save_bert(tmp_path_factory.mktemp("bert"), window=12), device="cpu")


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return benchmark.load_model(text_models.save_gpt2(tmp_path_factory.mktemp("gpt2")), device="cpu")


def aligned(model, batch, row):
    """[(token, its word or None)] of one example, without padding."""
    ids = batch.tensors["input_ids"][row][batch.attention_mask[row]].tolist()
    units = batch.units[row][batch.attention_mask[row]].tolist()
    tokens = model.tokenizer.convert_ids_to_tokens(ids)
    return [(token, batch.words[row][u] if u >= 0 else None) for token, u in zip(tokens, units, strict=True)]


def test_words_that_split_keep_their_tokens_together(bert):
    batch = bert.encode(["the untoldly film"])
    assert aligned(bert, batch, 0) == [
        ("[CLS]", None), ("the", "the"), ("un", "untoldly"), ("##told", "untoldly"), ("##ly", "untoldly"),
        ("film", "film"), ("[SEP]", None),
    ]  # fmt: skip
    assert batch.units.tolist() == [[-1, 0, 1, 1, 1, 2, -1]]
    assert batch.n_units.tolist() == [3]
    assert batch.lost_units.tolist() == [0]


def test_double_spaces_tabs_newlines_and_attached_punctuation(bert):
    batch = bert.encode(["  the  film,\twas\n\ngood!  "])
    assert batch.words == (("the", "film,", "was", "good!"),)
    assert aligned(bert, batch, 0)[1:-1] == [
        ("the", "the"), ("film", "film,"), (",", "film,"), ("was", "was"), ("good", "good!"), ("!", "good!"),
    ]  # fmt: skip


def test_a_word_that_occurs_twice_and_inside_another(bert):
    batch = bert.encode(["a a bad a"])
    assert batch.units.tolist() == [[-1, 0, 1, 2, 3, -1]]


def test_an_unknown_word_is_still_its_own_unit(bert):
    batch = bert.encode(["the xylophone was good"])
    assert aligned(bert, batch, 0)[2] == ("[UNK]", "xylophone")
    assert batch.units.tolist() == [[-1, 0, 1, 2, 3, -1]]


SPELLED = "the [SEP] [CLS] film [MASK][PAD]"


def test_special_tokens_spelled_in_a_text_are_text(bert):
    batch = bert.encode([SPELLED, "the"])
    assert batch.words[0] == tuple(SPELLED.split())
    ids = batch.tensors["input_ids"][0]
    inner = ids[batch.units[0] >= 0].tolist()
    assert not {bert.tokenizer.sep_token_id, bert.tokenizer.cls_token_id, bert.mask_token_id, bert.pad_token_id} & {
        *inner
    }
    assert sorted({unit for unit in batch.units[0].tolist() if unit >= 0}) == [0, 1, 2, 3, 4]
    assert (ids[0], ids[batch.attention_mask[0]][-1]) == (bert.tokenizer.cls_token_id, bert.tokenizer.sep_token_id)
    pair = bert.encode([("the [SEP] film", "bad")])
    assert pair.tensors["token_type_ids"][0].tolist()[-2:] == [1, 1]
    assert (pair.tensors["input_ids"][0] == bert.tokenizer.sep_token_id).sum() == 2


@pytest.mark.parametrize("save", [text_models.save_gpt2, text_models.save_bart, save_unigram])
def test_they_are_text_to_any_tokenizer(tmp_path, save):
    model = benchmark.load_model(save(tmp_path / "model"), device="cpu")
    special = [token for token in model.tokenizer.all_special_tokens if token != model.tokenizer.unk_token]
    assert special
    batch = model.encode([f"the {token} film" for token in special])
    unknown = {model.tokenizer.unk_token_id}
    for row, token in enumerate(special):
        inner = batch.tensors["input_ids"][row][batch.units[row] >= 0].tolist()
        assert not {*inner} & ({*model.tokenizer.all_special_ids} - unknown), token
        assert batch.words[row] == ("the", token, "film")
        assert {unit for unit in batch.units[row].tolist() if unit >= 0} == {0, 1, 2}
    ready = model.encode([{"input_ids": batch.tensors["input_ids"][0].tolist()}])
    assert torch.equal(ready.tensors["input_ids"][0], batch.tensors["input_ids"][0])


def test_shorter_rows_are_padded_on_the_right(bert):
    batch = bert.encode(["good", "the film was good"])
    assert batch.units.tolist() == [[-1, 0, -1, -1, -1, -1], [-1, 0, 1, 2, 3, -1]]
    assert batch.attention_mask.tolist() == [[True] * 3 + [False] * 3, [True] * 6]


def test_pairs_go_on_counting_after_all_units_of_the_first(bert):
    batch = bert.encode([("the film", "untold plot"), ("good", "bad film")])
    assert batch.units[0].tolist() == [-1, 0, 1, -1, 2, 2, 3, -1]
    assert batch.units[1].tolist()[:7] == [-1, 0, -1, 1, 2, -1, -1]
    assert batch.words == (("the", "film", "untold", "plot"), ("good", "bad", "film"))
    assert batch.n_units.tolist() == [4, 3]
    assert batch.tensors["token_type_ids"][0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_word_lists_keep_their_words_also_with_spaces_in_them(bert):
    batch = bert.encode([["the", "bad film", "was,", "fine"]])
    assert batch.words == (("the", "bad film", "was,", "fine"),)
    assert batch.units.tolist() == [[-1, 0, 1, 1, 2, 2, 3, -1]]
    pair = bert.encode([(["the", "bad film"], ["good"])])
    assert pair.units.tolist() == [[-1, 0, 1, 1, -1, 2, -1]]


def test_a_word_list_and_its_text_are_the_same(bert):
    text, words = "the untold story was good !", ["the", "untold", "story", "was", "good", "!"]
    one, other = bert.encode([text]), bert.encode([words])
    assert torch.equal(one.units, other.units)
    assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
    assert one.words == other.words


def test_truncation_says_how_many_words_are_lost(bert):
    batch = bert.encode(["good " * 30, "the film"])
    assert batch.units.shape[1] == bert.window == 12
    assert batch.n_units.tolist() == [30, 2]
    assert batch.lost_units.tolist() == [20, 0]  # 12 tokens less CLS and SEP
    assert len(batch.words[0]) == 30


def test_a_word_cut_in_the_middle_is_not_lost(bert):
    batch = bert.encode(["good " * 9 + "untoldly plot"])
    assert batch.units[0].tolist() == [-1, *range(9), 9, -1]
    assert batch.n_units.tolist() == [11]
    assert batch.lost_units.tolist() == [1]


def test_truncated_pairs_lose_from_the_longer_and_keep_the_units_of_the_second(bert):
    batch = bert.encode([("good " * 20, "bad film")])
    units = batch.units[0].tolist()
    assert units == [-1, *range(7), -1, 20, 21, -1]
    assert batch.n_units.tolist() == [22]
    assert batch.lost_units.tolist() == [13]


def test_lost_units_are_logged(bert, caplog):
    with caplog.at_level("INFO", logger="benchmark.models.encoding"):
        bert.encode(["good " * 30])
    assert "20 of 30 words lie beyond the window of 12 tokens" in caplog.text


def test_ready_ids_with_a_special_tokens_mask(bert):
    ids, mask = [2, 5, 6, 4, 3], [1, 0, 0, 0, 1]
    batch = bert.encode(
        [{"input_ids": ids, "special_tokens_mask": mask}, {"input_ids": [2, 7, 3], "special_tokens_mask": [1, 0, 1]}]
    )
    assert batch.units.tolist() == [
        [-1, 0, 1, 2, -1],
        [-1, 0, -1, -1, -1],
    ]  # the mask token is content: the mask says so
    assert batch.n_units.tolist() == [3, 1]
    assert batch.attention_mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert batch.tensors["input_ids"][1].tolist() == [2, 7, 3, bert.pad_token_id, bert.pad_token_id]
    assert "special_tokens_mask" not in batch.tensors


def test_ready_ids_without_one_take_the_tokenizers_special_tokens(bert):
    batch = bert.encode([{"input_ids": [2, 5, 6, 3, 7, 3, 0], "attention_mask": [1, 1, 1, 1, 1, 1, 0]}])
    assert batch.units.tolist() == [[-1, 0, 1, -1, 2, -1, -1]]


def test_ids_that_do_not_fit_or_are_no_ids(bert):
    with pytest.raises(UserError, match="ready ids of 13 tokens do not fit the model's window of 12"):
        bert.encode([{"input_ids": [2] * 13}])
    with pytest.raises(UserError, match=r"need 'input_ids' or 'pixel_values', found \['tokens'\]"):
        bert.encode([{"tokens": [2]}])


def test_encoding_twice_gives_the_same_and_decodes_to_the_text(bert):
    text = "the untold story was good"
    one, other = bert.encode([text]), bert.encode([text])
    assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
    assert bert.tokenizer.decode(one.tensors["input_ids"][0], skip_special_tokens=True) == text
    ready = bert.encode([{"input_ids": one.tensors["input_ids"][0].tolist()}])
    assert torch.allclose(bert.run(ready).logits, bert.run(one).logits, atol=1e-6)


@pytest.mark.parametrize("text", ["", "  \n ", [], ("good", " "), ([], "good")])
def test_a_text_of_zero_words(bert, text):
    with pytest.raises(UserError, match="example '1' has a text of zero words"):
        bert.encode([("good", "film") if isinstance(text, tuple) else "good", text])


def test_pairs_and_single_texts_do_not_mix(bert):
    with pytest.raises(UserError, match="single texts and pairs cannot be mixed"):
        bert.encode(["good", ("good", "film")])


def test_a_tuple_of_three_is_no_pair(bert):
    with pytest.raises(UserError, match="pair"):
        bert.encode([("good", "film", "bad")])


def test_nothing_to_encode(bert):
    with pytest.raises(UserError, match="the list of inputs is empty"):
        bert.encode([])


def test_examples_carry_their_labels_rationales_and_facts(bert):
    rationale = np.array([True, False])
    examples = [
        Example("a", "good film", 1, rationale, query_units=1, meta={"document": "d"}), Example("b", "bad film", 0)
    ]  # fmt: skip
    batch = bert.encode_examples(examples, label_map=[1, 0])
    assert batch.uids == ("a", "b")
    assert batch.label.tolist() == [0, 1]
    assert batch.rationale[0] is rationale
    assert batch.rationale[1] is None
    assert batch.query_units == (1, 0)
    assert batch.meta[0]["document"] == "d"


def test_selected_rows_keep_everything_together(bert):
    batch = bert.encode(["good", "the bad film", "a plot"], labels=[0, 1, -1])
    chosen = batch.select([2, 0])
    assert chosen.uids == ("2", "0")
    assert chosen.words == (("a", "plot"), ("good",))
    assert chosen.label.tolist() == [-1, 0]
    for name in dataclasses.asdict(batch)["tensors"]:
        assert torch.equal(chosen.tensors[name], batch.tensors[name][[2, 0]])
    assert torch.equal(chosen.units, batch.units[[2, 0]])


def test_a_byte_level_tokenizer_puts_spaces_with_the_word_that_follows(gpt2):
    batch = gpt2.encode(["the untold  story was,  good", "good"])
    assert batch.words[0] == ("the", "untold", "story", "was,", "good")
    for token, word in aligned(gpt2, batch, 0):
        piece = gpt2.tokenizer.convert_tokens_to_string([token]).strip()
        assert (word is None) == (piece == "")  # a space alone is no word's
        assert word is None or piece in word
    found = batch.units[0][batch.units[0] >= 0]
    assert found.tolist() == sorted(found.tolist())
    assert found.unique().tolist() == [0, 1, 2, 3, 4]


def test_a_byte_level_tokenizer_on_several_bytes_a_character(gpt2):
    batch = gpt2.encode(["good café naïve"])
    units = [unit for unit in batch.units[0].tolist() if unit >= 0]
    assert sorted(set(units)) == [0, 1, 2]
    assert units.count(1) > 1
    assert units.count(2) > 1
    assert units == sorted(units)


def test_a_decoder_reads_the_last_token_that_is_no_padding(gpt2):
    batch = gpt2.encode(["the story was good", "good"])
    last = batch.attention_mask.sum(1) - 1
    assert gpt2.read_weights(batch).argmax(1).tolist() == last.tolist()
    alone = gpt2.encode(["good"])
    assert torch.allclose(gpt2.run(batch).logits[1], gpt2.run(alone).logits[0], atol=1e-5)


@pytest.mark.parametrize("text", ["good \ud83d film", ("a film", "\udc00 good"), ["a", "film\ud83d"]])
def test_a_lone_surrogate_is_one_line_that_names_the_example(tmp_path, text):
    model = benchmark.load_model(text_models.save_bert(tmp_path), device="cpu")
    with pytest.raises(UserError, match=r"^example '0' has a lone surrogate \(\\u(d83d|dc00) at character \d"):
        model.encode([text])


def test_a_lone_surrogate_in_an_identifier_or_a_name_of_a_class(tmp_path):
    model = benchmark.load_model(text_models.save_bert(tmp_path), device="cpu")
    with pytest.raises(UserError, match=r"^the identifier '\\ud83d' of an example has a lone surrogate"):
        benchmark.evaluate(model, ["a film"], methods=["random"], uids=["\ud83d"])
    with pytest.raises(UserError, match=r"^the name '\\udc00' of model.labels has a lone surrogate"):
        benchmark.load_model(tmp_path, device="cpu", labels=["bad", "\udc00"])


def test_draws_follow_the_text_and_not_its_place(tmp_path):
    model = benchmark.load_model(text_models.save_bert(tmp_path), device="cpu")
    texts, methods = ["a fine film", "the plot was bad", "the untold story was good"], ["random", "smoothgrad", "lime"]
    whole = benchmark.explain(model, texts, methods=methods)
    alone = benchmark.explain(model, [texts[2].split()], methods=methods)
    for name in methods:
        np.testing.assert_allclose(whole.scores()[name][2], alone.scores()[name][0], rtol=1e-4, atol=1e-6)
    pair = [model.encode([value]).draw_keys for value in (("a b", "c"), ("a", "b c"), "a b c", ["a", "b", "c"])]
    assert len(set(pair)) == 3
    assert pair[2] == pair[3]
    assert (
        model.encode([{"input_ids": [2, 5, 3]}]).draw_keys
        == model.encode([{"input_ids": torch.tensor([2, 5, 3])}]).draw_keys
    )


def test_draws_of_named_examples_follow_their_names(tmp_path):
    model = benchmark.load_model(text_models.save_bert(tmp_path), device="cpu")
    batch = model.encode_examples([Example("test-000001", "a fine film", 0)], [0, 1])
    assert batch.draw_keys == ("test-000001",)
    assert batch.select([0]).draw_keys == ("test-000001",)
