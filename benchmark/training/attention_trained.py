"""A model source whose checkpoint is another source's, trained on with attention in the loss; cached by content."""

import logging
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from benchmark import progress
from benchmark.errors import NoSplit
from benchmark.models import AttentionEdit, Classifier, load_model
from benchmark.models.checkpoints import quiet_transformers
from benchmark.models.label_matching import with_labels
from benchmark.settings.declared import Count, configurable
from benchmark.settings.identity import identity
from benchmark.training.attended import Course, Lesson, Objective, finished, fit, trainable
from benchmark.training.cached import checkpoint_directory, discard_foreign, is_whole, trained_once, write_record
from benchmark.training.optimisation import with_threads
from benchmark.training.sources import Device, Dtype, Source, Window
from benchmark.training.starts import Start
from benchmark.training.tiny import TinyModel
from benchmark.types import Example, Task

logger = logging.getLogger(__name__)

_LOADING = ("dtype", "device", "threads", "max_tokens", "memory_budget")
_SCORED = 32  # examples of one pass when accuracy is measured


@configurable
class AttentionTrained(ABC):
    """What sources trained with attention in the loss share.

    The checkpoint is an ordinary directory in the cache under a digest of the task, the base model and the settings. It has
    the base's tokenizer and label names, and `training.json`: accuracies, seconds, settings, and the base's fingerprint.
    Until it is finished its state lies beside it, and after a kill the same call goes on from there to the same weights.
    Training is in float32.

    Attributes:
        base: another source, or the directory or hub id of a checkpoint.
        course: how it is trained.
        dtype, device, threads, window, max_tokens, memory_budget: how it is trained, and how the comparison loads it.
    """

    version: ClassVar[int] = 1
    kind: ClassVar[str]

    base: Source | str = field(default_factory=TinyModel)
    course: Course = field(default_factory=Course)
    dtype: Dtype = "float32"
    device: Device = "auto"
    threads: Count | None = 1
    window: Window | None = None
    max_tokens: Count | None = None
    memory_budget: Count | None = None

    @property
    @abstractmethod
    def begins(self) -> Start:
        """The weights that training begins from."""

    @abstractmethod
    def objective(self, base: Classifier) -> Objective:
        """The loss."""

    def check(self, task: Task) -> None:
        """UserError where the task lacks what the objective needs."""
        task.split("train")

    def edits(self, base: Classifier) -> tuple[AttentionEdit, ...]:
        """Edits of the attention in every pass of the training."""
        return ()

    def constants(self, trained: Classifier) -> Sequence[nn.Parameter]:
        """Parameters that keep their first values."""
        return ()

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint for a task; trains it where the cache has none.

        Raises:
            UserError: the base or the task cannot be used.
        """
        base = self._opened_base(task)
        settings = {part.name: identity(getattr(self, part.name)) for part in fields(self) if part.name not in _OWN}
        covered = [self.version, task.fingerprint, list(task.labels), base.fingerprint, settings]
        directory = checkpoint_directory(self.kind, covered)
        if not is_whole(directory):
            self.check(task)

        def train(temporary: Path) -> None:
            with with_threads(self.threads):
                self._train(base, task, directory, temporary)

        return trained_once(directory, f"the {self.kind} model", train)

    def _opened_base(self, task: Task) -> Classifier:
        source = self.base if isinstance(self.base, str) else self.base.resolve(task)
        loaded = load_model(source, "float32", self.device, self.window, self.max_tokens, self.memory_budget)
        return with_labels(loaded, getattr(self.base, "labels", None))

    def _train(self, base: Classifier, task: Task, directory: Path, temporary: Path) -> None:
        started, work = time.monotonic(), directory.parent / f".{directory.name}-training"
        logger.info("training the %s model, once for this task: %d steps", self.kind, self.course.steps)
        discard_foreign(work)
        torch.manual_seed(self.course.seed)
        trained = trainable(base, self.begins(base))
        for parameter in self.constants(trained):
            parameter.requires_grad = False
        label_map, edits = base.label_map(task.labels), self.edits(base)
        lesson = Lesson(task.split("train"), label_map, self.objective(base), edits)
        fit(trained, lesson, self.course, label=f"training the {self.kind} model", state=work / "state.pt")
        finished(trained)
        accuracies = _accuracies(trained, task, edits)
        seconds = time.monotonic() - started
        shown = ", ".join(f"{100 * accuracy:.1f} % {split} accuracy" for split, accuracy in accuracies.items())
        logger.info("the %s model was trained in %s: %s", self.kind, progress.duration(seconds), shown)
        _write(trained, temporary)
        settings = asdict(self)
        record = {"accuracy": accuracies, "seconds": round(seconds, 1), "examples": len(lesson.examples)}
        write_record(temporary, {**record, "base": base.fingerprint, "settings": settings})
        shutil.rmtree(work, ignore_errors=True)


_OWN = (*_LOADING, "base")


def _write(trained: Classifier, directory: Path) -> None:
    """An ordinary checkpoint with the classifier's label names, and the tokenizer."""
    model: Any = trained.model
    model.set_attn_implementation("eager")
    model.config.id2label = dict(enumerate(trained.labels))
    model.config.label2id = {label: index for index, label in enumerate(trained.labels)}
    with quiet_transformers():
        model.save_pretrained(directory)
    trained.tokenizer.save_pretrained(directory)


def _accuracies(model: Classifier, task: Task, edits: Sequence[AttentionEdit]) -> dict[str, float]:
    """On the splits that are not trained on, as far as the task has them."""
    accuracies = {}
    for split in ("validation", "test"):
        try:
            examples = task.split(split)
        except NoSplit:
            continue
        accuracies[split] = _accuracy(model, examples, model.label_map(task.labels), edits)
    return accuracies


def _accuracy(
    model: Classifier, examples: Sequence[Example], label_map: Sequence[int], edits: Sequence[AttentionEdit]
) -> float:
    correct = 0
    for start in range(0, len(examples), _SCORED):
        batch = model.encode_examples(examples[start : start + _SCORED], label_map)
        for part, _ in model.parts(batch):
            correct += int((model.run(part, edits=edits).logits.argmax(-1) == part.label).sum())
    return correct / len(examples)
