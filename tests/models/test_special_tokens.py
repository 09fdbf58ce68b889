"""Special tokens that a model was trained with stay one token in a text; the tokenizer's own are text there."""

import logging
from pathlib import Path

import pytest
import torch
from transformers import AddedToken, AutoModelForSequenceClassification, AutoTokenizer

import benchmark
from benchmark.models.classifier import Classifier
from benchmark.types import Example
from tests import text_models

TEXTS = ["the <e1> film </e1> was good", "the<e1>plot</e1>was @USER bad", "a <|x|> b @USER", "<e1> </e1> good"]


def with_added_tokens(folder: Path) -> Path:
    """A checkpoint with markers in its vocabulary: special ones, named in the configuration or not, and one that is none."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"extra_special_tokens": ["<e1>", AddedToken("</e1>", lstrip=True, special=True)]})
    tokenizer.add_tokens(["<|x|>"], special_tokens=True)
    tokenizer.add_tokens(["@USER"])
    tokenizer.save_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.config.pad_token_id = tokenizer.pad_token_id or 0
    model.save_pretrained(folder)
    return folder


@pytest.fixture(
    params=[text_models.save_bert, text_models.save_gpt2, text_models.save_bart], ids=["bert", "gpt2", "bart"]
)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return with_added_tokens(request.param(tmp_path / "model"))


def logits(folder: Path, text: str) -> torch.Tensor:
    """What transformers says of the text."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        found: torch.Tensor = model.eval()(**tokenizer(text, return_tensors="pt")).logits
    return found


@pytest.mark.parametrize("given", ["folder", "objects"])
def test_logits_are_those_of_transformers(folder: Path, given: str) -> None:
    if given == "folder":
        model = benchmark.load_model(folder, device="cpu")
    else:
        loaded = AutoModelForSequenceClassification.from_pretrained(folder)
        model = benchmark.load_model(loaded, tokenizer=AutoTokenizer.from_pretrained(folder), device="cpu")
    for text in TEXTS:
        torch.testing.assert_close(model.run(model.encode([text])).logits, logits(folder, text), atol=1e-6, rtol=0)


def words(model: Classifier, text: str) -> list[tuple[str, int]]:
    """Tokens of the words of a text, with their word."""
    batch = model.encode([text])
    tokens = model.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][0])
    return [(token, unit) for token, unit in zip(tokens, batch.units[0].tolist(), strict=True) if unit >= 0]


def test_a_marker_is_a_word_or_a_part_of_one_and_the_own_tokens_are_text(tmp_path: Path) -> None:
    model = benchmark.load_model(with_added_tokens(text_models.save_bert(tmp_path)), device="cpu")
    assert words(model, "the <e1> film</e1> [SEP] @USER") == [
        ("the", 0), ("<e1>", 1), ("film", 2), ("</e1>", 2), ("[UNK]", 3), ("[UNK]", 3), ("[UNK]", 3), ("@user", 4),
    ]  # fmt: skip
    ids = model.encode(["the <e1> film"]).tensors["input_ids"][0]
    assert model.encode([{"input_ids": ids}]).n_units.tolist() == [3]


def test_scores_and_removal_of_markers(tmp_path: Path) -> None:
    model = benchmark.load_model(with_added_tokens(text_models.save_bert(tmp_path)), device="cpu")
    table = benchmark.explain(model, TEXTS[0], methods=["raw_attention", "occlusion"]).table()
    assert table.index.get_level_values("word").tolist() == TEXTS[0].split()
    assert table.notna().all(axis=None)
    marks = [[0, 1, 0, 1, 0, 0]]
    found = benchmark.evaluate(
        model, TEXTS[:1], methods=["oracle"], evaluations=["rationale", "aopc"], rationales=marks
    ).table()
    assert found.set_index("metric").value["coverage"] == 1


def test_what_was_done_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = benchmark.load_model(with_added_tokens(text_models.save_bert(tmp_path)), device="cpu")
    with caplog.at_level(logging.INFO):
        model.encode([*TEXTS, "good [SEP] film", "[SEP] bad [CLS]"])
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if "stays one token" in line] == [
        "tokens that were added to the vocabulary stand in the texts 9 times ('<e1>', '</e1>', '@USER', ...): each stays "
        "one token, and is a word or a part of one"
    ]
    (spelled,) = [line for line in said if "spell" in line]
    assert spelled.startswith(
        "2 texts spell a special token of the tokenizer ('[SEP]', '[CLS]'), which is read as text"
    )


def test_examples_of_a_task_are_read_likewise(tmp_path: Path) -> None:
    model = benchmark.load_model(with_added_tokens(text_models.save_bert(tmp_path)), device="cpu")
    batch = model.encode_examples([Example("a", TEXTS[0], 0)], [0, 1])
    assert torch.equal(batch.tensors["input_ids"], model.encode([TEXTS[0]]).tensors["input_ids"])
