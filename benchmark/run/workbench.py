"""What a comparison is about: one task, one model, the encoded examples, and the cells that are computed on them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from benchmark.errors import UserError
from benchmark.models import Classifier, load_model
from benchmark.results.digests import digest
from benchmark.run.cell import Cell
from benchmark.run.data import Data
from benchmark.settings.configuration import check_name, make
from benchmark.settings.defaults import whole
from benchmark.settings.identity import identity
from benchmark.types import Batch, Compared, Example, Task

logger = logging.getLogger(__name__)

CONTROL_SAMPLE = 2000
"""How many training examples a method with a `fit` sees."""


@dataclass(frozen=True)
class Setting:
    """A task and a model, loaded, with the examples that are scored.

    Attributes:
        config: the composed configuration.
        task: the data set.
        model: the classifier.
        data: the encoded examples.
    """

    config: DictConfig
    task: Task
    model: Classifier
    data: Data

    def cell(self, name: str, method: Compared | None = None) -> Cell:
        """The cell of the method that the configuration calls `name`, fitted where it needs to be."""
        made: Any = make(self.config.methods[name]) if method is None else method
        return make_cell(self, name, made)


def open_setting(config: DictConfig) -> Setting:
    """Load the task and the model of a configuration, and encode its examples."""
    task: Task = make(config.task)
    check_name("task.name", task.name)
    every = task.split(config.split)
    examples = sample(every, config.limit, config.seed)
    source = make(config.model)
    if source.threads is not None:
        torch.set_num_threads(source.threads)
    model = load_model(
        source.resolve(task),
        dtype=source.dtype,
        device=source.device,
        window=source.window,
        max_tokens=source.max_tokens,
        memory_budget=source.memory_budget,
    )
    return Setting(config, task, model, encode(config, task, model, examples, drawn=len(examples) < len(every)))


def limited(setting: Setting, limit: int | None) -> Setting:
    """The same setting with at most `limit` of its examples."""
    given = [number for number in (setting.config.limit, limit) if number is not None]
    least = min(given, default=None)
    if least == setting.config.limit:
        return setting
    config = setting.config.copy()
    config.limit = least
    return open_setting(config)


def sample(examples: Sequence[Example], limit: int | None, seed: int) -> list[Example]:
    """`limit` examples drawn without replacement by the seed, in the order of the data set; all without a limit."""
    if limit is None or limit >= len(examples):
        return list(examples)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(examples))[:limit])
    return [examples[int(index)] for index in chosen]


def training_sample(task: Task) -> Sequence[Example]:
    """What a method with a `fit` sees: the first examples of the training split."""
    return task.split("train")[:CONTROL_SAMPLE]


def encode(config: DictConfig, task: Task, model: Classifier, examples: Sequence[Example], *, drawn: bool) -> Data:
    """Encode the scored examples in batches of similar length, and say how much lies beyond the model's window.

    Where they were not drawn, for they are all, neither limit nor seed is a fact of theirs.
    """
    label_map = model.label_map(task.labels)

    def batches(chosen: Sequence[Example]) -> list[Batch]:
        ordered = sorted(chosen, key=_length)
        size = config.batch_size
        return [model.encode_examples(ordered[i : i + size], label_map) for i in range(0, len(ordered), size)]

    def calibration(split: str, count: int) -> list[Batch]:
        scored = {example.uid for example in examples}
        chosen = [example for example in task.split(split) if example.uid not in scored][:count]
        if not chosen:
            raise UserError(f"calibration.split={split} has no example that is not scored; use another split or `same`")
        if (split, count) not in kept:
            kept[split, count] = batches(chosen)
        return kept[split, count]

    kept: dict[tuple[str, int], list[Batch]] = {}
    scored = batches(examples)
    total = sum(int(batch.n_units.sum()) for batch in scored)
    if lost := sum(int(batch.lost_units.sum()) for batch in scored):
        logger.warning(
            "%d of %d words (%.1f %%) lie beyond the window of %d tokens", lost, total, 100 * lost / total, model.window
        )
    facts = {
        "name": task.name,
        "version": task.version,
        "split": config.split,
        "limit": config.limit if drawn else None,
        "seed": config.seed if drawn else None,
        "n": len(examples),
        "fingerprint": task.fingerprint,
        "units": total,
        "lost_units": lost,
    }
    return Data(batches=scored, calibration=calibration, facts=facts, labels=tuple(task.labels))


def _length(example: Example) -> tuple[int, str]:
    parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
    return sum(len(part) for part in parts if isinstance(part, str | Sequence)), example.uid


def make_cell(setting: Setting, name: str, method: Any) -> Cell:
    """The cell of one method: its run folder's name ends in the hash of what the attributions depend on.

    A method that is fitted depends on the first `CONTROL_SAMPLE` examples of the training split, which the task tells.
    """
    config, task, model, data = setting.config, setting.task, setting.model, setting.data
    fitted = hasattr(method, "fit")
    covered = {
        "task": {key: value for key, value in data.facts.items() if key not in ("units", "lost_units")},
        "model": model.fingerprint,
        "dtype": str(model.dtype),
        "method": identity(method),
        "fitted_on": CONTROL_SAMPLE if fitted else None,
    }
    key = digest(covered)
    described = {
        "task": whole(OmegaConf.to_container(config.task, resolve=True)),
        "model": whole(OmegaConf.to_container(config.model, resolve=True)),
        "method": whole(OmegaConf.to_container(config.methods[name], resolve=True)),
        "split": config.split,
        "limit": data.facts["limit"],
        "seed": data.facts["seed"],
    }
    return Cell(
        folder=Path(config.out) / task.name / model.name / f"{name}-{key[:8]}",
        name=name,
        method=method.fit(training_sample(task)) if fitted else method,
        model=model,
        data=data,
        identity={**covered, "hash": key},
        config=described,
        checkpoint_seconds=float(config.checkpoint_seconds),
    )
