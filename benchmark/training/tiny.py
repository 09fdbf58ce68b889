"""The small model of a default task: a BERT trained from scratch for a task on first use, then cached."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.settings.declared import Above, AtLeast, Count, SettingError, configurable
from benchmark.training.small import AT_ONCE, Small
from benchmark.training.sources import Shape
from benchmark.training.trainer import adamw, masked, passes, texts_of, with_hidden
from benchmark.types import Example

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EncodedText = tuple[list[int], list[int]]
"""Token ids and segment ids of an example."""

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PAD, _MASK = 0, 4

_OFFSETS = (1, 2, 3, 5)  # tokens back: a word's pieces, and the negator or intensifier before it
_LONGEST_WAVE = 300.0  # in units of a token / 2π
_POSITION_SCALE = 2.0  # positions louder than words, relative to the spread of the word embeddings
_SHARPNESS = 1.5


@configurable
class TinyModel(Small):
    """A `BertForSequenceClassification` and a lower-casing WordPiece tokenizer, both trained on the task's training split.

    Trained in float32 on the CPU with AdamW, linear warm-up and decay; the same settings give the same weights on the
    same machine. It learns from labels alone, never from rationales, so that no explainer is favoured. In half of the
    examples of a batch, [MASK] replaces a share of the tokens that is drawn from [0, mask_share]: the model has then seen
    the token that the perturbation tests put in. The random state of the process is left as it was.

    The checkpoint is an ordinary directory in the cache, under a digest of task and settings; `training.json` beside the
    weights holds accuracies, seconds and settings.

    Attributes:
        vocab_size: entries of the WordPiece vocabulary; a small one splits words.
        max_length: window in tokens.
        embedding_learning_rate: of the word embeddings, whose gradients are sparse.
    """

    kind: ClassVar[str] = "tiny"
    learns_hidden: ClassVar[Literal[True]] = True
    what: ClassVar[str] = "the tiny model"

    layers: Count = 4
    vocab_size: Count = 700
    max_length: Count = 256
    steps: Count = 700
    learning_rate: Annotated[float, Above(0)] = 1e-3
    embedding_learning_rate: Annotated[float, Above(0)] = 5e-3
    weight_decay: Annotated[float, AtLeast(0)] = 0.01

    def __post_init__(self) -> None:
        if self.hidden % (2 * self.heads):
            raise SettingError("hidden", self.hidden, f"multiples of 2 × heads={self.heads}")

    @property
    def shape(self) -> Shape:
        """Of the model, before it is trained."""
        return Shape(self.layers, self.heads, self.vocab_size)

    def _new_encoder(self, train: Sequence[Example]) -> "Tokenizer":
        return _train_tokenizer([" ".join(texts_of(example)) for example in train], self.vocab_size, self.max_length)

    def _new_model(self, labels: Sequence[str], encoder: "Tokenizer") -> Any:
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=encoder.get_vocab_size(),
            max_position_embeddings=self.max_length,
            initializer_range=0.05,
            **self._config(labels),
        )
        model = BertForSequenceClassification(config)
        model.set_attn_implementation("sdpa")
        look_nearby(model.bert, layers=min(2, self.layers))
        return model

    def _encoded(self, encoder: "Tokenizer", examples: Sequence[Example]) -> list[EncodedText]:
        """Token ids and segment ids of each example."""
        texts: list[Any] = [parts[0] if len(parts) == 1 else parts for parts in map(texts_of, examples)]
        found = encoder.encode_batch(texts)
        tokenizer = self._wrapped(encoder) if any(example.hidden is not None for example in examples) else None
        return [
            (with_hidden(one.ids, one.sequence_ids, one.offsets, example, tokenizer), one.type_ids)
            for one, example in zip(found, examples, strict=True)
        ]

    def _optimizer(self, model: Any) -> torch.optim.Optimizer:
        return adamw(model, self.learning_rate, self.embedding_learning_rate, self.weight_decay)

    def _losses(
        self, model: Any, inputs: Sequence[EncodedText], labels: Int[Tensor, "N"]
    ) -> Iterator[Float[Tensor, ""]]:
        for rows in passes([len(ids) for ids, _ in inputs], self.batch_size):
            tensors = _pad([inputs[row] for row in rows])
            ids = tensors["input_ids"]
            tensors["input_ids"] = masked(ids, ids >= len(_SPECIAL), _MASK, self.mask_share)
            yield model(**tensors, labels=labels[rows]).loss

    def _predicted(self, model: Any, inputs: Sequence[EncodedText]) -> Int[Tensor, "N"]:
        order = sorted(range(len(inputs)), key=lambda row: len(inputs[row][0]))
        predicted = torch.empty(len(order), dtype=torch.long)
        for start in range(0, len(order), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            predicted[rows] = model(**_pad([inputs[row] for row in rows])).logits.argmax(1)
        return predicted

    def _kept(self, encoder: "Tokenizer") -> Any:
        encoder.no_truncation()
        return self._wrapped(encoder)

    def _wrapped(self, encoder: "Tokenizer") -> Any:
        """As transformers knows it."""
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(
            tokenizer_object=encoder,
            model_max_length=self.max_length,
            **{f"{token.strip('[]').lower()}_token": token for token in _SPECIAL},
        )


def _train_tokenizer(texts: Sequence[str], vocab_size: int, max_length: int) -> "Tokenizer":
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = _train_vocabulary(texts, vocab_size)
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", _SPECIAL.index("[CLS]")), ("[SEP]", _SPECIAL.index("[SEP]"))],
    )
    tokenizer.enable_truncation(max_length)
    return tokenizer


def _train_vocabulary(texts: Sequence[str], size: int) -> dict[str, int]:
    """Entries of a lower-case WordPiece vocabulary trained on texts, by number; it is the same in every process.

    The library's trainer numbers the pieces within words ("##a") in the order of a hash map and breaks ties between
    merges by these numbers, so that it gives another vocabulary in every process
    (https://github.com/huggingface/tokenizers/issues/1794). Here these pieces are handed to it in alphabetical order.

    Args:
        texts: the corpus.
        size: entries, special tokens included, which come first.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = {word for text in texts for word in text.split()}
    pieces = {piece for word in words for piece, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word))}
    inner = sorted({letter for piece in pieces for letter in piece[1:]})
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    first_entries = [*_SPECIAL, *(f"##{letter}" for letter in inner)]
    tokenizer.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=first_entries, show_progress=False)
    )
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return vocabulary


def _pad(encoded: Sequence[EncodedText]) -> dict[str, Tensor]:
    ids, types = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        for rows in zip(*encoded, strict=True)
    )
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": (ids != _PAD).long()}


def look_nearby(encoder: Any, layers: int) -> None:
    """Let the heads of the first layers start as windows on preceding tokens; every weight is trained afterwards.

    Position p starts as (sin ω_k p, cos ω_k p) over pairs of dimensions. A head's keys start as the pairs of the d/2
    frequencies it has room for. Its queries start as the same pairs turned back by δ tokens, so that its score is largest
    at offset −δ. From a random start, thousands of examples more are needed before a negator is tied to its word.

    Args:
        encoder: a `BertModel`; changed in place.
        layers: how many of its first layers.
    """
    config = encoder.config
    position = encoder.embeddings.position_embeddings.weight
    pairs = config.hidden_size // 2
    frequency = _LONGEST_WAVE ** (-torch.arange(pairs) / pairs)
    with torch.no_grad():
        angle = torch.arange(len(position))[:, None] * frequency
        scale = _POSITION_SCALE * config.initializer_range
        position[:, 0::2], position[:, 1::2] = scale * angle.sin(), scale * angle.cos()
        size = config.hidden_size // config.num_attention_heads
        for layer in encoder.encoder.layer[:layers]:
            attention = layer.attention.self
            for head in range(config.num_attention_heads):
                query, key = _shift(frequency[::2][: size // 2], _OFFSETS[head % len(_OFFSETS)], config.hidden_size)
                rows = slice(head * size, head * size + 2 * (size // 2))
                attention.query.weight[rows] = _SHARPNESS * query
                attention.key.weight[rows] = _SHARPNESS * key


def _shift(frequency: Float[Tensor, "K"], offset: int, width: int) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
    """Query and key projections [2K, width] whose product is largest `offset` positions back, at every other frequency."""
    query, key = torch.zeros(2 * len(frequency), width), torch.zeros(2 * len(frequency), width)
    for index, turn in enumerate((offset * frequency).tolist()):
        sine, cosine = torch.sin(torch.tensor(turn)), torch.cos(torch.tensor(turn))
        row, column = 2 * index, 4 * index
        key[row, column] = key[row + 1, column + 1] = 1
        query[row, column], query[row, column + 1] = cosine, -sine
        query[row + 1, column], query[row + 1, column + 1] = sine, cosine
    return query, key
