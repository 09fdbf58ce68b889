"""A task of which no two examples share a passage, so that they are independent draws."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from benchmark.annotations import KnowsShortcuts
from benchmark.errors import UserError
from benchmark.passages import Passage, holders, passage_of
from benchmark.randomness import generator
from benchmark.settings.declared import Natural, configurable
from benchmark.types import Example, KnowsEvidence, KnowsTruth, Task
from tasks.common import check_split, digest


@configurable
class DistinctPassages:
    """One example of each passage of another task, in every split: tests and intervals take examples for independent.

    Questions about one passage, or a sentence beside phrases of it, are not independent: an interval over them is too narrow
    (docs/statistics.md, "Values in clusters"). Two examples share a passage where the words of the one's text, or of its
    pair's passage, stand in a row in the other's; upper and lower case are the same (`benchmark.passages`). Of these the
    longest stays, of several examples with the same passage one that is drawn. Of a multiple-choice question single options
    stay, so that nothing can be asked about whole questions. Examples that were attacked share a passage where they did
    before.

    Models are trained on all examples of the task.

    Attributes:
        task: gives the examples.
        seed: of the draw.

    Raises:
        UserError: an example is no text.

    Source: this project.
    """

    version: ClassVar[int] = 1

    task: Task
    seed: Natural = 0
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The task's name, and that its passages are distinct."""
        return f"{self.task.name}-distinct"

    @property
    def labels(self) -> Sequence[str]:
        """Those of the task."""
        return self.task.labels

    @cached_property
    def fingerprint(self) -> str:
        """Of the task and the seed."""
        settings = {"task": "distinct_passages", "version": self.version, "seed": self.seed}
        return digest(settings, [self.task.fingerprint])

    @property
    def learned_from(self) -> Task:
        """The task that models are trained on."""
        learned: Task = getattr(self.task, "learned_from", self.task)
        return learned

    @property
    def planted_shortcuts(self) -> Mapping[str, str]:
        """Phrases that the task has planted, each with its label; empty where none is."""
        return self.task.planted_shortcuts if isinstance(self.task, KnowsShortcuts) else {}

    @property
    def rationale_is_truth(self) -> bool:
        """Whether rationales are known by construction to be what speaks for the label."""
        return isinstance(self.task, KnowsTruth) and self.task.rationale_is_truth

    def evidence(self, split: str) -> Mapping[str, Bool[NDArray[np.bool_], " U"]]:
        """By an example's identifier, which of its words speak for any class; empty where the task does not know."""
        return self.task.evidence(split) if isinstance(self.task, KnowsEvidence) else {}

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", in the order of the task's."""
        check_split(self.name, name)
        if name not in self._splits:
            examples = self.task.split(name)
            kept = set(self._kept(examples))
            self._splits[name] = tuple(example for place, example in enumerate(examples) if place in kept)
        return self._splits[name]

    def _kept(self, examples: Sequence[Example]) -> Iterator[int]:
        """The places of the examples that stay."""
        passages = [_words_of(example) for example in examples]
        equal: dict[Passage, list[int]] = {}
        for place, passage in enumerate(passages):
            equal.setdefault(passage, []).append(place)
        for place in sorted(set(holders(passages))):
            alike = equal[passages[place]]
            drawn = generator(self.seed, "distinct passages", examples[place].uid).integers(len(alike))
            yield alike[int(drawn)]


def _words_of(example: Example) -> Passage:
    passage = passage_of(example)
    if passage is None:
        raise UserError(f"task=distinct_passages: example '{example.uid}' is no text")
    return passage
