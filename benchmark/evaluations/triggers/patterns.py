"""What a trigger is, what it is compared with, and how it is written down for another model of the same task."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.triggers.words import Exclusion
from benchmark.randomness import generator
from benchmark.results.graph import Construction
from benchmark.types import Batch, Compared

if TYPE_CHECKING:
    from benchmark.models import Classifier

_SCHEMA = 1


@dataclass(frozen=True)
class Placed:
    """A word of a trigger and where it stands.

    Attributes:
        word: a whole word as it is written; as published, an entry of the vocabulary.
        segment: 0 for a single text or the first of a pair, 1 for the second.
        position: tokens of the segment before it (as published, those up to it), divided by the tokens of the segment,
            in [0, 1].
    """

    word: str
    segment: int
    position: float


@dataclass(frozen=True)
class Trigger:
    """Words that are inserted together.

    Classes are named, not numbered: another model may order them in another way.

    Attributes:
        words: in the order of the text.
        source: the class whose examples it was found in.
        attacks: the classes whose examples it is inserted into.
        score: what it was ranked by.
        uid: the example that it was found in; None where it was found in none.
        random: words in place of `words`, drawn from the source examples, once per draw.
        matched: words of similar frequency in place of `words`, once per draw.
    """

    words: tuple[Placed, ...]
    source: str
    attacks: tuple[str, ...]
    score: float
    uid: str | None = None
    random: tuple[tuple[str, ...], ...] = ()
    matched: tuple[tuple[str, ...], ...] = ()

    def saying(self, words: Sequence[str]) -> "Trigger":
        """The same places with other words."""
        placed = tuple(replace(old, word=word) for old, word in zip(self.words, words, strict=True))
        return replace(self, words=placed, random=(), matched=())

    def at(self, position: float) -> "Trigger":
        """All words at one relative position of their segments."""
        return replace(self, words=tuple(replace(word, position=position) for word in self.words))


@dataclass(frozen=True)
class Controls:
    """Draws the words that stand in for a trigger's: what an attack at the same places does without the method.

    Attributes:
        counts: words of the source examples and how often they occur.
        draws: of each kind and trigger.
        seed: of the draws, which depend on it and on the trigger alone.
        reach: matched words are at most this many ranks of frequency away.
    """

    counts: Counter[str]
    draws: int = 3
    seed: int = 0
    reach: int = 10

    def added(self, triggers: Sequence[Trigger]) -> list[Trigger]:
        """The triggers with their controls.

        `random`: words drawn uniformly from the distinct words of the source examples. `matched`: each word replaced by
        one of the `2 · reach` words nearest to it in the ranking by frequency (ties in alphabetical order); a word that
        the source examples do not have ranks last. No draw holds a word of its trigger.
        """
        ranking = sorted(self.counts, key=lambda word: (-self.counts[word], word))
        return [self._drawn(trigger, ranking) for trigger in triggers]

    def _drawn(self, trigger: Trigger, ranking: Sequence[str]) -> Trigger:
        words_of_trigger = {placed.word.casefold() for placed in trigger.words}
        others = [word for word in ranking if word.casefold() not in words_of_trigger]
        if not others:
            raise NotApplicable("the source examples have no words but those of a trigger; take more of them")
        draw = generator(self.seed, trigger.source, *(placed.word for placed in trigger.words))
        near_words = [self._near(placed.word, others) for placed in trigger.words]
        random, matched = [], []
        for _ in range(self.draws):
            random.append(tuple(others[int(draw.integers(len(others)))] for _ in trigger.words))
            matched.append(tuple(words[int(draw.integers(len(words)))] for words in near_words))
        return replace(trigger, random=tuple(random), matched=tuple(matched))

    def _near(self, word: str, others: Sequence[str]) -> list[str]:
        """Up to 2 · reach of the other words around the rank of a word."""
        count = self.counts.get(word, 0)
        rank = sum((-self.counts[other], other) < (-count, word) for other in others)
        low = max(0, min(rank - self.reach, len(others) - 2 * self.reach))
        return list(others[low : low + 2 * self.reach])


@dataclass(frozen=True)
class Search:
    """What is asked of a search for triggers.

    Attributes:
        triggers: how many for each attacked class.
        words: how many words each has.
        exclusion: which words may not be used.
    """

    triggers: int
    words: int
    exclusion: Exclusion


class TriggerSearch(Compared, ABC):
    """What stands in the place of an explainer and finds triggers itself rather than by scoring inputs."""

    @abstractmethod
    def search_triggers(self, model: "Classifier", batches: Sequence[Batch], search: Search) -> list[Trigger]:
        """Triggers from labelled, correctly classified examples.

        Raises:
            NotApplicable: there are none, with the reason.
        """


Variations = Mapping[str, Sequence[tuple[float, Sequence[Trigger]]]]
"""By metric, the triggers of other rules at each x."""


def written(
    triggers: Sequence[Trigger],
    model: "Classifier",
    variations: Variations | None = None,
    construction: Construction = "paper",
) -> dict[str, Any]:
    """The artifact: what `read`, `read_variations` and `read_construction` take, as plain JSON values."""
    others = {
        metric: [{"x": x, "triggers": [_plain(asdict(trigger)) for trigger in of_rule]} for x, of_rule in curve]
        for metric, curve in (variations or {}).items()
    }
    return {
        "schema": _SCHEMA,
        "model": model.name,
        "fingerprint": model.fingerprint,
        "construction": construction,
        "triggers": [_plain(asdict(trigger)) for trigger in triggers],
        "variations": others,
    }


def load(path: str, setting: str) -> dict[str, Any]:
    """An artifact of triggers from a file.

    Raises:
        UserError: naming `setting`, where the file cannot be read or is no such artifact.
    """
    try:
        loaded = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{setting} cannot be read ({type(error).__name__}); give the triggers-….json of a run folder"
        ) from error
    if not isinstance(loaded, dict):
        raise UserError(f"{setting} holds no triggers; give the triggers-….json of a run folder")
    read(loaded, setting)
    return loaded


def read(artifact: Mapping[str, Any], setting: str) -> tuple[Trigger, ...]:
    """The triggers of an artifact.

    Raises:
        UserError: naming `setting`, where it is no artifact of triggers.
    """
    if artifact.get("schema") != _SCHEMA or not artifact.get("triggers"):
        raise UserError(f"{setting} holds no triggers of schema {_SCHEMA}; give the JSON file that this test wrote")
    try:
        construction = read_construction(artifact)
        return tuple(_trigger(value, construction) for value in artifact["triggers"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{setting} holds a trigger that cannot be read ({type(error).__name__}: {error})") from error


def read_variations(artifact: Mapping[str, Any]) -> Variations:
    """The triggers of other rules that an artifact holds, by metric."""
    construction = read_construction(artifact)

    def triggers(point: Mapping[str, Any]) -> tuple[Trigger, ...]:
        return tuple(_trigger(value, construction) for value in point["triggers"])

    return {
        str(metric): [(float(point["x"]), triggers(point)) for point in curve]
        for metric, curve in artifact.get("variations", {}).items()
    }


def read_construction(artifact: Mapping[str, Any]) -> Construction:
    """How the triggers of an artifact are spelled and inserted; ValueError where it is unknown."""
    construction = artifact.get("construction", "paper")
    for allowed in get_args(Construction):
        if construction == allowed:
            return cast(Construction, allowed)
    raise ValueError(f"construction={construction} is unknown")


def _plain(value: Any) -> Any:
    """Tuples as lists: what JSON gives back, so that an artifact from a file equals a fresh one."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _trigger(value: Mapping[str, Any], construction: Construction) -> Trigger:
    words = tuple(Placed(str(w["word"]), int(w["segment"]), float(w["position"])) for w in value["words"])
    if not words and construction == "paper":
        raise ValueError("a trigger has no words")
    if not all(0 <= word.position <= 1 and word.segment >= 0 for word in words):
        raise ValueError("words need positions in [0, 1] and segments from 0")
    controls = {name: tuple(tuple(map(str, draw)) for draw in value.get(name, ())) for name in ("random", "matched")}
    if any(len(draw) != len(words) for draws in controls.values() for draw in draws):
        raise ValueError("a control has another number of words than its trigger")
    return Trigger(
        words=words,
        source=str(value["source"]),
        attacks=tuple(map(str, value["attacks"])),
        score=float(value["score"]),
        uid=None if value.get("uid") is None else str(value["uid"]),
        random=controls["random"],
        matched=controls["matched"],
    )
