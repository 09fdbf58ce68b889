"""What the small models share that are trained for a task on first use: their place in the cache, training and record."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmark import progress
from benchmark.errors import UserError
from benchmark.models.checkpoints import quiet_transformers
from benchmark.training.cached import checkpoint_directory, is_whole, trained_once, write_record
from benchmark.training.optimisation import warm_up_and_decay, with_threads
from benchmark.types import Task

logger = logging.getLogger(__name__)

LOADING = ("dtype", "device", "threads", "max_tokens", "memory_budget")
"""Settings that say how a comparison loads and runs a model; no weight depends on them."""


def trained_for(
    task: Task, name: str, version: int, settings: Mapping[str, Any], train: Callable[[Path], None], what: str
) -> str:
    """Directory of the checkpoint for a task; trained on one thread where the cache has none, from the seed in `settings`.

    Args:
        task: what it learns.
        name: of the kind of model, in the cache.
        version: of its training.
        settings: all that its weights depend on beside the task.
        train: writes the checkpoint to the folder that it is given.
        what: is trained, for those who wait.

    Raises:
        UserError: the task has fewer than two labels.
    """
    directory = checkpoint_directory(name, [version, task.fingerprint, list(task.labels), settings])
    if len(task.labels) < 2 and not is_whole(directory):
        raise UserError(f"task {task.name} has the labels {list(task.labels)}; a classifier needs at least two")

    def train_on_one_thread(temporary: Path) -> None:
        with with_threads(1):
            torch.manual_seed(settings["seed"])
            train(temporary)

    return trained_once(directory, what, train_on_one_thread)


def descend(model: Any, optimizer: torch.optim.Optimizer, steps: int, loss: Callable[[], Tensor], what: str) -> None:
    """Train a model: `steps` steps down the loss of the next batch, with warm-up, decay and clipped gradients."""
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up_and_decay(steps))
    logger.info("training %s, once for this task: %d steps", what, steps)
    model.train()
    with progress.step(f"training {what}", steps, unit="steps") as advance:
        for _ in range(steps):
            optimizer.zero_grad()
            loss().backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            advance(1)
    model.eval()


def save_trained(
    model: Any,
    directory: Path,
    what: str,
    *,
    started: float,
    accuracy: Callable[[str], float],
    record: Mapping[str, Any],
) -> None:
    """Write the weights, and `training.json` beside them with seconds and accuracies; say how well it went.

    Args:
        model: which is trained.
        directory: of the checkpoint.
        what: was trained.
        started: when training began, on the monotonic clock.
        accuracy: on a split of the task.
        record: what else is written.
    """
    seconds = time.monotonic() - started
    accuracies = {split: accuracy(split) for split in ("validation", "test")}
    took = progress.duration(seconds)
    logger.info("%s was trained in %s: %.1f %% test accuracy", what, took, 100 * accuracies["test"])
    with quiet_transformers():
        model.save_pretrained(directory)
    write_record(directory, {"accuracy": accuracies, "seconds": round(seconds, 1), **record})


def named_classes(labels: Sequence[str]) -> dict[str, dict[Any, Any]]:
    """The names of the classes, as a configuration of transformers has them."""
    return {"id2label": dict(enumerate(labels)), "label2id": {label: index for index, label in enumerate(labels)}}
