"""What a model says of texts before and after a repair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from benchmark.analyses.mining.miners import Patterns
from benchmark.models import Classifier
from benchmark.run.workbench import sample
from benchmark.settings.making import make
from benchmark.types import Example, Task

_AT_ONCE = 32


def probabilities(model: Classifier, labels: Sequence[str], examples: Sequence[Example]) -> NDArray[np.float64]:
    """The probability of each example's annotated label [N] and whether it is the most probable one, as rows [2, N]."""
    label_map = model.label_map(labels)
    found, right = [], []
    for start in range(0, len(examples), _AT_ONCE):
        batch = model.encode_examples(examples[start : start + _AT_ONCE], label_map)
        probability = model.probabilities(model.run(batch).logits.detach().cpu().double())
        annotated = batch.label.cpu()
        found.append(probability.gather(1, annotated[:, None])[:, 0])
        right.append((probability.argmax(-1) == annotated).double())
    return np.stack([torch.cat(found).numpy(), torch.cat(right).numpy()])


@dataclass(frozen=True)
class HeldOut:
    """The texts that models are tested on, those of one split and the same of every kind.

    Attributes:
        task: settings of the task whose texts hold no shortcut.
        split: which is tested.
        clean: its texts.
        shifted: the same with the shortcuts under other labels.
    """

    task: DictConfig
    split: str
    clean: Sequence[Example]
    shifted: Sequence[Example]

    @classmethod
    def of(
        cls,
        task: DictConfig,
        split: str,
        clean: Mapping[str, Any],
        shifted: Mapping[str, Any],
        limit: int | None,
        seed: int,
    ) -> "HeldOut":
        """A task's split under the settings that make it clean and shifted; `limit` texts of known label are drawn."""
        plain, other = changed(task, clean), changed(task, shifted)
        made: Task = make(plain)
        chosen = sample([example for example in made.split(split) if example.label >= 0], limit, seed)
        moved: Task = make(other)
        by_uid = {example.uid: example for example in moved.split(split)}
        return cls(plain, split, chosen, [by_uid[example.uid] for example in chosen])

    def triggered(self, patterns: Patterns, seed: int) -> list[Example]:
        """The clean texts, each with a phrase for another label."""
        task: Task = make(repaired(self.task, patterns, share=1.0, into=[self.split], seed=seed))
        by_uid = {example.uid: example for example in task.split(self.split)}
        return [by_uid[example.uid] for example in self.clean]


def changed(task: DictConfig, settings: Mapping[str, Any]) -> DictConfig:
    """A task's settings, some of them others."""
    config = DictConfig(OmegaConf.to_container(task, resolve=True))
    for name, value in settings.items():
        OmegaConf.update(config, name, value, force_add=True)
    return config


def repaired(task: DictConfig, patterns: Patterns, **settings: Any) -> DictConfig:
    """Settings of `tasks.repaired.Repaired` around a task."""
    inner = OmegaConf.to_container(task, resolve=True)
    mapped = {label: list(phrases) for label, phrases in patterns.items()}
    about: dict[str, Any] = {"_target_": "tasks.repaired.Repaired", "task": inner, "patterns": mapped}
    return DictConfig(about | settings)


@dataclass(frozen=True)
class Answers:
    """What a model says of the tested texts.

    Attributes:
        clean, shifted: whether each is classified as annotated.
        planted: how much probability of the annotated label a planted phrase for another takes; None where none is planted.
        own: the same for the phrases that were mined; None of a model that nothing was mined for.
    """

    clean: Float[NDArray[np.float64], " N"]
    shifted: Float[NDArray[np.float64], " N"]
    planted: Float[NDArray[np.float64], " N"] | None
    own: Float[NDArray[np.float64], " N"] | None

    @classmethod
    def of(
        cls, model: Classifier, labels: Sequence[str], tested: HeldOut, planted: Patterns, own: Patterns, seed: int
    ) -> "Answers":
        """Read all kinds of the tested texts."""
        clean = probabilities(model, labels, tested.clean)
        shifted = probabilities(model, labels, tested.shifted)

        def effect(patterns: Patterns) -> NDArray[np.float64] | None:
            if not any(patterns.values()):
                return None
            taken: NDArray[np.float64] = clean[0] - probabilities(model, labels, tested.triggered(patterns, seed))[0]
            return taken

        return cls(clean[1], shifted[1], effect(planted), effect(own))
