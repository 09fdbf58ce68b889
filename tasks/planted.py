"""The planted task: reviews whose label depends on known words only, so that the true rationale is known exactly."""

import random
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import ClassVar

import numpy as np

from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import SPLITS
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.planted_grammar import NEGATIVE, POSITIVE, Review, draw_review


@configurable
class Planted:
    """Film reviews of 20 to 60 words from a seeded grammar (docs/protocols.md, section 11; after Zhou 2022).

    Each review holds 2 to 4 opinion phrases of one polarity, fewer of the other (distractors) and neutral sentences. An
    opinion phrase votes +1 or -1; an intensifier doubles the vote, a negator ("not", "never", ...) flips the opinion
    word's polarity. The label is the sign of the sum, never 0. The rationale marks exactly the opinion words,
    intensifiers and negators of the phrases on the label's side. Neutral sentences hold negators and intensifiers too,
    so that neither means anything by itself.

    Attributes:
        name: the task's name in run folders.
        seed: determines every review; each split has its own stream, so that its size changes no other split.
        train, validation, test: number of reviews in each split.
    """

    version: ClassVar[int] = 1
    rationale_is_truth: ClassVar[bool] = True

    name: str = "planted"
    seed: Natural = 0
    train: Count = 8000
    validation: Count = 300
    test: Count = 400
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """Class names: negative, positive."""
        return ("negative", "positive")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every review: it changes with the settings and with the grammar."""
        parts = [
            f"{example.uid}\t{example.label}\t{' '.join(example.inputs)}\t{np.flatnonzero(example.rationale)}"
            for split in SPLITS
            for example in self.split(split)
        ]
        return digest({"task": "planted", "version": self.version}, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test"; inputs are lists of words."""
        check_split(self.name, name)
        if name not in self._splits:
            rng = random.Random(f"{self.seed}:{name}")
            self._splits[name] = tuple(
                _example(f"{name}-{index:05d}", draw_review(rng)) for index in range(getattr(self, name))
            )
        return self._splits[name]


def _example(uid: str, review: Review) -> Example:
    label = {NEGATIVE: 0, POSITIVE: 1}[review.label]
    rationale = np.array([sign == review.label for sign in review.polarity])
    return Example(uid=uid, inputs=list(review.words), label=label, rationale=rationale)
