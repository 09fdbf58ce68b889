"""What a task knows of an example's words beyond a label: a parse, mentions of the same thing, a place to look at.

A task puts these into `Example.meta`, which `Batch.meta` carries, under the names of `KEYS`; words are counted as units are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from benchmark.errors import NotApplicable
from benchmark.types import Example


@dataclass(frozen=True)
class Parse:
    """A dependency tree.

    Attributes:
        heads: for each word the number of its head; -1 for the root.
        relations: for each word the name of its relation to its head.
    """

    heads: tuple[int, ...]
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Mention:
    """Words that name something.

    Attributes:
        start, stop: the words `start` to `stop - 1`.
        head: the word that stands for the mention.
        entity: mentions of one entity corefer.
        kind: "pronoun", "proper" or "nominal".
    """

    start: int
    stop: int
    head: int
    entity: str
    kind: str


@dataclass(frozen=True)
class Coreference:
    """The mentions of a document, in the order of their heads."""

    mentions: tuple[Mention, ...]


@dataclass(frozen=True)
class Stimulus:
    """A word that depends on another, and what could be mistaken for that one (Lin et al. 2019).

    Attributes:
        condition: which kind of sentence it is.
        target: the word that depends: an auxiliary or a reflexive.
        antecedent: the words that it depends on.
        distractors: the words of each group that could be mistaken for the antecedent.
    """

    condition: str
    target: int
    antecedent: tuple[int, ...]
    distractors: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Marked:
    """A word that a probe has to find.

    Attributes:
        probe: what is asked: auxiliary, subject noun or n-th token.
        part: what the sentence is for: train, test or generalisation.
        word: its number.
        by_place: whether it is asked for by its place alone, as an n-th token is.
    """

    probe: str
    part: str
    word: int
    by_place: bool = False


@dataclass(frozen=True)
class Option:
    """An example that is one option of a question; the second segment of its pair is the question and the option.

    Attributes:
        question: identifies the question.
        number: of the option, from 0 on.
        options: how many the question has.
        query_words: leading words of the second segment that are the question's.
        needs_order: whether the order of the passage's words decides the question, where that is known.
    """

    question: str
    number: int
    options: int
    query_words: int
    needs_order: bool | None = None


SegmentAttack = Literal["p_shuffle", "q_shuffle", "pq_shuffle", "p_remove", "q_remove", "pq_remove"]
"""Attacks on the words of a pair's first segment (p), of its second (q), or of both (`tasks.attacked`)."""

OptionAttack = Literal[
    "add_sent2pas_shuffle", "add_sent2opt_shuffle", "add_ans2opt_shuffle", "sent2opt_shuffle", "ans2opt_shuffle",
    "add_sent2opt", "add_ans2opt",
]  # fmt: skip
"""Attacks on a question's wrong options, or by them."""

Attack = SegmentAttack | OptionAttack
SEGMENT_ATTACKS: tuple[SegmentAttack, ...] = get_args(SegmentAttack)
OPTION_ATTACKS: tuple[OptionAttack, ...] = get_args(OptionAttack)


@dataclass(frozen=True)
class Moved:
    """Where the words of an attacked example stood before.

    Attributes:
        origin: for each word its number in the clean example; -1 for one that was added.
        degree: edit distance over length of what was shuffled, in words, a mean over segments; None where nothing was.
        shuffled: for each word whether it is one of those that were shuffled.
        passage: the clean passage as `benchmark.passages` reads it, by which it is known which examples share one.
    """

    origin: tuple[int, ...]
    degree: float | None
    shuffled: tuple[bool, ...]
    passage: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class PlantedWords:
    """Words that were planted into an example, and the class whose feature they are.

    Attributes:
        marks: whether each word of the example is one of them.
        label: the class.
    """

    marks: NDArray[np.bool_]
    label: int


Annotation = TypeVar("Annotation", Parse, Coreference, Stimulus, Marked, Option, Moved, PlantedWords)

KEYS: Mapping[type, str] = {
    Parse: "parse",
    Coreference: "coreference",
    Stimulus: "stimulus",
    Marked: "marked",
    Option: "option",
    Moved: "moved",
    PlantedWords: "planted_words",
}
"""Where each kind lies in `Example.meta`."""


PASSAGE_SEGMENT = "passage_segment"
"""Key of `Example.meta`: which segment of a pair is its passage, where it is another than `passage_segment` says."""


def annotation(meta: Mapping[str, Any], kind: type[Annotation]) -> Annotation:
    """The annotation of an example; NotApplicable where the task has none of the kind."""
    if not isinstance(found := meta.get(KEYS[kind]), kind):
        raise NotApplicable(f"the task's examples have no {KEYS[kind]} (benchmark.annotations.{kind.__name__})")
    return found


def annotated(metas: Sequence[Mapping[str, Any]], kind: type[Annotation]) -> list[Annotation]:
    """The annotations of a batch's examples."""
    return [annotation(meta, kind) for meta in metas]


@runtime_checkable
class KnowsShortcuts(Protocol):
    """A task into whose examples phrases are planted that go with a label and should not decide it."""

    @property
    def planted_shortcuts(self) -> Mapping[str, str]:
        """Phrases, each with the name of the label that it goes with; empty where none is planted."""


def question_of(example: Example) -> str:
    """Identifies the question that an example is an option of; of other tasks the example itself."""
    told = example.meta.get(KEYS[Option])
    return told.question if isinstance(told, Option) else example.uid


def passage_segment(example: Example) -> int:
    """Which segment of a pair is the passage: the first, or the second where the first is a query (`query_units`)."""
    return int(example.query_units > 0 and KEYS[Option] not in example.meta)
