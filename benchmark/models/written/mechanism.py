"""A mechanism: a program with inputs of which it is known what decides."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import exp, log

from benchmark.models.written.program import MARK, READ, RESTING, Features, Head, Program

READER: str = READ
"""In an attention edge, the position that the answer is read from."""

Place = int | tuple[int, int] | str
"""A word of an input, counted from 0; one of its pieces, (word, piece); or `READER`."""

Edge = tuple[int, Place, Place]
"""An attention edge: layer, the position that looks, and that which it looks at."""

QUESTION = "?"
"""The last word of every input, which is not rated: causal models are read there."""

IDLE = ("cup", "hat", "pen", "jar", "key", "fan", "map", "rug")
"""Words without a feature."""

LOOKED = ("moon", "tree", "lake", "hill")
"""Words that idle heads look at."""


@dataclass(frozen=True)
class Drawn:
    """One input.

    Attributes:
        words: without the last one, "?".
        label: 0 for no, 1 for yes: what the model answers.
        speaks_for: places of the words that make it answer so.
        speaks_against: places of words that speak for the other answer.
        heads: (layer, head) of those that take part; None for all of the mechanism's.
        edges: attention edges that carry something to the answer.
    """

    words: tuple[str, ...]
    label: int
    speaks_for: frozenset[int]
    edges: frozenset[Edge]
    speaks_against: frozenset[int] = frozenset()
    heads: frozenset[tuple[int, int]] | None = None


@dataclass(frozen=True)
class Mechanism:
    """A program whose cause of each answer is known.

    Attributes:
        name: of the mechanism.
        what: it does, in one sentence.
        program: what is written.
        heads: (layer, head) of those that take part, in some input at least.
        draw: an input from a random generator.
        lesson: why explainers find it or are fooled, in one sentence.
        of_patches: whether inputs can be images, a patch for each word.
    """

    name: str
    what: str
    program: Program
    heads: frozenset[tuple[int, int]]
    draw: Callable[[random.Random], Drawn]
    lesson: str = ""
    of_patches: bool = True

    def inputs(self, count: int, seed: int) -> Iterator[Drawn]:
        """So many, the same for the same seed."""
        draw = random.Random(f"{self.name} {seed}")
        for _ in range(count):
            yield self.draw(draw)


def weight_of(share: float) -> float:
    """The weight with which one key gets this share of the attention beside the token on which a head rests."""
    return RESTING + log(share / (1 - share))


def share_of(weight: float) -> float:
    """The share of the attention that one key gets with this weight."""
    return 1 / (1 + exp(RESTING - weight))


def reads(key: str, share: float, *moves: tuple[str, str, float], query: str = READ) -> Head:
    """A head that looks from where the answer is read at words with the feature `key`, and moves features there."""
    return Head(looks=((query, key, weight_of(share)),), moves=moves)


def idle(number: int, share: float = 0.5) -> Head:
    """A head that looks at words of no importance and moves what nobody reads."""
    return reads(f"looked{number}", share, (f"looked{number}", f"idle{number}", 1.0))


def words_of(own: Mapping[str, Features]) -> dict[str, Features]:
    """The words that are given, and those that every mechanism has."""
    found: dict[str, Features] = {word: {} for word in IDLE}
    found |= {word: {f"looked{place % 2}": 1.0} for place, word in enumerate(LOOKED)}
    return found | dict(own) | {QUESTION: {MARK: 1.0}}


def among(draw: random.Random, *own: str, count: int = 6, ordered: bool = False) -> tuple[tuple[str, ...], list[int]]:
    """Words of an input, with the given ones at places that are drawn, and these places.

    Args:
        draw: the generator.
        own: words that have to be there.
        count: words in all.
        ordered: whether the given ones stand in their order.
    """
    places = draw.sample(range(count), len(own))
    if ordered:
        places.sort()
    words = [draw.choice((*IDLE, *LOOKED)) for _ in range(count)]
    for place, word in zip(places, own, strict=True):
        words[place] = word
    return tuple(words), places
