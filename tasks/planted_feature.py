"""A feature planted into real texts, and labels reassigned by known rules: what a model has to go by is known."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np

from benchmark.annotations import KEYS, PlantedWords
from benchmark.errors import UserError
from benchmark.settings.declared import Count, Distinct, Natural, SettingError, Share, configurable
from benchmark.settings.early import SPLITS
from benchmark.types import Example, Task
from tasks.common import check_split, digest
from tasks.planted_shortcuts import PHRASES
from tasks.planting_rules import Rules, drawn_part
from tasks.word_insertion import inserted, offset, with_words, words_of

Split = Literal["train", "validation", "test"]
Feature = Literal["word", "case", "position"]


@configurable
class PlantedFeature:
    """The texts of another task with a planted feature; labels are reassigned (docs/protocols.md, section 11).

    With y the label of the wrapped task and K classes, the new label y' is y with probability `kept`, else one of the
    others. With probability `shortcut_rate` a text holds a feature: that of y' with probability `shortcut_strength`, else
    that of another class. `kept` = 1/K leaves nothing in the text that says y' beside the feature; `kept` = 1 leaves labels
    as they are, and the feature is a shortcut.

    - `word`: a phrase of two words that goes with the class, at a drawn place. `shortcuts` phrases, for classes in turn.
    - `case`: of two classes; all texts in small letters, and the second class's feature is one drawn word in capitals.
    - `position`: of two classes; one phrase, the first words for the first class and the last ones for the second.

    `Example.meta` marks the planted words (`benchmark.annotations.PlantedWords`). A rationale stays what it was.

    Attributes:
        task: gives texts and labels.
        feature: see above.
        kept: the share of labels that stay.
        shortcuts: how many phrases, as many for each class.
        shortcut_strength: the share of the features that are the label's.
        shortcut_rate: the share of the texts of a split that hold one.
        shortcut_splits: the splits whose texts hold some.
        flipped_splits: those of them in which features go with other labels.
        train: examples of the training split, drawn; None for all.
        seed: of labels, features and places; an example's do not depend on the others.

    Raises:
        SettingError: more phrases than there are, or not as many for each class; a flipped split that holds none.
        UserError: a feature of two classes in a task of more, or examples that are no texts.

    Source: Zhou et al. 2022 (arXiv:2104.14403), label reassignment and input manipulation as in the authors' published
    program (`dataset_modification.py`); the words are ours.
    """

    version: ClassVar[int] = 1

    task: Task
    feature: Feature = "word"
    kept: Share = 0.5
    shortcuts: Count = 2
    shortcut_strength: Share = 0.9
    shortcut_rate: Share = 1.0
    shortcut_splits: Annotated[Sequence[Split], Distinct()] = SPLITS
    flipped_splits: Annotated[Sequence[Split], Distinct()] | None = None
    train: Count | None = None
    seed: Natural = 0
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        classes = len(self.task.labels)
        if self.feature == "word" and (self.shortcuts % classes or self.shortcuts > len(PHRASES)):
            raise SettingError("shortcuts", self.shortcuts, f"multiples of {classes} up to {len(PHRASES)}")
        if self.feature != "word" and classes != 2:
            raise UserError(f"task.feature={self.feature} is for two classes; {self.task.name} has {classes}")
        if not set(self.flipped_splits or ()) <= set(self.shortcut_splits):
            raise SettingError("flipped_splits", self.flipped_splits, f"those of {list(self.shortcut_splits)}")

    @property
    def name(self) -> str:
        """The task's name with the feature."""
        return f"{self.task.name}-{self.feature}"

    @property
    def labels(self) -> Sequence[str]:
        """Those of the task."""
        return self.task.labels

    @property
    def planted_shortcuts(self) -> Mapping[str, str]:
        """Phrases, each with the name of the label that it goes with; none of a feature that is no word."""
        return {phrase: self.labels[c] for c in range(len(self.labels)) for phrase in self._phrases(c)}

    @cached_property
    def fingerprint(self) -> str:
        """Of the task and the settings."""
        names = ("feature", "kept", "shortcuts", "shortcut_strength", "shortcut_rate", "train", "seed")
        settings = {name: getattr(self, name) for name in names} | {
            "splits": sorted(self.shortcut_splits),
            "flipped": sorted(self.flipped_splits or ()),
        }
        return digest({"task": "planted_feature", "version": self.version, **settings}, [self.task.fingerprint])

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", in the order of the task's."""
        check_split(self.name, name)
        if name not in self._splits:
            examples = self.task.split(name)
            places = drawn_part(range(len(examples)), self.train if name == "train" else None, self.seed)
            self._splits[name] = tuple(self._planted(name, examples[place]) for place in places)
        return self._splits[name]

    def _phrases(self, label: int) -> list[str]:
        return list(PHRASES[label : self.shortcuts : len(self.labels)]) if self.feature == "word" else []

    def _planted(self, split: str, example: Example) -> Example:
        if self.feature == "case":
            example = with_words(example, [word.lower() for word in words_of(example)])
        if example.label < 0:
            return example
        rules = Rules(len(self.labels), self.kept, self.shortcut_strength, self.shortcut_rate, self.seed)
        label, of, rng = rules.draw(example.uid, example.label, flipped=split in (self.flipped_splits or ()))
        example = replace(example, label=label)
        if of is None or split not in self.shortcut_splits:
            return example
        words = words_of(example)
        if self.feature == "case":
            at = int(rng.choice([i for i, word in enumerate(words) if word != word.upper()] or [-1]))
            if of == 0 or at < 0:
                return example
            words[at] = words[at].upper()
            return _marked(with_words(example, words), at, 1, of)
        if self.feature == "position":
            phrase, at = PHRASES[0].split(), (0, len(words))[of]
        else:
            phrase, at = str(rng.choice(self._phrases(of))).split(), int(rng.integers(len(words) + 1))
        return _marked(inserted(example, phrase, at), at, len(phrase), of)


def _marked(example: Example, at: int, count: int, label: int) -> Example:
    """The example with marks on these words of its passage."""
    parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
    marks = np.zeros(sum(len(part) for part in parts), dtype=bool)
    marks[offset(example) + at :][:count] = True
    return replace(example, meta={**example.meta, KEYS[PlantedWords]: PlantedWords(marks, label)})
