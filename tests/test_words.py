"""Units of a text: words in every script, characters, sentences and tokens; and what a model's tokens make of them."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch

import benchmark
from benchmark.errors import UserError
from benchmark.models.remarks import say_how_texts_are_read
from benchmark.rationales import rationale_of
from benchmark.types import Example
from benchmark.words import UnitText, in_units, joined, spans_of
from tasks.word_insertion import inserted
from tests import text_models


def units(text):
    return [text[start:end] for start, end in spans_of(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a fine  film, really\n", ["a", "fine", "film,", "really"]),
        ("这部电影很好，我喜欢。", ["这", "部", "电", "影", "很", "好，", "我", "喜", "欢。"]),
        ("私はBERTが好き", ["私", "は", "BERT", "が", "好", "き"]),
        ("データを見る", ["データ", "を", "見", "る"]),
        ("ok 电影 good", ["ok", "电", "影", "good"]),
        ("（很好）", ["（很", "好）"]),
        ("هذا فيلم جيد", ["هذا", "فيلم", "جيد"]),
        ("좋은 영화였다", ["좋은", "영화였다"]),
        ("…", ["…"]),
    ],
)
def test_words_are_separated_as_their_script_separates_them(text, words):
    assert units(text) == words


def test_thai_comes_apart_and_nothing_of_it_is_lost():
    text = "หนังดีมาก"
    assert len(units(text)) > 3
    assert "".join(units(text)) == text


def test_white_space_is_what_python_takes_for_it():
    text = "a\x1cb\u2003c\u200bd"
    assert units(text) == text.split()


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("characters", "cafe\u0301 👩‍👩‍👧", ["c", "a", "f", "e\u0301", "👩‍👩‍👧"]),
        ("sentences", "A dull plot. Fine actors! “He left.” So", ["A dull plot.", "Fine actors!", "“He left.”", "So"]),
        ("sentences", "好的。再见！", ["好的。", "再见！"]),
        ("sentences", "It costs 3.50 here", ["It costs 3.50 here"]),
    ],
)
def test_other_units(kind, text, found):
    made = in_units(text, kind)
    assert units(made) == found
    assert made == text, "it reads as the same text"
    assert pickle.loads(pickle.dumps(made)).spans == made.spans


def test_units_that_there_are_not_are_refused():
    with pytest.raises(UserError, match="units=letters: allowed are words, characters, sentences, tokens"):
        in_units("a", "letters")


def test_words_of_a_list_stay_whole():
    assert units(joined(["电影", "很好", "a"])) == ["电影", "很好", "a"]


def test_rationales_are_of_the_units():
    assert rationale_of([[2, 4]], ["这部电影好"], "here").tolist() == [False, False, True, True, False]
    assert rationale_of(["电影"], ["这部电影好"], "here").tolist() == [False, False, True, True, False]
    assert rationale_of([], [in_units("ab", "characters"), in_units("c", "characters")], "here").tolist() == [False] * 3
    assert rationale_of([0, 1], [in_units("Bad. Good!", "sentences")], "here").tolist() == [False, True]
    assert rationale_of([0, 0, 1, 1], ["a 电", "影片"], "here").tolist() == [False, False, True, True]
    with pytest.raises(UserError, match="has no words, and so no rationale"):
        rationale_of([0, 1], [in_units("a b", "tokens")], "here")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return benchmark.load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), device="cpu")


def test_tokens_are_units_of_their_own(bert):
    batch = bert.encode([in_units("untoldly good film", "tokens")])
    assert batch.words[0] == ("un", "told", "ly", "good", "film")
    assert batch.units[0].tolist() == [-1, 0, 1, 2, 3, 4, -1]


def test_characters_that_share_a_token_are_one_unit(bert):
    """Half a token cannot be removed. A rationale marks a unit where it marks any of its parts."""
    plain, batch = bert.encode(["untoldly good"]), bert.encode([in_units("untoldly good", "characters")])
    assert torch.equal(plain.tensors["input_ids"], batch.tensors["input_ids"]), "the model reads the same"
    assert batch.words[0] == ("un", "told", "ly", "good")
    assert batch.tokenless[0] == ()
    marks = np.zeros(12, dtype=bool)
    marks[[3, 11]] = True  # the o of told, the d of good
    example = Example(uid="a", inputs=in_units("untoldly good", "characters"), label=0, rationale=marks)
    (marked,) = bert.encode_examples([example], [0, 1]).rationale
    assert marked.tolist() == [False, True, False, True]


def test_units_of_a_pair_that_share_tokens(bert):
    pair = in_units("good film", "characters"), in_units("bad", "characters")
    example = Example(uid="a", inputs=pair, label=0, rationale=np.arange(11) == 10)
    batch = bert.encode_examples([example], [0, 1])
    assert batch.words[0] == ("good", "film", "bad")
    assert batch.rationale[0].tolist() == [False, False, True]
    asked = bert.encode_examples([dataclasses.replace(example, query_units=8)], [0, 1])  # the characters of the first
    assert asked.query_units == (2,)


def test_marks_given_for_an_explanation_are_of_what_is_read(bert):
    """The units of `characters` that share a token are read as one; phrases and spans find them all the same."""
    text = in_units("untoldly good", "characters")
    found = benchmark.evaluate(bert, [text], rationales=[["good"]], methods=["random"], evaluations=["rationale"])
    assert found.table()["value"].notna().any()


def test_words_are_inserted_between_units():
    changed = inserted(Example(uid="a", inputs="这部电影", label=0, rationale=np.array([0, 0, 1, 1]) > 0), ["abc"], 1)
    assert changed.inputs == ["这", "abc", "部", "电", "影"]
    assert changed.rationale.tolist() == [False, False, False, True, True]


def test_chinese_is_scored_character_by_character_and_the_model_reads_it_as_it_was(bert):
    batch, joined_by_blanks = bert.encode(["这部电影很好"]), bert.encode(["这 部 电 影 很 好"])
    assert batch.words[0] == tuple("这部电影很好")
    assert torch.equal(batch.tensors["input_ids"], joined_by_blanks.tensors["input_ids"]), (
        "WordPiece separates them too"
    )
    explained = benchmark.explain(bert, ["这部电影很好", "a film"], methods=["gradient_x_input"])
    assert len(explained.table().query("text == 0")) == 6


def test_a_comparison_of_texts_of_one_word_says_so(bert, caplog):
    batch = bert.encode(["good", "film", "a plot"])
    with pytest.raises(UserError, match=r"2 of 3 texts have one unit .* \(task.units=words or characters\)"):
        say_how_texts_are_read(bert.encoder, [batch], compared=True)
    say_how_texts_are_read(bert.encoder, [bert.encode(["good", "a plot"])], compared=True)


def test_a_text_is_still_a_text():
    text = UnitText("a b", ((0, 1), (2, 3)))
    assert isinstance(text, str)
    assert hash(text) == hash("a b")
