"""Tiny models: random ones, and one whose truth is known (it counts good and bad words)."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
    GPT2Config,
    GPT2ForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
)

from benchmark.models import load_model
from benchmark.types import Attribution, Batch
from tests.evaluations.edge_examples import FAMILIES, load, scored

GOOD, BAD = ("good", "fine", "great", "lovely"), ("bad", "dull", "awful", "poor")
FILLER = ("the", "film", "was", "a", "story", "plot", "seen", "it", "un", "##told", "##ly")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = (*SPECIAL, *GOOD, *BAD, *FILLER)

TEXTS = (
    "the film was great it was a lovely story",
    "a dull plot",
    "bad",
    "the untold story was bad bad and awful untoldly seen",
    "it was fine",
)


def spelled_probability(model, text, target):
    """The probability of a class for a text (or a pair) in which [MASK] is the mask: what a replica computes."""
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.split_special_tokens = False
    encoding = tokenizer(*(text if isinstance(text, tuple) else (text,)), return_tensors="pt")
    with torch.no_grad():
        return float(model.model(**encoding).logits[0].softmax(0)[target])


def _save_tokenizer(directory: Path) -> None:
    (directory / "vocab.txt").write_text("\n".join(VOCABULARY))
    BertTokenizerFast(str(directory / "vocab.txt"), model_max_length=64).save_pretrained(directory)


def _bert(**settings):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
        **settings,
    )
    return BertForSequenceClassification(config)


def _count_words(model: BertForSequenceClassification) -> None:
    """Weights with which the logits grow with the number of good, respectively bad, words.

    Attention is uniform, dimension 0 of a word is its polarity, and the values carry that dimension to CLS.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.zero_()
            if "LayerNorm.weight" in name:
                parameter.fill_(1.0)
        words = model.bert.embeddings.word_embeddings.weight
        generator = torch.Generator().manual_seed(0)
        words[:, 1:] = torch.randn(words[:, 1:].shape, generator=generator)
        for index, word in enumerate(VOCABULARY):
            words[index, 0] = 6.0 * ((word in GOOD) - (word in BAD))
        layer = model.bert.encoder.layer[0].attention
        layer.self.value.weight[0, 0] = 1.0
        layer.output.dense.weight[0, 0] = 1.0
        model.bert.pooler.dense.weight[0, 0] = 1.0
        model.classifier.weight[1, 0], model.classifier.weight[0, 0] = 4.0, -4.0


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A random BERT of two layers in float64."""
    directory = tmp_path_factory.mktemp("tiny")
    _bert(num_hidden_layers=2, num_labels=3).save_pretrained(directory)
    _save_tokenizer(directory)
    return load_model(directory, dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def sentiment(tmp_path_factory):
    """A BERT that counts good (label 1) and bad (label 0) words."""
    directory = tmp_path_factory.mktemp("sentiment")
    model = _bert(num_hidden_layers=1, num_labels=2)
    _count_words(model)
    model.save_pretrained(directory)
    _save_tokenizer(directory)
    return load_model(directory, dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def decoder(tmp_path_factory):
    """A random GPT-2 that takes ids: no tokenizer, hence no mask token."""
    directory = tmp_path_factory.mktemp("decoder")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=2, n_positions=32, num_labels=2, pad_token_id=0)
    GPT2ForSequenceClassification(config).save_pretrained(directory)
    return load_model(directory, dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def vision(tmp_path_factory):
    """A random ViT on images of 4 × 4 patches."""
    directory = tmp_path_factory.mktemp("vision")
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=4
    )
    config.num_labels = 3
    ViTForImageClassification(config).save_pretrained(directory)
    return load_model(directory, dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def batch(tiny) -> Batch:
    """Texts of different lengths, one of them a single word, some words of several tokens; labels in 0 … 2."""
    return tiny.encode(TEXTS, labels=[0, 1, 2, 0, -1])


@pytest.fixture(scope="session", params=FAMILIES)
def served(request, tmp_path_factory):
    """(model, batch, attribution with attention × gradient on the edges) of a family."""
    model, batch = load(request.param, tmp_path_factory.mktemp("edges"))
    return model, batch, scored(model, batch)


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    model, batch = load("bert", tmp_path_factory.mktemp("edges"))
    return model, batch, scored(model, batch)


def polarity(word: str) -> float:
    return float(word in GOOD) - float(word in BAD)


@pytest.fixture(scope="session")
def reviews(sentiment) -> Batch:
    """Forty texts of 10 to 20 words whose label is the majority polarity, with the rationale known."""
    generator = np.random.default_rng(0)
    texts, labels = [], []
    while len(texts) < 40:
        n = int(generator.integers(10, 21))
        words = generator.choice([*FILLER[:8]], size=n).tolist()
        label = int(generator.integers(2))
        own, other = (GOOD, BAD) if label else (BAD, GOOD)
        places = generator.permutation(n)[:4].tolist()
        for place in places[:3]:
            words[place] = str(generator.choice(own))
        words[places[3]] = str(generator.choice(other))
        texts.append(" ".join(words))
        labels.append(label)
    encoded = sentiment.encode(texts, labels=labels)
    rationale = tuple(
        np.array([polarity(word) == (1 if label else -1) for word in words])
        for words, label in zip(encoded.words, labels, strict=True)
    )
    return replace(encoded, rationale=rationale)


def attribution_of(batch: Batch, scores, target=None) -> Attribution:
    """Token scores from one list of unit scores per example."""
    tokens = torch.zeros(batch.units.shape, dtype=torch.float64)
    for b, row in enumerate(batch.units.tolist()):
        for t, unit in enumerate(row):
            if unit >= 0:
                tokens[b, t] = float(scores[b][unit])
    chosen = batch.label.clamp(min=0) if target is None else target
    return Attribution(target=torch.tensor(chosen) if isinstance(chosen, list) else chosen, tokens=tokens)


def planted(batch: Batch, kind: str) -> Attribution:
    """Oracle, random or inverted scores of the reviews."""
    generator = np.random.default_rng(1)
    sign = [1.0 if label else -1.0 for label in batch.label.tolist()]
    truth = [[s * polarity(word) for word in words] for s, words in zip(sign, batch.words, strict=True)]
    if kind == "random":
        return attribution_of(batch, [generator.random(len(row)) for row in truth])
    factor = 1.0 if kind == "oracle" else -1.0
    return attribution_of(batch, [[factor * value for value in row] for row in truth])


def values_of(rows, metric, x=None):
    """uid → value."""
    part = rows[rows["metric"] == metric]
    part = part[part["x"].isna()] if x is None else part[np.isclose(part["x"], x)]
    return dict(zip(part["uid"], part["value"], strict=True))


def figure_of(figures, metric, x=None):
    found = [f for f in figures if f.metric == metric and (np.isnan(f.x) if x is None else np.isclose(f.x, x))]
    assert len(found) == 1, (metric, x, len(found))
    return found[0]
