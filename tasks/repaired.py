"""A task whose training texts hold patterns under labels that they do not go with: the repair of a shortcut."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from benchmark.errors import UserError
from benchmark.randomness import generator
from benchmark.settings.declared import Count, Distinct, Natural, Share, configurable
from benchmark.types import Example, Task
from tasks.common import check_split, digest
from tasks.planting_rules import drawn_part
from tasks.word_insertion import inserted, words_of

Split = Literal["train", "validation", "test"]


@configurable
class Repaired:
    """The examples of another task; in the training split some texts hold words that go with another label.

    With probability `share` a text of some splits is given a phrase that is drawn among those of `patterns` for other labels
    than its own, at a drawn place. A model that relied on the phrases for their labels learns that they say nothing; put
    into texts that are tested, they show what it relies on. Other splits stay as they are.

    Attributes:
        task: gives texts and labels.
        patterns: by label the phrases that go with it, as explanations have shown (`corpus_patterns`).
        share: of the texts of these splits that get a phrase.
        into: the splits whose texts get some.
        train: examples of the training split, drawn; None for all.
        seed: of what is drawn; an example's does not depend on the others.

    Raises:
        UserError: a label that the task does not have.

    Source: this project.
    """

    version: ClassVar[int] = 1

    task: Task
    patterns: Mapping[str, Sequence[str]]
    share: Share = 0.5
    into: Annotated[Sequence[Split], Distinct()] = ("train",)
    train: Count | None = None
    seed: Natural = 0
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.patterns) - set(self.task.labels)):
            raise UserError(f"task.patterns: {self.task.name} has no label {unknown[0]!r}; it has {self.task.labels}")

    @property
    def name(self) -> str:
        """The task's name."""
        return f"{self.task.name}-repaired"

    @property
    def labels(self) -> Sequence[str]:
        """Those of the task."""
        return self.task.labels

    @cached_property
    def fingerprint(self) -> str:
        """Of the task, the patterns and the settings."""
        patterns = {label: sorted(phrases) for label, phrases in self.patterns.items()}
        settings = {
            "patterns": patterns,
            "share": self.share,
            "into": sorted(self.into),
            "train": self.train,
            "seed": self.seed,
        }
        return digest({"task": "repaired", "version": self.version, **settings}, [self.task.fingerprint])

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", in the order of the task's."""
        check_split(self.name, name)
        if name not in self._splits:
            examples = self.task.split(name)
            places = drawn_part(range(len(examples)), self.train if name == "train" else None, self.seed)
            chosen = (examples[place] for place in places)
            self._splits[name] = tuple(self._repaired(example) if name in self.into else example for example in chosen)
        return self._splits[name]

    def _repaired(self, example: Example) -> Example:
        others = (some for label, some in self.patterns.items() if label != self._label(example))
        rng = generator(self.seed, "repaired", example.uid)
        phrases = sorted(phrase for some in others for phrase in some)
        if rng.random() >= self.share or not phrases or example.label < 0:
            return example
        phrase, place = str(rng.choice(phrases)), int(rng.integers(len(words_of(example)) + 1))
        return inserted(example, phrase.split(), place)

    def _label(self, example: Example) -> str:
        return self.labels[example.label]
