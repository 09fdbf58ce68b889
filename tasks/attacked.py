"""A task whose pairs are attacked: shuffled, cut, or joined by unreadable distractors (Si et al. 2019).

Defined in docs/protocols.md, section 17.
"""

import operator
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from typing import Any, ClassVar, Literal

import numpy as np

from benchmark.annotations import (
    KEYS,
    OPTION_ATTACKS,
    Attack,
    Moved,
    Option,
    PlantedWords,
    passage_segment,
    question_of,
)
from benchmark.errors import UserError
from benchmark.passages import passage_of
from benchmark.settings.declared import Natural, configurable
from benchmark.types import Example, Task
from benchmark.words import UnitText, units_of
from tasks.attacked_documents import moved_documents
from tasks.common import check_split, digest
from tasks.word_attacks import Words, added, reads, removed, sentences, shuffled


@configurable
class Attacked:
    """The examples of a pair task or a multiple-choice task, attacked; labels and identifiers stay.

    With P the passage, a pair's first segment, and Q the second (of a multiple-choice task the question, without the
    option); where the first segment is a query (`Example.query_units`, as in ERASER), that is Q and the second is P:

    - `p_shuffle`, `q_shuffle`, `pq_shuffle`: their words in a random order, each segment on its own; the same for all
      options of a question.
    - `p_remove`, `q_remove`, `pq_remove`: without their words; a segment that would be empty is a single ".".

    Of multiple-choice tasks alone, with O a wrong option, R a right one, S a sentence of the passage drawn at random for O,
    and right options left as they are:

    - `add_sent2pas_shuffle`: Q and all wrong options, shuffled, behind P; drawn again while a wrong option of more than one
      word can be read in it. One shuffle for all options of a question.
    - `add_sent2opt_shuffle`: O and S, shuffled, in place of O. `add_ans2opt_shuffle`: O and R, shuffled.
    - `sent2opt_shuffle`: S, shuffled, in place of O. `ans2opt_shuffle`: R, shuffled.
    - `add_sent2opt`: O and S in place of O. `add_ans2opt`: O and R.

    Questions without a right or without a wrong option stay as they are. What is not rated stays so, and a word that is
    added is rated where any word of its segment is. Shuffled words are at least .65 in edit distance over length from what
    they were, where they allow it (`word_attacks.shuffled`). A rationale moves with its words, and with it ERASER's spans
    (`attacked_documents.moved_documents`); `Example.meta` has a `Moved`: where each word stood.

    Attributes:
        task: gives the examples.
        attack: see above.
        learned: what models are trained on: `clean` examples or `attacked` ones.
        seed: of orders, sentences and options.

    Raises:
        UserError: an example is no pair of texts, has other units than words, or under an attack of options is none of a
            question.

    Source: Si et al. 2019 (arXiv:1910.12391), sections 3 and 4; "." for a removed segment, the least degree of
    each example, and drawing anew at most 50 times, are ours.
    """

    version: ClassVar[int] = 2

    task: Task
    attack: Attack = "pq_shuffle"
    learned: Literal["clean", "attacked"] = "clean"
    seed: Natural = 0
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The task's name with the attack."""
        return f"{self.task.name}-{self.attack}"

    @property
    def labels(self) -> Sequence[str]:
        """Those of the task."""
        return self.task.labels

    @cached_property
    def fingerprint(self) -> str:
        """Of the task, the attack and the seed."""
        settings = {"task": "attacked", "version": self.version, "attack": self.attack, "seed": self.seed}
        return digest(settings, [self.task.fingerprint])

    @property
    def learned_from(self) -> Task:
        """The task that models are trained on."""
        return getattr(self.task, "learned_from", self.task) if self.learned == "clean" else self

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", in the order of the task's; inputs are pairs of lists of words."""
        check_split(self.name, name)
        if name not in self._splits:
            clean, whole = self.task.split(name), getattr(self.task, "learned_from", self.task)
            questions = (
                _questions(whole.split(name)) if self.attack in OPTION_ATTACKS else {}
            )  # some may be left out of a test
            self._splits[name] = tuple(self._attacked(example, questions) for example in clean)
        return self._splits[name]

    def _attacked(self, example: Example, questions: Mapping[str, "_Choice"]) -> Example:
        if not isinstance(example.inputs, tuple) or len(example.inputs) != 2:
            raise UserError(f"task.attack={self.attack}: example '{example.uid}' is no pair of texts")
        words = _numbered(example)
        if self.attack in OPTION_ATTACKS:
            passage, option, distractor = self._distracted(example, words, questions)
            question, degrees = words.question, [distractor]
        else:
            passage, question = self._changed("p", words.passage, example), self._changed("q", words.question, example)
            option, degrees = words.option, [passage.degree, question.degree]
        segments = [[passage], [question, option]]
        if passage_segment(example) == 1:
            segments.reverse()
        first, second = (_joined(parts) for parts in segments)
        origin = first.origin + second.origin
        measured = [degree for degree in degrees if degree is not None]
        told = example.meta.get(KEYS[Option])
        more: dict[str, Any] = {}
        if isinstance(told, Option):
            more[KEYS[Option]] = replace(told, query_words=len(question.words))
        degree = float(np.mean(measured)) if measured else None
        moved = Moved(origin, degree, first.shuffled + second.shuffled, passage_of(example))
        if isinstance(planted := example.meta.get(KEYS[PlantedWords]), PlantedWords):
            more[KEYS[PlantedWords]] = replace(planted, marks=_with_their_words(planted.marks, origin))
        attacked = replace(
            example,
            inputs=(list(first.words), list(second.words)),
            rationale=None if example.rationale is None else _with_their_words(example.rationale, origin),
            rated=None if example.rated is None else _rated(example, (first, second)),
            hidden=None if example.hidden is None else _with_their_words(example.hidden, origin),
            query_units=len(first.words) if example.query_units else 0,
            meta={**example.meta, **more, KEYS[Moved]: moved},
        )
        return moved_documents(example, attacked)

    def _changed(self, segment: str, words: Words, example: Example) -> Words:
        which, _, how = self.attack.partition("_")
        if segment not in which:
            return words
        return words[:0] if how == "remove" else _shuffled(words, self._about(segment, question_of(example)))

    def _about(self, *what: str) -> str:
        """A seed that depends on what is drawn alone."""
        return ":".join((str(self.seed), self.attack, *what))

    def _distracted(
        self, example: Example, words: "_Numbered", questions: Mapping[str, "_Choice"]
    ) -> tuple[Words, Words, float | None]:
        """Passage, option and the degree of what is shuffled."""
        told = example.meta.get(KEYS[Option])
        if not isinstance(told, Option):
            raise UserError(f"task.attack={self.attack}: example '{example.uid}' is no option of a question")
        choice = questions[told.question]
        if not choice.wrong or not choice.right:
            return words.passage, words.option, None
        if self.attack == "add_sent2pas_shuffle":
            distractor = added((*words.question.words, *(word for option in choice.wrong for word in option)))
            phrases = [option for option in choice.wrong if len(option) > 1]

            def unreadable(found: Sequence[str]) -> bool:
                return not any(reads(found, phrase) for phrase in phrases)

            distractor = shuffled(distractor, random.Random(self._about(told.question)), unreadable)
            return words.passage + distractor, words.option, distractor.degree
        if example.label == 1:
            return words.passage, words.option, None
        draw = random.Random(self._about(example.uid))
        source = sentences(words.passage.words) if "sent2opt" in self.attack else choice.right
        option = added(draw.choice(source))
        if self.attack.startswith("add_"):
            option = words.option + option
        if self.attack.endswith("_shuffle"):
            option = shuffled(option, draw)
        return words.passage, option, option.degree


@dataclass(frozen=True)
class _Numbered:
    """The words of an example, numbered over both segments."""

    passage: Words
    question: Words
    option: Words


@dataclass(frozen=True)
class _Choice:
    """The words of a question's options."""

    right: Sequence[tuple[str, ...]]
    wrong: Sequence[tuple[str, ...]]


@lru_cache(maxsize=4)  # the options of a question follow each other
def _shuffled(words: Words, seed: str) -> Words:
    return shuffled(words, random.Random(seed))


def _numbered(example: Example) -> _Numbered:
    first, second = _words(example)
    told = example.meta.get(KEYS[Option])
    query = told.query_words if isinstance(told, Option) else len(second)
    both = Words(first + second, tuple(range(len(first) + len(second))))
    if passage_segment(example) == 1:
        return _Numbered(both[len(first) :], both[: len(first)], both[:0])
    return _Numbered(both[: len(first)], both[len(first) : len(first) + query], both[len(first) + query :])


def _joined(parts: Sequence[Words]) -> Words:
    """A segment of these parts; without words what stands for it."""
    whole = reduce(operator.add, parts)
    return whole if whole.words else removed()


def _with_their_words(marks: np.ndarray, origin: Sequence[int]) -> np.ndarray:
    """Marks of an example's words where the words stand now; an added word has none."""
    return np.array([place >= 0 and bool(marks[place]) for place in origin], dtype=bool)


def _rated(example: Example, segments: tuple[Words, Words]) -> np.ndarray:
    """Whether each word is rated: as it was, and of an added one as any of its segment was."""
    rated, first = example.rated, len(_words(example)[0])
    assert rated is not None  # who asks has looked
    parts = [_with_their_words(rated, words.origin) for words in segments]
    for part, words, was in zip(parts, segments, (rated[:first], rated[first:]), strict=True):
        part[np.array(words.origin) < 0] = was.any()
    return np.concatenate(parts)


def _words(example: Example) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of both segments."""
    if any(isinstance(text, UnitText) for text in example.inputs):
        raise UserError(
            f"example '{example.uid}' has other units than words, which are attacked; leave task.units at words"
        )
    first, second = map(units_of, example.inputs)
    return tuple(first), tuple(second)


def _questions(examples: Sequence[Example]) -> Mapping[str, _Choice]:
    """The options of every question."""
    found: dict[str, tuple[list[tuple[str, ...]], list[tuple[str, ...]]]] = {}
    for example in examples:
        told = example.meta.get(KEYS[Option])
        if isinstance(told, Option):
            right, wrong = found.setdefault(told.question, ([], []))
            (right if example.label == 1 else wrong).append(_numbered(example).option.words)
    return {question: _Choice(*options) for question, options in found.items()}
