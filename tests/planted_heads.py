"""A BERT whose heads are set by hand: each attends to what its rule says, and nothing else happens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WINDOW = 48
KINDS = 16
_SIZE = WINDOW + KINDS  # of a head: a place for each position and for each kind of word
_SHARP = 30.0
SEP_KIND, CLS_KIND, WORD_KIND = 0, 1, 2


@dataclass(frozen=True)
class Offset:
    """Every token attends to the one that stands `steps` after it."""

    steps: int

    def query(self) -> Tensor:
        return _matrix({(p + self.steps, p) for p in range(WINDOW)})


@dataclass(frozen=True)
class ToKind:
    """Tokens of some kinds (None: of all) attend to those of a kind."""

    kind: int
    of: Sequence[int] | None = None

    def query(self) -> Tensor:
        kinds = range(KINDS) if self.of is None else self.of
        return _matrix({(WINDOW + self.kind, WINDOW + kind) for kind in kinds})


@dataclass(frozen=True)
class ToPosition:
    """Tokens of a kind attend to a position, [CLS] being 0."""

    position: int
    of: int

    def query(self) -> Tensor:
        return _matrix({(self.position, WINDOW + self.of)})


@dataclass(frozen=True)
class Nowhere:
    """Every token attends to all tokens alike."""

    def query(self) -> Tensor:
        return _matrix(set())


Rule = Offset | ToKind | ToPosition | Nowhere


def _matrix(entries: set[tuple[int, int]]) -> Tensor:
    matrix = torch.zeros(_SIZE, _SIZE)
    for row, column in entries:
        if 0 <= row < _SIZE:
            matrix[row, column] = 1
    return matrix


def save_planted_heads(
    folder: Path, words: Mapping[str, int], rules: Sequence[Sequence[Rule]], labels: Sequence[str] = ("bad", "good")
) -> Path:
    """Write the checkpoint.

    Args:
        folder: where.
        words: the vocabulary, each word (or piece, "##ly") with its kind from `WORD_KIND` on.
        rules: of the heads of each layer; all layers have as many.
        labels: of the classes; the head is random.
    """
    vocabulary = [*SPECIAL, *words]
    heads = len(rules[0])
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=heads * _SIZE, num_hidden_layers=len(rules), num_attention_heads=heads,
        intermediate_size=8, max_position_embeddings=WINDOW, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(labels)), label2id={label: index for index, label in enumerate(labels)},
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    kinds = {"[SEP]": SEP_KIND, "[CLS]": CLS_KIND, **words}
    with torch.no_grad():
        embeddings = model.bert.embeddings
        for table in (embeddings.word_embeddings, embeddings.position_embeddings, embeddings.token_type_embeddings):
            table.weight.zero_()
        embeddings.position_embeddings.weight[:, :WINDOW] = torch.eye(WINDOW)
        for place, word in enumerate(vocabulary):
            embeddings.word_embeddings.weight[place, WINDOW + kinds.get(word, KINDS - 1)] = 1
        for layer, of_layer in zip(model.bert.encoder.layer, rules, strict=True):
            attention = layer.attention.self
            for linear in (attention.query, attention.key, attention.value, layer.attention.output.dense):
                linear.weight.zero_()
                linear.bias.zero_()
            layer.output.dense.weight.zero_()
            layer.output.dense.bias.zero_()
            for head, rule in enumerate(of_layer):
                rows = slice(head * _SIZE, (head + 1) * _SIZE)
                attention.query.weight[rows, :_SIZE] = _SHARP * rule.query()
                attention.key.weight[rows, :_SIZE] = torch.eye(_SIZE)
    model.save_pretrained(folder)
    _tokenizer(vocabulary).save_pretrained(folder)
    return folder


def _tokenizer(vocabulary: Sequence[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=WINDOW,
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL},
    )  # fmt: skip
