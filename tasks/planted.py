"""The planted task: reviews whose label depends on known words only, so that the true rationale is known exactly."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from benchmark.settings.declared import Count, Distinct, Natural, SettingError, Share, configurable
from benchmark.settings.early import SPLITS
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.planted_grammar import NEGATIVE, POSITIVE, Review, draw_review, flipped
from tasks.planted_shortcuts import PHRASES, labels_of, with_phrase

Split = Literal["train", "validation", "test"]

_LABELS = {NEGATIVE: 0, POSITIVE: 1}

_LOOKED_AT = 100
"""How many reviews of the training split are part of the fingerprint."""


@configurable
class Planted:
    """Film reviews of 20 to 60 words from a seeded grammar (docs/protocols.md, section 11; after Zhou 2022).

    Each review holds 2 to 4 opinion phrases of one polarity, fewer of the other (distractors) and neutral sentences. An
    opinion phrase votes +1 or -1; an intensifier doubles the vote, a negator ("not", "never", ...) flips the opinion
    word's polarity. The label is the sign of the sum, never 0. The rationale marks exactly the opinion words,
    intensifiers and negators of the phrases on the label's side. Neutral sentences hold negators and intensifiers too,
    so that neither means anything by itself.

    With `shortcuts` reviews of some splits hold a neutral phrase that goes with a label, as words do in real data for which
    nobody asked ("There is a crimson parasol."). The rationale does not mark it, though a model may well rely on it.

    Attributes:
        name: the task's name in run folders.
        seed: determines every review; each split has its own stream, so that its size changes no other split.
        train, validation, test: number of reviews in each split.
        shortcuts: how many phrases (`planted_shortcuts.PHRASES`), half of them for either label; 0 for none.
        shortcut_strength: the share of their reviews that have their label.
        shortcut_rate: the share of the reviews of a split that hold one.
        shortcut_splits: the splits whose reviews hold some.
        flipped_splits: those of them in which phrases go with the other label.
        corrupted: give each review a counterpart of as many words, with which circuits are patched: each opinion word is one
            of the other polarity.

    Raises:
        SettingError: an odd number of phrases, or more than there are; a flipped split that holds none.
    """

    version: ClassVar[int] = 1

    name: str = "planted"
    seed: Natural = 0
    train: Count = 8000
    validation: Count = 300
    test: Count = 400
    shortcuts: Natural = 0
    shortcut_strength: Share = 0.95
    shortcut_rate: Share = 0.5
    shortcut_splits: Annotated[Sequence[Split], Distinct()] = ("train",)
    flipped_splits: Annotated[Sequence[Split], Distinct()] | None = None
    corrupted: bool = False
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _evidence: dict[str, dict[str, np.ndarray]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.shortcuts % 2 or self.shortcuts > len(PHRASES):
            raise SettingError("shortcuts", self.shortcuts, f"an even number of at most {len(PHRASES)}")
        if not set(self.flipped_splits or ()) <= set(self.shortcut_splits):
            raise SettingError("flipped_splits", self.flipped_splits, f"those of {list(self.shortcut_splits)}")

    @property
    def rationale_is_truth(self) -> bool:
        """Not where a model may rely on what is not marked."""
        return self.shortcuts == 0

    @property
    def planted_shortcuts(self) -> Mapping[str, str]:
        """Phrases, each with the name of the label that it goes with."""
        return {phrase: self.labels[_LABELS[polarity]] for phrase, polarity in labels_of(self.shortcuts).items()}

    @property
    def labels(self) -> Sequence[str]:
        """Class names: negative, positive."""
        return ("negative", "positive")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings, every review of validation and test, and the first of training.

        All others are drawn by the same grammar with the same settings: writing thousands of them would add nothing that
        another grammar, another version of Python or another setting does not change already, and takes a second.
        """
        parts = [
            f"{example.uid}\t{example.label}\t{' '.join(example.inputs)}\t{np.flatnonzero(example.rationale)}"
            + ("" if example.corrupted is None else f"\t{' '.join(example.corrupted)}")
            for split in SPLITS
            for example in (self.first_examples(split, _LOOKED_AT) if split == "train" else self.split(split))
        ]
        return digest({"task": "planted", "version": self.version, **self._deciding()}, parts)

    def _deciding(self) -> dict[str, Any]:
        """What decides the reviews: every setting but the name, and whether there are counterparts where there are some."""
        own = {spec.name: getattr(self, spec.name) for spec in fields(self) if spec.init}
        return {name: value for name, value in own.items() if name not in ("name", *([] if value else ["corrupted"]))}

    @cached_property
    def learned_from(self) -> "Planted":
        """The same reviews without their counterparts, of which no model learns anything."""
        return replace(self, corrupted=False) if self.corrupted else self

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test"; inputs are lists of words."""
        check_split(self.name, name)
        if name not in self._splits:
            self._splits[name], self._evidence[name] = self._drawn(name, getattr(self, name))
        return self._splits[name]

    def first_examples(self, name: str, count: int) -> Sequence[Example]:
        """The first examples of a split, without drawing all that follow."""
        check_split(self.name, name)
        return self._splits[name][:count] if name in self._splits else self._drawn(name, count)[0]

    def _drawn(self, name: str, count: int) -> tuple[tuple[Example, ...], dict[str, np.ndarray]]:
        """The first examples of a split, and which words of each carry an opinion."""
        rng = random.Random(f"{self.seed}:{name}")
        reviews = [draw_review(rng) for _ in range(min(count, getattr(self, name)))]
        if self.shortcuts and name in self.shortcut_splits:
            reviews = list(self._with_shortcuts(reviews, name))
        examples = tuple(self._example(f"{name}-{i:05d}", review) for i, review in enumerate(reviews))
        polarities = (np.array(review.polarity) for review in reviews)
        return examples, {one.uid: own != 0 for one, own in zip(examples, polarities, strict=True)}

    def evidence(self, split: str) -> Mapping[str, np.ndarray]:
        """By review the words of the opinion phrases of both sides; empty with shortcuts, on which a model may rely."""
        self.split(split)
        return self._evidence[split] if self.rationale_is_truth else {}

    def _with_shortcuts(self, reviews: Sequence[Review], split: str) -> Iterator[Review]:
        """The reviews, of which some hold a phrase; without it they are what they were."""
        rng = random.Random(f"{self.seed}:{split}:shortcuts")
        flipped = split in (self.flipped_splits or ())
        strength = 1 - self.shortcut_strength if flipped else self.shortcut_strength
        for review in reviews:
            holds = rng.random() < self.shortcut_rate
            yield with_phrase(rng, review, self.shortcuts, strength) if holds else review

    def _example(self, uid: str, review: Review) -> Example:
        label = _LABELS[review.label]
        rationale = np.array([sign == review.label for sign in review.polarity])
        corrupted = list(flipped(review)) if self.corrupted else None
        return Example(uid=uid, inputs=list(review.words), label=label, rationale=rationale, corrupted=corrupted)
