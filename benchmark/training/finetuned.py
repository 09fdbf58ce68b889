"""A base model fine-tuned for a task on first use, then cached: `benchmark.train` as an option of the group `model`."""

import logging
from dataclasses import asdict
from typing import Annotated

from benchmark.models.weights import existing_source
from benchmark.results.locks import beside
from benchmark.settings.availability import needs
from benchmark.settings.declared import Above, AtLeast, Count, Natural, configurable
from benchmark.training.cached import checkpoint_directory, discard, finish, is_whole, source_digest
from benchmark.training.finetune import Recipe, finetune
from benchmark.training.sources import Device, Dtype, Window
from benchmark.types import Task


@configurable
class FineTuned:
    """A checkpoint fine-tuned for the task by `benchmark.training.finetune.finetune`, kept in the cache.

    Attributes:
        base: directory or hub id of an encoder or a classifier.
        task: from which it learns; None: the comparison's.
        epochs, batch_size, learning_rate, max_length, freeze, checks_per_epoch, patience, seed: the `Recipe`.
        dtype, device, threads, window, max_tokens, memory_budget: how the comparison loads and runs it.

    Raises:
        UserError: accelerate is not installed; and what `finetune` raises.
    """

    base: str
    task: Task | None = None
    seed: Natural = 0
    epochs: Count = 3
    batch_size: Count = 16
    learning_rate: Annotated[float, Above(0)] = 2e-5
    max_length: Annotated[int, AtLeast(4)] | None = None
    freeze: Natural = 0
    checks_per_epoch: Count = 2
    patience: Count = 4
    dtype: Dtype = "float32"
    device: Device = "auto"
    threads: Count | None = None
    window: Window | None = None
    max_tokens: Count | None = None
    memory_budget: Count | None = None

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint for the comparison's task, or for its own; trains it where the cache has none."""
        recipe = Recipe(**{name: getattr(self, name) for name in asdict(Recipe())})
        return finetuned_for(self.task or task, self.base, recipe)


def finetuned_for(task: Task, base: str, recipe: Recipe, *, told: bool = True) -> str:
    """Directory in the cache of a base that is fine-tuned for a task; trained where it is not there.

    Args:
        task: gives the training and validation splits.
        base: directory or hub id.
        recipe: how to train.
        told: whether accuracies are logged; of dozens of trainings they are not.
    """
    needs("accelerate", "model=finetuned")
    digest = source_digest(existing_source(base))
    covered = [1, task.fingerprint, list(task.labels), base, digest, asdict(recipe)]
    directory = checkpoint_directory("finetuned", covered)
    if not is_whole(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with beside(directory, "the fine-tuned model"):
            discard(directory, "the fine-tuned model")
        log = logging.getLogger(finetune.__module__)
        level = log.level
        log.setLevel(level if told else logging.WARNING)
        try:
            finetune(task, base, directory, recipe, finish)
        finally:
            log.setLevel(level)
    return str(directory)
