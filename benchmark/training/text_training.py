"""Fine-tuning text classifiers: texts and pairs, truncated as the comparison truncates them."""

import copy
from collections.abc import Sequence
from typing import Any

from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

from benchmark.errors import UserError
from benchmark.models.loading import NO_LIMIT
from benchmark.models.special_tokens import read_as_words
from benchmark.models.weights import from_source
from benchmark.training.frozen import freeze_before, last_frozen
from benchmark.training.prepared import Prepared, new_classifier
from benchmark.training.texts import texts_of
from benchmark.types import Example, Task


def prepare_texts(task: Task, source: str, config: Any, seed: int, max_length: int | None, freeze: int) -> Prepared:
    """A text classifier and the task's texts, truncated to its window or to `max_length`.

    With `freeze`, so many blocks and all that comes before them are left as they are; they still run, with dropout.

    Raises:
        UserError: the base has no tokenizer or fewer blocks, or an example holds no text.
    """
    model = new_classifier(AutoModelForSequenceClassification, source, config, seed)
    tokenizer = from_source(AutoTokenizer, source)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # transformers makes an empty one where no file is found
        raise UserError(f"model.path={source} has no tokenizer; fine-tuning needs a base with its tokenizer files")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    window = max_length or min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", 512))
    train, validation = (
        _encode(tokenizer, task.split(split), min(window, NO_LIMIT)) for split in ("train", "validation")
    )
    collate = DataCollatorWithPadding(tokenizer)
    if freeze:
        inputs = {name: tensor for name, tensor in collate(train[:1]).items() if name != "labels"}
        freeze_before(model, last_frozen(model, source, freeze), inputs)
    return Prepared(model, tokenizer, train, validation, collate)


def _encode(tokenizer: Any, examples: Sequence[Example], max_length: int) -> list[dict[str, Any]]:
    """Token ids and label of each example, truncated as the comparison truncates."""
    texts = [texts_of(example) for example in examples]
    if len({len(parts) for parts in texts}) != 1:
        raise UserError("the task mixes single texts and pairs, which one model cannot be trained on")
    encoded = read_as_words(copy.deepcopy(tokenizer))(
        *map(list, zip(*texts, strict=True)),
        truncation="longest_first",
        max_length=max_length,
    )
    return [
        {**{name: encoded[name][row] for name in encoded}, "labels": example.label}
        for row, example in enumerate(examples)
    ]
