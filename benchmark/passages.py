"""Which examples share a passage, so that they are no independent draws."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from benchmark.annotations import KEYS, PASSAGE_SEGMENT, Moved, passage_segment
from benchmark.types import Example
from benchmark.words import units_of

Passage = tuple[str, ...]
"""Words, in small letters, with the punctuation that stands at them."""


def passage_of(example: Example) -> Passage | None:
    """The words of an example's text, or of a pair's passage, before an attack moved them; None of what is no text.

    A passage is what `Moved.passage` says, or else the segment that `PASSAGE_SEGMENT` names, or else `passage_segment`.
    """
    moved = example.meta.get(KEYS[Moved])
    if isinstance(moved, Moved) and moved.passage is not None:
        return moved.passage
    segments = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
    named = example.meta.get(PASSAGE_SEGMENT, passage_segment(example))
    text = segments[named if len(segments) > 1 else 0]
    if not isinstance(text, str | list):
        return None
    return tuple(word.casefold() for word in units_of(str(text) if isinstance(text, str) else text))


def holders(passages: Sequence[Passage]) -> list[int]:
    """For each passage the place of the longest one that holds all its words in a row: itself where no other does.

    Of equal passages it is the first, and so it is of several that hold a passage and are as long. One that shares but a
    part of its words with another has nothing to do with it here.
    """
    first: dict[Passage, int] = {}
    for place, passage in enumerate(passages):
        first.setdefault(passage, place)
    whole: dict[Passage, list[Passage]] = defaultdict(list)  # that lie in no other, by their words and pairs of words
    held: dict[Passage, Passage] = {}
    for passage in sorted(first, key=lambda passage: (-len(passage), first[passage])):
        rarest = min((whole.get(part, []) for part in _parts(passage)), key=len, default=[])
        held[passage] = next((other for other in rarest if _read(passage) in _read(other)), passage)
        if held[passage] is passage:
            for part in {*_parts(passage), *((word,) for word in passage)}:
                whole[part].append(passage)
    return [first[held[passage]] for passage in passages]


def design_effect(examples: Iterable[Example]) -> tuple[int | None, float | None]:
    """How many passages the examples have, and how much they share them; None twice unless all are texts of words.

    Of c passages, of which one that lies in another is none, with m_c examples each: their number, and `Σ m_c² / Σ m_c`. By
    this the variance of a mean over examples grows at most, where all examples of a passage have one value.

    Source: Kish 1965; it is his design effect at an intraclass correlation of 1.
    """
    passages: list[Passage] = []
    for example in examples:
        if (passage := passage_of(example)) is None:
            return None, None
        passages.append(passage)
    sizes = Counter(holders(passages)).values()
    return len(sizes), sum(size**2 for size in sizes) / max(1, sum(sizes))


def _parts(passage: Passage) -> set[Passage]:
    """Its pairs of neighbouring words, or its only word."""
    return set(pairwise(passage)) or {passage}


def _read(passage: Passage) -> str:
    return "\0".join(("", *passage, ""))
