"""Prompts of a seeded grammar whose next token follows from known words, so that the right explanation is known."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np

from benchmark.settings.declared import AtLeast, Count, Natural, SettingError, configurable
from benchmark.types import Example
from benchmark.words import in_units, spans_of
from tasks.common import check_split, digest

Kind = Literal["ioi", "greater_than", "induction", "agreement", "needle", "facts"]

_NAMES = (
    "Mary", "John", "Alice", "Bob", "Anna", "Paul", "Laura", "Peter", "Emma", "Tom", "Kate", "Mark", "Julia", "Simon",
    "Clara", "David", "Nancy", "Felix", "Rosa", "Oscar",
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

_START = 7
"""Where the last two digits of the first year stand in a prompt of `greater_than`, behind its century."""

_COLOURS = ("red", "blue", "green", "black", "white", "yellow", "orange", "purple", "brown", "pink", "gray", "gold")
_OBJECTS = (
    "box", "ball", "car", "door", "hat", "cup", "chair", "table", "bag", "pen", "boat", "house", "shirt", "book", "lamp",
    "phone", "bike", "clock", "plate", "wall", "truck", "tent", "desk", "flag",
)  # fmt: skip
_FACTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Where does {name} live?": (
        "{name} lives in",
        ("Paris", "London", "Berlin", "Rome", "Madrid", "Tokyo", "Boston", "Chicago", "Vienna", "Dublin"),
    ),
    "What does {name} eat?": (
        "{name} eats",
        ("bread", "fish", "rice", "soup", "meat", "cheese", "fruit", "pizza", "cake", "eggs"),
    ),
    "What does {name} play?": (
        "{name} plays",
        ("chess", "piano", "tennis", "football", "guitar", "golf", "cards", "drums", "hockey", "violin"),
    ),
}
"""Question -> how a fact begins that answers it, and how such facts end."""


@dataclass(frozen=True)
class _Drawn:
    """A prompt: its words, the answer, a foil, the places of the words that decide, and its corrupted counterpart."""

    words: tuple[str, ...]
    answer: str
    foil: str
    decisive: frozenset[int]
    corrupted: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Context:
    """A prompt with a context.

    Attributes:
        text: as a model reads it.
        answer, foil: tokens that may come next.
        rated: for each unit of the text whether it is scored.
        decisive: for each whether the answer follows from it.
    """

    text: str
    answer: str
    foil: str
    rated: tuple[bool, ...]
    decisive: tuple[bool, ...]


def _ioi(draw: random.Random) -> _Drawn:
    """Indirect object (Wang et al. 2023): who is named once receives; both mentions of the other name and his own decide."""
    receiver, giver = draw.sample(_NAMES, 2)
    first, second = draw.choice(((receiver, giver), (giver, receiver)))
    words = f"When {first} and {second} went to the {draw.choice(_PLACES)} , {giver} gave a {draw.choice(_THINGS)} to"
    told = tuple(words.split())
    places = [place for place, word in enumerate(told) if word in (receiver, giver)]
    return _Drawn(told, receiver, giver, frozenset(places), _with(told, {places[-1]: receiver}))


def _greater_than(draw: random.Random) -> _Drawn:
    """Greater than (Hanna et al. 2023): an end lies behind its beginning, whose last two digits decide."""
    start = draw.randint(5, 94)
    century = draw.choice(_CENTURIES)
    words = f"The {draw.choice(_EVENTS)} lasted from the year {century} {start:02d} to the year {century}"
    told = tuple(words.split())
    later, earlier = draw.randint(start + 1, 99), draw.randint(0, start - 1)
    place = _START
    return _Drawn(told, f"{later:02d}", f"{earlier:02d}", frozenset({place}), _with(told, {place: "01"}))


def _induction(draw: random.Random) -> _Drawn:
    """What followed a word before follows it again (Olsson et al. 2022): both its places decide, and what followed."""
    count = draw.randint(5, 9)
    before = draw.sample(_LETTERS, count)
    place = draw.randint(1, count - 2)
    again = before[: place + 1]
    foil = draw.choice([word for word in before if word != before[place + 1]])
    told = (*before, *again)
    decisive = frozenset({place, place + 1, len(told) - 1})
    return _Drawn(told, before[place + 1], foil, decisive, _with(told, {place + 1: foil}))


def _agreement(draw: random.Random) -> _Drawn:
    """A verb agrees with its subject, the first noun, whatever stands between."""
    subject, other = draw.sample(sorted(_NOUNS), 2)
    numbers = draw.randint(0, 1), draw.randint(0, 1)
    shown = [(noun, _NOUNS[noun])[number] for noun, number in zip((subject, other), numbers, strict=True)]
    verbs = draw.choice(_VERBS)
    told = ("the", shown[0], draw.choice(_BETWEEN), "the", shown[1])
    other_number = (subject, _NOUNS[subject])[1 - numbers[0]]
    return _Drawn(told, verbs[numbers[0]], verbs[1 - numbers[0]], frozenset({1}), _with(told, {1: other_number}))


def _with(words: Sequence[str], exchanged: Mapping[int, str]) -> tuple[str, ...]:
    """The words with others in some places."""
    return tuple(exchanged.get(place, word) for place, word in enumerate(words))


def _needle(draw: random.Random, pairs: int) -> _Context:
    """One of many pairs is asked for: the words of its sentence that say which and what, and those that ask, decide."""
    objects = draw.sample(_OBJECTS, pairs)
    colours = [draw.choice(_COLOURS) for _ in objects]
    asked = draw.randrange(pairs)
    told = [f"The {one} is {colour}." for one, colour in zip(objects, colours, strict=True)]
    question = f"Question: What color is the {objects[asked]}? Answer: The {objects[asked]} is"
    words = " ".join([*told, question]).split()
    others = {*colours} - {colours[asked]} or {*_COLOURS} - {colours[asked]}
    decisive = {4 * asked + 1, 4 * asked + 3, 4 * pairs + 5, len(words) - 2}
    return _Context(
        " ".join(words),
        colours[asked],
        draw.choice(sorted(others)),
        tuple(place < len(words) - 1 for place in range(len(words))),
        tuple(place in decisive for place in range(len(words))),
    )


def _facts(draw: random.Random, pairs: int) -> _Context:
    """A question about one of many facts: the sentence that holds the answer decides, and sentences are what is rated."""
    kinds = sorted(_FACTS)
    every = [(question, name) for question in kinds for name in _NAMES]
    chosen = draw.sample(every, pairs)
    ends = [draw.choice(_FACTS[question][1]) for question, _ in chosen]
    asked = draw.randrange(pairs)
    question, name = chosen[asked]
    begin = [_FACTS[kind][0].format(name=who) for kind, who in chosen]
    told = [f"{start} {end}." for start, end in zip(begin, ends, strict=True)]
    text = f"{' '.join(told)} Question: {question.format(name=name)} Answer: {begin[asked]}"
    others = {end for (kind, _), end in zip(chosen, ends, strict=True) if kind == question} - {ends[asked]}
    foil = draw.choice(sorted(others or {*_FACTS[question][1]} - {ends[asked]}))
    units = len(spans_of(in_units(text, "sentences")))
    return _Context(
        in_units(text, "sentences"),
        ends[asked],
        foil,
        tuple(place < pairs for place in range(units)),
        tuple(place == asked for place in range(units)),
    )


_CONTEXTS: Mapping[Kind, Callable[[random.Random, int], _Context]] = {"needle": _needle, "facts": _facts}
_DRAWS: Mapping[Kind, Callable[[random.Random], _Drawn]] = {
    "ioi": _ioi,
    "greater_than": _greater_than,
    "induction": _induction,
    "agreement": _agreement,
}
_MIXTURE: tuple[Kind, ...] = (*_DRAWS, "induction", "induction")
"""What the small model learns from."""


@configurable
class GeneratedPrompts:
    """Prompts of a seeded grammar for a causal language model, an answer and one foil each.

    - `ioi`: "When Mary and John went to the store , John gave a drink to" – Mary, not John;
    - `greater_than`: "The war lasted from the year 17 32 to the year 17" – 58, not 11;
    - `induction`: "bako demi fulo gako bako demi" – fulo, not gako;
    - `agreement`: "the keys near the dog" – are, not is;
    - `needle`: "The box is red. The cup is blue. Question: What color is the box? Answer: The box is" – red, not blue, in a
      context of `pairs` such sentences;
    - `facts`: "Anna lives in Paris. Paul eats fish. Question: Where does Anna live? Answer: Anna lives in" – Paris. Here
      the units are the `pairs` sentences of the context, of which one holds the answer.

    The rationale marks the words that the answer follows from, but the last one, which is not rated: where it is removed,
    the model is read at another place. `model=tiny_lm` learns from a mixture of the first four kinds (`learned_from`),
    whichever is scored; it does not learn to look up pairs within its minutes, so that `needle` and `facts` are for models
    that are there.

    Attributes:
        kinds: of prompts; several are drawn in turn.
        pairs: sentences in the context of `needle` and `facts`, at most 24.
        corrupted: give each prompt a counterpart of as many words, with which circuits are patched: the giver named a second
            time is the receiver (`ioi`), the war began in the year 01 of its century (`greater_than`, as in the source), the
            foil followed the word that is asked for (`induction`), the subject has the other number (`agreement`).
        name: the task's name in run folders.
        seed: determines every prompt; each split has its own stream.
        train, validation, test: prompts in each split; of the mixture likewise.
    """

    version: ClassVar[int] = 2  # 2: every name is one token of common vocabularies

    kinds: Sequence[Kind] = ("ioi", "greater_than", "induction", "agreement")
    name: str = "generated_prompts"
    seed: Natural = 0
    train: Count = 40_000
    validation: Count = 400
    test: Count = 400
    pairs: Annotated[int, AtLeast(2)] = 8
    corrupted: bool = False
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.pairs > len(_OBJECTS):
            raise SettingError("pairs", self.pairs, f"2 to {len(_OBJECTS)}")
        if self.corrupted and (without := set(self.kinds) & {*_CONTEXTS}):
            raise SettingError(
                "corrupted", self.corrupted, f"false, as prompts of {', '.join(sorted(without))} have no counterpart"
            )

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
        if set(self.kinds) & {*_CONTEXTS}:
            settings["pairs"] = self.pairs
        if self.corrupted:
            settings["corrupted"] = True  # another value where counterparts become others
        if "greater_than" in self.kinds and tuple(self.kinds) != _MIXTURE:
            settings["decisive"] = _START  # the century was marked where it is equal; of which no model learns anything
        parts = [f"{e.uid}\t{e.inputs}\t{e.candidates}" for split in ("validation", "test") for e in self.split(split)]
        return digest(settings | {"train": self.train}, parts)

    @cached_property
    def learned_from(self) -> "GeneratedPrompts":
        """The mixture of all kinds that are learned, with the slowest in half of its prompts; itself where it has others."""
        if set(self.kinds) & {*_CONTEXTS}:
            return self
        sizes = {"train": self.train, "validation": self.validation, "test": self.test}
        return GeneratedPrompts(_MIXTURE, seed=self.seed, **sizes)

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
            if kind in _CONTEXTS:
                yield _in_context(f"{split}-{number:06d}", kind, _CONTEXTS[kind](draws[kind], self.pairs))
                continue
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
                corrupted=" ".join(found.corrupted) if self.corrupted else None,
            )


def _in_context(uid: str, kind: Kind, found: _Context) -> Example:
    return Example(
        uid=uid,
        inputs=found.text,
        label=0,
        rationale=np.array(found.decisive) & np.array(found.rated),
        rated=np.array(found.rated),
        candidates=(found.answer, found.foil),
        meta={"kind": kind, "looked_up": True},
    )
