"""Words without a token, texts without white space: what is said of them, and what they leave alone."""

import logging

import pytest
import torch

import benchmark
from benchmark.models.classifier import Classifier
from tests import text_models

WITHOUT = ["\u200b", "\u00ad", "\ufeff", "\u2060", "\x01", "\u200d\u200c"]
"""Zero-width space, soft hyphen, byte order mark, word joiner, a control character, joiners."""


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return benchmark.load_model(text_models.save_bert(tmp_path_factory.mktemp("bert"), window=12), device="cpu")


@pytest.mark.parametrize("word", WITHOUT, ids=ascii)
def test_a_word_without_a_token_is_not_beyond_the_window(
    bert: Classifier, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        batch = bert.encode([f"a {word} fine film", "good film"])
    assert batch.lost_units.tolist() == [0, 0]
    assert batch.tokenless == ((1,), ())
    assert batch.units[0].tolist() == [-1, 0, 2, 3, -1]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        f"1 word has no token, since the tokenizer drops the characters, such as {word!a} of example '0'"
    )


def test_words_cut_and_words_without_a_token_in_texts_and_pairs(bert: Classifier) -> None:
    batch = bert.encode(["good \u200b " + "film " * 12 + "\u200b", ["\u00ad", "a"]])
    assert batch.tokenless == ((1, 14), (0,))
    assert batch.lost_units.tolist() == [3, 0]
    assert batch.seen_units.tolist() == [10, 1]
    assert batch.select([1]).tokenless == ((0,),)
    pair = bert.encode([("a \u200b film", "good \u00ad")])
    assert pair.tokenless == ((1, 4),)
    assert pair.lost_units.tolist() == [0]


def test_they_leave_coverage_and_truncation_alone(bert: Classifier) -> None:
    texts = ["a \u200b fine film", "\u200b", "the \u00ad plot was bad"]
    marks = [[0, 1, 1, 0], [1], [0, 0, 1, 0, 1]]
    found = benchmark.evaluate(bert, texts, methods=["position"], evaluations=["rationale"], rationales=marks)
    figures = found.table().set_index("metric").value
    assert figures["coverage"] == 1
    assert figures["truncated_rationale_share"] == 0


def test_a_text_of_nothing_else_is_named(bert: Classifier, caplog: pytest.LogCaptureFixture) -> None:
    table = benchmark.explain(bert, ["a film", "\u200b \ufeff"], methods=["raw_attention"]).table()
    assert table.raw_attention.notna().tolist() == [True, True, False, False]
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("1 text has no word with a token ('1'), and no score") for line in said)


@pytest.mark.parametrize("text", ["ภาพยนตร์เรื่องนี้ดีมาก", ["好", "这部电影非常好看我很喜欢"], "film"])
def test_texts_of_one_unit_are_named(bert: Classifier, text: str | list[str], caplog: pytest.LogCaptureFixture) -> None:
    """The whole Thai sentence is one token of this tokenizer, its unknown one; words of a list are taken as they are."""
    bert.encode(["a fine film", text])
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("texts of one unit, or with units as long as sentences") for line in said)
    assert any("1 of 2 (examples '1')" in line for line in said)


def test_words_of_such_scripts_that_are_split_are_no_matter(bert: Classifier, caplog: pytest.LogCaptureFixture) -> None:
    bert.encode(
        [
            ["这部", "电影", "非常", "好看"],
            "这部电影非常好看我很喜欢",
            "この映画はとても",
            "영화가 아주 좋았습니다",
            "internationalization was fine",
        ]
    )
    assert "texts of one unit" not in caplog.text
    assert torch.equal(bert.encode(["a film"]).units, torch.tensor([[-1, 0, 1, -1]]))
