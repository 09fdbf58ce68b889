"""What a trainer needs of a base model and a task: a new classifier, encoded examples, and what encodes them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig

from benchmark.models.weights import from_source, load_weights
from benchmark.types import Task


@dataclass(frozen=True)
class Prepared:
    """A base model and a task, ready for transformers' trainer.

    Attributes:
        model: of transformers, with a classifier for the task's labels.
        encoder: its tokenizer or image processor, which is saved beside it.
        train, validation: mappings of model inputs and `labels`.
        collate: makes a batch of some of them.
    """

    model: Any
    encoder: Any
    train: Any
    validation: Any
    collate: Callable[[Any], Any]


def config_for(task: Task, source: str) -> Any:
    """The configuration of a base with the task's classes, one for each example, whatever the base was trained for."""
    config = from_source(
        AutoConfig,
        source,
        num_labels=len(task.labels),
        id2label=dict(enumerate(task.labels)),
        label2id={label: index for index, label in enumerate(task.labels)},
    )
    if getattr(config, "problem_type", None) is not None:
        config.problem_type = "single_label_classification"
    return config


def new_classifier(auto: Any, source: str, config: Any, seed: int) -> Any:
    """The base in float32, with a classifier that is drawn by the seed where the base has none of this size."""
    torch.manual_seed(seed)
    return load_weights(auto, source, fresh_head=True, config=config, dtype=torch.float32)
