"""Where a comparison's model comes from: the options of the configuration group `model`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, Protocol, runtime_checkable

from benchmark.settings.declared import AtLeast, Count, Form
from benchmark.settings.early import Checkpoint
from benchmark.settings.identity import identity
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


@runtime_checkable
class LearnsHidden(Protocol):
    """A source that trains on a task's examples with what they hide (`Example.hidden`), and has a seed."""

    learns_hidden: ClassVar[Literal[True]]

    seed: int


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


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How a comparison loads and runs the checkpoint of a source; every source of `conf/model` has these settings.

    Attributes:
        dtype: precision in which the model computes; what is trained on first use is trained in float32.
        device: where the model computes; `auto` is a GPU where there is one.
        threads: of the process; null for as many as there are.
        window: tokens that texts are cut to; null for as many as the model can read.
        max_tokens: tokens of one forward pass of many variants of the examples; null for what suits the device.
        memory_budget: bytes that a method may let attention-sized tensors take at once; null for what suits the device.
    """

    dtype: Dtype = "float32"
    device: Device = "auto"
    threads: Count | None = None
    window: Window | None = None
    max_tokens: Count | None = None
    memory_budget: Count | None = None

    def of_weights(self, *, but: str = "") -> dict[str, Any]:
        """Identities of the settings that trained weights may depend on, by name: of all but those of `_RUNNING`.

        Args:
            but: one more that is left out.
        """
        left_out = {*_RUNNING, but}
        return {part.name: identity(getattr(self, part.name)) for part in fields(self) if part.name not in left_out}


LOADING = tuple(part.name for part in fields(Loading))
"""Settings that say how a comparison loads and runs a model."""

_RUNNING = tuple(name for name in LOADING if name != "window")
"""Those that no weight depends on. The window stays: it cuts the texts that a model is trained on."""


def load_arguments(source: Any) -> dict[str, Any]:
    """The settings of a source that `load_model` takes, by name; threads are set for the whole process."""
    return {name: getattr(source, name) for name in LOADING if name != "threads"}


@dataclass(frozen=True)
class HubOrDirectory(Loading):
    """A checkpoint that is there: a directory, or a model of the Hugging Face hub (`model.path=`).

    `labels` are names of its classes in the order of its outputs, in place of those in its `config.json`.
    """

    path: Annotated[str, Checkpoint()]
    labels: Sequence[str | int | float | bool] | None = None

    def resolve(self, task: Task) -> str:
        """The checkpoint itself."""
        return self.path


@dataclass(frozen=True)
class LanguageModel(HubOrDirectory):
    """A causal language model that is there (`model.path=`), asked for the next token.

    Its classes are the candidates of each example, as `task=prompts` gives them; `labels` says what they are called, or with
    `vocabulary` that they are all tokens, or with `continuation` that the answer may have several.
    `gguf_file` is a file of the folder, or of the hub's repository, that holds tokenizer and quantised weights; they are
    computed with in `dtype`.
    """

    answers: ClassVar[Literal["next_token"]] = "next_token"

    gguf_file: str | None = None
    chat: bool = False
    labels: Sequence[str | int | float | bool] | Literal["vocabulary", "continuation"] | None = None


@dataclass(frozen=True)
class Encoder(HubOrDirectory):
    """The encoder of a checkpoint that is there (`model.path=`), with zeros in place of a classifier.

    For analyses of attention and of hidden states, which no classifier is needed for. Its classes are named by
    `config.json` or by `labels`, and it predicts none.
    """

    head: ClassVar[Literal["zero"]] = "zero"
