"""Another task's examples with some of their units hidden, for models to be trained on and tested with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from benchmark.results.digests import digest
from benchmark.types import Example, Task

Hidden = Mapping[str, Bool[NDArray[np.bool_], " U"]]
"""By an example's identifier, which of its units are hidden."""


@dataclass(frozen=True)
class Masked:
    """The examples of a task of which it is known what they hide (`Example.hidden`); they keep their words and rationales.

    A split of which nothing is known has all its examples, as they are.

    Attributes:
        task: gives the examples.
        hidden: by split.
    """

    version: ClassVar[int] = 1

    task: Task
    hidden: Mapping[str, Hidden]

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.name

    @property
    def labels(self) -> Sequence[str]:
        """Those of the task."""
        return self.task.labels

    @property
    def spelled_as(self) -> Task:
        """The task whose words make the vocabulary of a model that is trained from scratch, however few examples it sees."""
        return self.task

    @cached_property
    def fingerprint(self) -> str:
        """Of the task, and of what is hidden."""
        told = {
            split: {uid: [len(marks), np.packbits(marks).tobytes().hex()] for uid, marks in hidden.items()}
            for split, hidden in self.hidden.items()
        }
        return digest({"task": "masked", "version": self.version, "of": self.task.fingerprint, "hidden": told})

    def split(self, name: str) -> Sequence[Example]:
        """Those examples of the task's split of which it is known, in its order."""
        examples = self.task.split(name)
        if name not in self.hidden:
            return examples
        hidden = self.hidden[name]
        return [replace(example, hidden=hidden[example.uid]) for example in examples if example.uid in hidden]
