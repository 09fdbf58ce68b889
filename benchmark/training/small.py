"""What the small models of the default tasks share: they are trained from scratch on first use, then cached."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark import progress
from benchmark.errors import NoSplit, UserError
from benchmark.models.checkpoints import quiet_transformers
from benchmark.settings.declared import Above, AtLeast, Count, Natural, Share
from benchmark.training.cached import checkpoint_directory, is_whole, trained_once, write_record
from benchmark.training.sources import Loading
from benchmark.training.trainer import descend, with_threads
from benchmark.types import Example, Task

logger = logging.getLogger(__name__)

AT_ONCE = 64
"""Examples that are encoded or classified at once."""


@dataclass(frozen=True, kw_only=True)
class Small(Loading, ABC):
    """A classifier trained on the task's training split, in float32 on the CPU with AdamW, linear warm-up and decay.

    The same settings give the same weights on the same machine. The random state of the process is left as it was. The
    checkpoint is an ordinary directory in the cache, under a digest of task and settings; `training.json` beside the weights
    holds accuracies, seconds and settings.

    Attributes:
        seed: of the weights, the order of examples and what is hidden in training.
        layers, heads, hidden, intermediate: shape of the encoder.
        steps, batch_size, learning_rate, weight_decay: the training.
        mask_share: largest share of tokens (patches) hidden in training.
    """

    kind: ClassVar[str]
    """Of the model, in the cache."""

    what: ClassVar[str]
    """What is trained, for those who wait."""

    training_version: ClassVar[int] = 1
    """Enters the cache's key: a kind raises it when its training changes."""

    seed: Natural = 0
    layers: Count
    heads: Count = 4
    hidden: Count = 64
    intermediate: Count = 128
    steps: Count
    batch_size: Count = 32
    learning_rate: Annotated[float, Above(0)]
    weight_decay: Annotated[float, AtLeast(0)]
    mask_share: Share = 0.15
    threads: Count | None = 1

    @abstractmethod
    def _new_encoder(self, train: Sequence[Example]) -> Any:
        """What makes inputs of examples: a tokenizer or an image processor."""

    @abstractmethod
    def _new_model(self, labels: Sequence[str], encoder: Any) -> Any:
        """A model of transformers with its first weights, drawn from torch's generator."""

    @abstractmethod
    def _encoded(self, encoder: Any, examples: Sequence[Example]) -> Any:
        """The inputs of all examples; UserError where one is of another kind."""

    @abstractmethod
    def _optimizer(self, model: Any) -> torch.optim.Optimizer:
        """AdamW, with the peaks of its learning rates."""

    @abstractmethod
    def _losses(self, model: Any, inputs: Any, labels: Int[Tensor, "N"]) -> Iterator[Float[Tensor, ""]]:
        """The loss of one batch after another, without end."""

    @abstractmethod
    def _predicted(self, model: Any, inputs: Any) -> Int[Tensor, "N"]:
        """The class that the model gives each example."""

    def _kept(self, encoder: Any) -> Any:
        """The encoder as transformers writes it beside the weights."""
        return encoder

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint for a task; trains it on one thread where the cache has none.

        Raises:
            UserError: the task has examples of another kind, or fewer than two labels.
        """
        covered = [self.training_version, task.fingerprint, list(task.labels), self.of_weights()]
        directory = checkpoint_directory(self.kind, covered)
        if len(task.labels) < 2 and not is_whole(directory):
            raise UserError(f"task {task.name} has the labels {list(task.labels)}; a classifier needs at least two")

        def train(temporary: Path) -> None:
            with with_threads(1):
                torch.manual_seed(self.seed)
                self._train(task, temporary)

        return trained_once(directory, self.what, train)

    def _train(self, task: Task, directory: Path) -> None:
        """Train on the task's training split; write the checkpoint, its encoder and `training.json`."""
        train = self._training_examples(task)
        encoder = self._new_encoder(getattr(task, "spelled_as", task).split("train"))
        model = self._new_model(task.labels, encoder)
        inputs = self._encoded(encoder, train)
        started = time.monotonic()
        self._fit(model, inputs, _labels(train))
        seconds = time.monotonic() - started
        accuracies = {}
        for split in ("validation", "test"):
            with suppress(NoSplit):
                accuracies[split] = self._accuracy(model, encoder, task.split(split))
        told = ", ".join(f"{100 * accuracy:.1f} % {split} accuracy" for split, accuracy in [*accuracies.items()][-1:])
        logger.info("%s was trained in %s: %s", self.what, progress.duration(seconds), told)
        with quiet_transformers():
            model.save_pretrained(directory)
        facts = {"accuracy": accuracies, "seconds": round(seconds, 1), "examples": len(train)}
        write_record(directory, {**facts, "settings": self.of_weights()})
        self._kept(encoder).save_pretrained(directory)

    def _training_examples(self, task: Task) -> Sequence[Example]:
        """The training split; UserError where there is none, or examples are of another kind, which is told first."""
        try:
            return task.split("train")
        except NoSplit as error:
            for split in ("validation", "test"):
                with suppress(NoSplit):
                    examples = task.split(split)[:1]
                    self._encoded(self._new_encoder(examples), examples)
            name = self.kind.replace("-", "_")
            raise NoSplit(f"model={name} is trained on the task's training split, and {error.lacking}") from error

    def _fit(self, model: Any, inputs: Any, labels: Int[Tensor, "N"]) -> None:
        logger.info("training %s, once for this task: %d steps", self.what, self.steps)
        model.train()
        losses = self._losses(model, inputs, labels)

        def learn(_: int) -> None:
            torch.autograd.backward(next(losses))

        descend(model, self._optimizer(model), self.steps, learn, f"training {self.what}")
        model.eval()

    def _accuracy(self, model: Any, encoder: Any, examples: Sequence[Example]) -> float:
        inputs = self._encoded(encoder, examples)
        with torch.no_grad():
            correct = self._predicted(model, inputs) == _labels(examples)
        return int(correct.sum()) / len(examples)

    def _config(self, labels: Sequence[str]) -> dict[str, Any]:
        """Shape and classes, as configurations of transformers name them; nothing is dropped out."""
        return {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": self.intermediate,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "id2label": dict(enumerate(labels)),
            "label2id": {label: index for index, label in enumerate(labels)},
        }


def _labels(examples: Sequence[Example]) -> Int[Tensor, "N"]:
    return torch.tensor([example.label for example in examples])
