"""Prompts of a seeded grammar whose next token follows from known words, so that the right explanation is known."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from benchmark.settings.declared import Count, Natural, configurable
from benchmark.types import Example
from tasks.common import check_split, digest

Kind = Literal["ioi", "greater_than", "induction", "agreement"]

_NAMES = (
    "Mary", "John", "Alice", "Bob", "Anna", "Paul", "Laura", "Peter", "Emma", "Tom", "Kate", "Mark", "Julia", "Simon",
    "Clara", "David", "Nora", "Felix", "Rosa", "Oscar",
)  # fmt: skip
_PLACES = ("store", "park", "school", "garden", "station", "office", "market", "library")
_THINGS = ("drink", "book", "ring", "letter", "ball", "coat", "key", "gift")
_EVENTS = ("war", "trip", "project", "siege", "voyage", "reform", "drought", "trial")
_CENTURIES = ("14", "15", "16", "17", "18")
_NOUNS = {
    "author": "authors", "dog": "dogs", "key": "keys", "guard": "guards", "pilot": "pilots", "teacher": "teachers",
    "actor": "actors", "farmer": "farmers", "judge": "judges", "singer": "singers",
}  # fmt: skip
_BETWEEN = ("near", "behind", "beside", "with", "above")
_VERBS = (("is", "are"), ("was", "were"), ("has", "have"))
_LETTERS = tuple(f"{a}{b}" for a in "bdfgklmnprst" for b in ("ako", "emi", "ulo"))
"""Words without a meaning, for sequences that repeat."""


@dataclass(frozen=True)
class _Drawn:
    """A prompt: its words, the answer, a foil, and the places of the words that decide."""

    words: tuple[str, ...]
    answer: str
    foil: str
    decisive: frozenset[int]


def _ioi(draw: random.Random) -> _Drawn:
    """Indirect object (Wang et al. 2023): who is named once receives; both mentions of the other name and his own decide."""
    receiver, giver = draw.sample(_NAMES, 2)
    first, second = draw.choice(((receiver, giver), (giver, receiver)))
    words = f"When {first} and {second} went to the {draw.choice(_PLACES)} , {giver} gave a {draw.choice(_THINGS)} to"
    told = tuple(words.split())
    return _Drawn(
        told, receiver, giver, frozenset(place for place, word in enumerate(told) if word in (receiver, giver))
    )


def _greater_than(draw: random.Random) -> _Drawn:
    """Greater than (Hanna et al. 2023): an end lies behind its beginning, whose last two digits decide."""
    start = draw.randint(5, 94)
    century = draw.choice(_CENTURIES)
    words = f"The {draw.choice(_EVENTS)} lasted from the year {century} {start:02d} to the year {century}"
    told = tuple(words.split())
    later, earlier = draw.randint(start + 1, 99), draw.randint(0, start - 1)
    return _Drawn(told, f"{later:02d}", f"{earlier:02d}", frozenset({told.index(f"{start:02d}", 6)}))


def _induction(draw: random.Random) -> _Drawn:
    """What followed a word before follows it again (Olsson et al. 2022): both its places decide, and what followed."""
    count = draw.randint(5, 9)
    before = draw.sample(_LETTERS, count)
    place = draw.randint(1, count - 2)
    again = before[: place + 1]
    foil = draw.choice([word for word in before if word != before[place + 1]])
    told = (*before, *again)
    return _Drawn(told, before[place + 1], foil, frozenset({place, place + 1, len(told) - 1}))


def _agreement(draw: random.Random) -> _Drawn:
    """A verb agrees with its subject, the first noun, whatever stands between."""
    subject, other = draw.sample(sorted(_NOUNS), 2)
    numbers = draw.randint(0, 1), draw.randint(0, 1)
    shown = [(noun, _NOUNS[noun])[number] for noun, number in zip((subject, other), numbers, strict=True)]
    verbs = draw.choice(_VERBS)
    told = ("the", shown[0], draw.choice(_BETWEEN), "the", shown[1])
    return _Drawn(told, verbs[numbers[0]], verbs[1 - numbers[0]], frozenset({1}))


_DRAWS: Mapping[Kind, Callable[[random.Random], _Drawn]] = {
    "ioi": _ioi,
    "greater_than": _greater_than,
    "induction": _induction,
    "agreement": _agreement,
}


@configurable
class GeneratedPrompts:
    """Prompts of a seeded grammar for a causal language model, an answer and one foil each.

    - `ioi`: "When Mary and John went to the store , John gave a drink to" – Mary, not John;
    - `greater_than`: "The war lasted from the year 17 32 to the year 17" – 58, not 11;
    - `induction`: "bako demi fulo gako bako demi" – fulo, not gako;
    - `agreement`: "the keys near the dog" – are, not is.

    The rationale marks the words that the answer follows from, but the last one, which is not rated: where it is removed,
    the model is read at another place. `model=tiny_lm` learns from a mixture of all kinds (`learned_from`), whichever is
    scored.

    Attributes:
        kinds: of prompts; several are drawn in turn.
        name: the task's name in run folders.
        seed: determines every prompt; each split has its own stream.
        train, validation, test: prompts in each split; of the mixture likewise.
    """

    version: ClassVar[int] = 1

    kinds: Sequence[Kind] = ("ioi", "greater_than", "induction", "agreement")
    name: str = "generated_prompts"
    seed: Natural = 0
    train: Count = 40_000
    validation: Count = 400
    test: Count = 400
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """What the candidates are called."""
        return ("answer", "foil")

    @property
    def rationale_is_truth(self) -> bool:
        """The answer follows from these words and no others."""
        return True

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings and every prompt but those of training, which the settings decide."""
        settings = {"task": "generated_prompts", "version": self.version, "kinds": list(self.kinds), "seed": self.seed}
        parts = [f"{e.uid}\t{e.inputs}\t{e.candidates}" for split in ("validation", "test") for e in self.split(split)]
        return digest(settings | {"train": self.train}, parts)

    @cached_property
    def learned_from(self) -> "GeneratedPrompts":
        """The mixture of all kinds, with the slowest to be learned in half of its prompts."""
        kinds = (*_DRAWS, "induction", "induction")
        sizes = {"train": self.train, "validation": self.validation, "test": self.test}
        return GeneratedPrompts(kinds, seed=self.seed, **sizes)

    def split(self, name: str) -> Sequence[Example]:
        """Prompts of "train", "validation" or "test"."""
        check_split(self.name, name)
        if name not in self._splits:
            self._splits[name] = tuple(self._drawn(name))
        return self._splits[name]

    def _drawn(self, split: str) -> Iterator[Example]:
        draws = {kind: random.Random(f"{self.seed}:{kind}:{split}") for kind in self.kinds}
        for number in range(getattr(self, split)):
            kind = self.kinds[number % len(self.kinds)]
            found = _DRAWS[kind](draws[kind])
            places = np.arange(len(found.words))
            rated = places < len(found.words) - 1
            yield Example(
                uid=f"{split}-{number:06d}",
                inputs=" ".join(found.words),
                label=0,
                rationale=np.isin(places, sorted(found.decisive)) & rated,
                rated=rated,
                candidates=(found.answer, found.foil),
                meta={"kind": kind},
            )
