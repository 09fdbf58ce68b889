"""Attacks on the words of pairs: segments that are shuffled or removed, and unreadable distractors (Si et al. 2019)."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

LEAST_DEGREE = 0.65
"""Edit distance over length that shuffled words have at least, where they allow it."""

ADDED = -1
"""The number of a word that the clean example does not have there."""

_PLACEHOLDER = "."  # in place of a segment without words: models of pairs want words in both
_DRAWS = 50


@dataclass(frozen=True)
class Words:
    """Words with the numbers that they have in the clean example, or `ADDED`.

    Attributes:
        words, origin: of the same length.
        degree: edit distance over length of the shuffle that they come from; None without, and of joined words.
        shuffled: whether each word comes from a shuffle, of the same length.
    """

    words: tuple[str, ...]
    origin: tuple[int, ...]
    degree: float | None = None
    shuffled: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shuffled", self.shuffled or (False,) * len(self.words))

    def __add__(self, other: "Words") -> "Words":
        return Words(self.words + other.words, self.origin + other.origin, None, self.shuffled + other.shuffled)

    def __getitem__(self, part: slice) -> "Words":
        return Words(self.words[part], self.origin[part], None, self.shuffled[part])


def added(words: Sequence[str]) -> Words:
    """Words that the clean example does not have there."""
    return Words(tuple(words), (ADDED,) * len(words))


def removed() -> Words:
    """What stands in place of a segment without words: a single "."."""
    return added((_PLACEHOLDER,))


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Levenshtein's distance in words: insertions, deletions and substitutions."""
    codes = {word: number for number, word in enumerate(dict.fromkeys([*first, *second]))}
    others = np.array([codes[word] for word in second], dtype=np.int64)
    places = np.arange(len(others) + 1)
    row = places
    for i, word in enumerate(first, 1):
        kept = np.minimum(row[1:] + 1, row[:-1] + (others != codes[word]))
        row = np.minimum.accumulate(np.concatenate(([i], kept)) - places) + places  # insertions cost 1 each
    return int(row[-1])


def shuffled(given: Words, draw: random.Random, allowed: Callable[[Sequence[str]], bool] = lambda words: True) -> Words:
    """The words in a random order whose edit distance from the given one, over the length, is at least `LEAST_DEGREE`.

    Drawn again until it is, and the words are `allowed`, at most 50 times. Few or like words may not get that far: then the
    farthest allowed order of those drawn; where none is allowed, the farthest.
    """
    best, best_rank = replace(given, degree=0.0), (False, 0.0)
    for _ in range(_DRAWS):
        order = draw.sample(range(len(given.words)), len(given.words))
        words = tuple(given.words[i] for i in order)
        degree = edit_distance(given.words, words) / max(1, len(words))
        rank = allowed(words), degree
        if rank > best_rank:
            best, best_rank = Words(words, tuple(given.origin[i] for i in order), degree), rank
        if rank >= (True, LEAST_DEGREE):
            break
    return replace(best, shuffled=(True,) * len(best.words))


def reads(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether the phrase stands in the words, uninterrupted."""
    phrase = tuple(phrase)
    return any(tuple(words[i : i + len(phrase)]) == phrase for i in range(len(words) - len(phrase) + 1))


def sentences(words: Sequence[str]) -> list[tuple[str, ...]]:
    """A passage cut behind words that end in ".", "!" or "?"."""
    found, start = [], 0
    for place, word in enumerate(words, 1):
        if word[-1:] in ".!?" or place == len(words):
            found.append(tuple(words[start:place]))
            start = place
    return found
