"""The small model of the embedded default: a BERT trained from scratch for a task on first use, then cached."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor

from benchmark.settings.declared import Above, AtLeast, Count, Natural, SettingError, Share, configurable
from benchmark.training.local_heads import look_nearby
from benchmark.training.optimisation import masked, one_pass
from benchmark.training.small import LOADING, descend, named_classes, save_trained, trained_for
from benchmark.training.sources import Device, Dtype, Shape, Window
from benchmark.training.texts import texts_of
from benchmark.training.wordpiece import train_vocabulary
from benchmark.types import Example, Task

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EncodedText = tuple[list[int], list[int]]
"""Token ids and segment ids of an example."""

_WHAT = "the tiny model"
_VERSION = 1  # enters the cache's key: raise it when the training changes
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PAD, _MASK = 0, 4


@configurable
class TinyModel:
    """A `BertForSequenceClassification` and a lower-casing WordPiece tokenizer, both trained on the task's training split.

    Trained in float32 on the CPU with AdamW, linear warm-up and decay; the same settings give the same weights on the
    same machine. It learns from labels alone, never from rationales, so that no explainer is favoured. In half of the
    examples of a batch, [MASK] replaces a share of the tokens that is drawn from [0, mask_share]: the model has then seen
    the token that the perturbation tests put in. The random state of the process is left as it was.

    The checkpoint is an ordinary directory in the cache, under a digest of task and settings; `training.json` beside the
    weights holds accuracies, seconds and settings.

    Attributes:
        seed: of the weights, the order of examples and the masks.
        layers, heads, hidden, intermediate: shape of the encoder.
        vocab_size: entries of the WordPiece vocabulary; a small one splits words.
        max_length: window in tokens.
        steps, batch_size, learning_rate, weight_decay: the training.
        embedding_learning_rate: of the word embeddings, whose gradients are sparse.
        mask_share: largest share of tokens masked in training.
        dtype, device, threads, window, max_tokens, memory_budget: how the comparison loads and runs it.
    """

    seed: Natural = 0
    layers: Count = 4
    heads: Count = 4
    hidden: Count = 64
    intermediate: Count = 128
    vocab_size: Count = 700
    max_length: Count = 256
    steps: Count = 700
    batch_size: Count = 32
    learning_rate: Annotated[float, Above(0)] = 1e-3
    embedding_learning_rate: Annotated[float, Above(0)] = 5e-3
    weight_decay: Annotated[float, AtLeast(0)] = 0.01
    mask_share: Share = 0.15
    dtype: Dtype = "float32"
    device: Device = "auto"
    threads: Count | None = 1
    window: Window | None = None
    max_tokens: Count | None = None
    memory_budget: Count | None = None

    def __post_init__(self) -> None:
        if self.hidden % (2 * self.heads):
            raise SettingError("hidden", self.hidden, f"multiples of 2 × heads={self.heads}")

    @property
    def shape(self) -> Shape:
        """Of the model, before it is trained."""
        return Shape(self.layers, self.heads, self.vocab_size)

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint for a task; trains it where the cache has none.

        Raises:
            UserError: the task has no texts, or fewer than two labels.
        """
        settings = {name: value for name, value in asdict(self).items() if name not in LOADING}
        return trained_for(task, "tiny", _VERSION, settings, lambda folder: self._train(task, settings, folder), _WHAT)

    def _train(self, task: Task, settings: dict[str, Any], directory: Path) -> None:
        """Train on the task's training split and write checkpoint, tokenizer and `training.json`."""
        train = task.split("train")
        tokenizer = _train_tokenizer(
            [" ".join(texts_of(example)) for example in train], self.vocab_size, self.max_length
        )
        model = self._new_model(task.labels, tokenizer.get_vocab_size())
        started = time.monotonic()
        self._fit(model, _encode(tokenizer, train), torch.tensor([example.label for example in train]))

        def accuracy(split: str) -> float:
            examples = task.split(split)
            return _accuracy(model, _encode(tokenizer, examples), [example.label for example in examples])

        record = {"examples": len(train), "settings": settings}
        save_trained(model, directory, _WHAT, started=started, accuracy=accuracy, record=record)
        _as_pretrained(tokenizer, self.max_length).save_pretrained(directory)

    def _new_model(self, labels: Sequence[str], vocabulary: int) -> Any:
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=vocabulary,
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.intermediate,
            max_position_embeddings=self.max_length,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=0.05,
            **named_classes(labels),
        )
        model = BertForSequenceClassification(config)
        model.set_attn_implementation("sdpa")
        look_nearby(model.bert, layers=min(2, self.layers))
        return model

    def _fit(self, model: Any, encoded: Sequence[EncodedText], labels: Tensor) -> None:
        embeddings = model.bert.embeddings.word_embeddings.weight
        others = [parameter for parameter in model.parameters() if parameter is not embeddings]
        groups: list[dict[str, Any]] = [
            {"params": [embeddings], "lr": self.embedding_learning_rate},
            {"params": others},
        ]
        optimizer = torch.optim.AdamW(groups, self.learning_rate, (0.9, 0.98), weight_decay=self.weight_decay)
        batches = _batches([len(ids) for ids, _ in encoded], self.batch_size)

        def loss() -> Tensor:
            rows = next(batches)
            tensors = _pad([encoded[row] for row in rows])
            ids = tensors["input_ids"]
            tensors["input_ids"] = masked(ids, ids >= len(_SPECIAL), _MASK, self.mask_share)
            found: Tensor = model(**tensors, labels=labels[rows]).loss
            return found

        descend(model, optimizer, self.steps, loss, _WHAT)


def _train_tokenizer(texts: Sequence[str], vocab_size: int, max_length: int) -> "Tokenizer":
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = train_vocabulary(texts, vocab_size, _SPECIAL)
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


def _as_pretrained(tokenizer: "Tokenizer", max_length: int) -> Any:
    from transformers import PreTrainedTokenizerFast

    tokenizer.no_truncation()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        **{f"{token.strip('[]').lower()}_token": token for token in _SPECIAL},
    )


def _encode(tokenizer: "Tokenizer", examples: Sequence[Example]) -> list[EncodedText]:
    """Token ids and segment ids of each example."""
    texts: list[Any] = [parts[0] if len(parts) == 1 else parts for parts in map(texts_of, examples)]
    return [(encoding.ids, encoding.type_ids) for encoding in tokenizer.encode_batch(texts)]


def _pad(encoded: Sequence[EncodedText]) -> dict[str, Tensor]:
    ids, types = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        for rows in zip(*encoded, strict=True)
    )
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": (ids != _PAD).long()}


def _batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Endless passes over the examples in random order, examples of similar length together."""
    while True:
        yield from one_pass(lengths, batch_size)


def _accuracy(model: Any, encoded: Sequence[EncodedText], labels: Sequence[int]) -> float:
    order = sorted(range(len(encoded)), key=lambda row: len(encoded[row][0]))
    correct = 0
    with torch.no_grad():
        for start in range(0, len(order), 64):
            rows = order[start : start + 64]
            predicted = model(**_pad([encoded[row] for row in rows])).logits.argmax(dim=1)
            correct += sum(int(predicted[i]) == labels[row] for i, row in enumerate(rows))
    return correct / len(order)
