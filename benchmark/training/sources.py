"""Where a comparison's model comes from: the options of the configuration group `model`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol, runtime_checkable

from benchmark.settings.declared import AtLeast, Count, Form
from benchmark.settings.early import Checkpoint
from benchmark.types import Task

Dtype = Literal["float32", "float64", "bfloat16", "float16"]
Device = Annotated[str, Form(r"auto|(cpu|cuda|mps|xpu)(:\d+)?", "auto, cpu, cuda, cuda:1, ...")]
"""Whether a machine has it is known once torch is there."""

Window = Annotated[int, AtLeast(8)]
"""Tokens: room for the special tokens of a pair and for some words."""


@runtime_checkable
class Source(Protocol):
    """Gives a checkpoint for a task; trains it where that is what it is for."""

    def resolve(self, task: Task) -> str:
        """Directory or hub id of the checkpoint."""


@dataclass(frozen=True)
class Shape:
    """Of an encoder; `vocabulary` is the most entries that its tokenizer can have, None for images."""

    layers: int
    heads: int
    vocabulary: int | None


@runtime_checkable
class Foretold(Protocol):
    """A source that knows the shape of what it trains before it does."""

    @property
    def shape(self) -> Shape:
        """Of the model that `resolve` gives."""


@dataclass(frozen=True)
class HubOrDirectory:
    """A checkpoint that is there: a directory, or a model of the Hugging Face hub (`model.path=`).

    `labels` are names of its classes in the order of its outputs, in place of those in its `config.json`.
    """

    path: Annotated[str, Checkpoint()]
    dtype: Dtype = "float32"
    device: Device = "auto"
    threads: Count | None = None
    window: Window | None = None
    max_tokens: Count | None = None
    memory_budget: Count | None = None
    labels: Sequence[str | int | float | bool] | None = None

    def resolve(self, task: Task) -> str:
        """The checkpoint itself."""
        return self.path


@dataclass(frozen=True)
class Encoder(HubOrDirectory):
    """The encoder of a checkpoint that is there (`model.path=`), with zeros in place of a classifier.

    For analyses of attention and of hidden states, which no classifier is needed for. Its classes are named by
    `config.json` or by `labels`, and it predicts none.
    """

    head: ClassVar[Literal["zero"]] = "zero"
