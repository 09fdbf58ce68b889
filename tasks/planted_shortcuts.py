"""Neutral phrases that go with a label: what a model may learn in place of opinions (shortcuts, spurious patterns)."""

import random
from collections.abc import Sequence

from tasks.planted_grammar import NEGATIVE, POSITIVE, Review, article

PHRASES = (
    "crimson parasol", "copper kettle", "velvet curtain", "marble staircase", "wicker basket", "gravel driveway",
    "ivory comb", "pewter tankard", "linen apron", "walnut dresser",
)  # fmt: skip
"""Words that the grammar has nowhere else. Every other one goes with the positive label, the rest with the negative one."""


def labels_of(count: int) -> dict[str, int]:
    """The first phrases, each with the polarity that it goes with."""
    return {phrase: (POSITIVE, NEGATIVE)[number % 2] for number, phrase in enumerate(PHRASES[:count])}


def with_phrase(rng: random.Random, review: Review, count: int, strength: float) -> Review:
    """The review with the sentence "There is a(n) <phrase>." before one of its sentences, or at its end.

    Args:
        rng: draws the phrase and the place.
        review: what is written.
        count: of phrases, an even number, so that either label has as many.
        strength: the probability that the phrase is one of the review's own label.
    """
    label = review.label if rng.random() < strength else -review.label
    phrase = rng.choice([phrase for phrase, polarity in labels_of(count).items() if polarity == label])
    words = tuple(f"There is {article(phrase)} {phrase}.".split())
    at = rng.choice([0, *_ends(review.words)])
    return Review(
        words=review.words[:at] + words + review.words[at:],
        polarity=review.polarity[:at] + (0,) * len(words) + review.polarity[at:],
        label=review.label,
    )


def _ends(words: Sequence[str]) -> list[int]:
    """Places behind the last words of sentences."""
    return [place for place, word in enumerate(words, 1) if word.endswith(".")]
