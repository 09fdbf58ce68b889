"""A classification task as prompts for a causal language model: its texts in a template, its labels as words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from string import Formatter
from typing import Any, ClassVar

import numpy as np

from benchmark.errors import UserError
from benchmark.settings.declared import Natural, configurable
from benchmark.types import Example, Task
from benchmark.words import Spans, UnitText, spans_of
from tasks.common import check_split, digest

FIELDS = ("text", "first", "second")
"""What a template may hold: the text, or the two of a pair."""


@configurable
class Prompted:
    """The examples of another task, each in a template that ends where its label would be said.

    Candidates for the next token are the words of all labels, that of the example's own label first. Rated are the words of
    the example's texts alone, but those of a query: neither what the template says nor the examples that are shown before,
    nor the last word of the prompt. A rationale stays what it was; what other tests know of the examples is left behind.

    Attributes:
        task: gives texts and labels.
        template: what is asked, with `{text}`, or of pairs with `{first}` and `{second}`, each once.
        words: what the labels are called in the prompt, in the order of the task's labels; None: their names.
        shots: examples of the training split that stand before every prompt, with their labels in turn.
        seed: draws these examples.

    Raises:
        UserError: the template lacks a text or names something else; labels and words are not as many; an example has no
            label, or is no text.
    """

    version: ClassVar[int] = 1

    task: Task
    template: str = "Review: {text}\nSentiment:"
    words: Sequence[str] | None = None
    shots: Natural = 0
    seed: Natural = 0
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.words is not None and len(self.words) != len(self.task.labels):
            raise UserError(
                f"task.words={list(self.words)}: the task {self.task.name} has {len(self.task.labels)} labels "
                f"({', '.join(self.task.labels)}); give a word for each, in this order"
            )
        if len(set(self._words)) < len(self._words):
            raise UserError(f"task.words={list(self._words)}: two labels have the same word")
        if sorted(self._named) not in (["text"], ["first", "second"]):
            raise UserError(
                f"task.template={self.template!r}: give {{text}} once, or of pairs {{first}} and {{second}} once each"
            )

    @cached_property
    def _named(self) -> tuple[str, ...]:
        """The fields of the template; none where it cannot be read."""
        try:
            return tuple(name for _, name, _, _ in Formatter().parse(self.template) if name is not None)
        except ValueError:  # a brace that stands alone
            return ()

    @property
    def name(self) -> str:
        """The task's name, prompted."""
        return f"{self.task.name}-prompted"

    @property
    def labels(self) -> Sequence[str]:
        """What the candidates are called."""
        foils = len(self.task.labels) - 1
        return ("answer", *(["foil"] if foils == 1 else [f"foil {number}" for number in range(1, foils + 1)]))

    @property
    def _words(self) -> tuple[str, ...]:
        return tuple(map(str, self.task.labels if self.words is None else self.words))

    @cached_property
    def fingerprint(self) -> str:
        """Of the task and the settings."""
        settings = {"template": self.template, "words": self._words, "shots": self.shots, "seed": self.seed}
        return digest({"task": "prompted", "version": self.version, **settings}, [self.task.fingerprint])

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", in the order of the task's."""
        check_split(self.name, name)
        if name not in self._splits:
            self._splits[name] = tuple(map(self._prompt, self.task.split(name)))
        return self._splits[name]

    def _before(self, uid: str) -> str:
        """The examples that stand before a prompt; an example never stands before itself."""
        shown = [next((one for one in of_label if one.uid != uid), None) for of_label in self._drawn]
        if None in shown:
            raise UserError(
                f"task.shots={self.shots}: the training split of {self.task.name} has too few examples of a label"
            )
        return "".join(f"{self._filled(one).text} {self._words[one.label]}\n\n" for one in shown if one is not None)

    @cached_property
    def _drawn(self) -> Sequence[Sequence[Example]]:
        """For each of the shots an example and one that may stand in for it."""
        if not self.shots:
            return ()
        examples = [example for example in self.task.split("train") if example.label >= 0]
        Random(self.seed).shuffle(examples)
        by_label = [[e for e in examples if e.label == label] for label in range(len(self.task.labels))]
        turns = [divmod(number, len(by_label)) for number in range(self.shots)]
        rounds = -(-self.shots // len(by_label))
        return [[*by_label[label][turn : turn + 1], *by_label[label][rounds : rounds + 1]] for turn, label in turns]

    def _prompt(self, example: Example) -> Example:
        if not 0 <= example.label < len(self._words):
            raise UserError(f"example '{example.uid}' of {self.task.name} has no label, so that no word is its answer")
        before, filled = self._before(example.uid), self._filled(example)
        spans = [*spans_of(before), *((start + len(before), end + len(before)) for start, end in filled.spans)]
        units = np.array(filled.units, dtype=np.int64) + len(spans_of(before))
        own = np.arange(len(units)) >= example.query_units
        if example.rated is not None:
            own &= self._marks(example, example.rated, len(units), "rated")
        rated, rationale = np.zeros(len(spans), dtype=bool), None
        rated[units[own]] = True
        rated[-1] = False  # where it is removed, the model is read at another place
        if example.rationale is not None:
            rationale = np.zeros(len(spans), dtype=bool)
            rationale[units] = self._marks(example, example.rationale, len(units), "its rationale")
            rationale &= rated
        answer = self._words[example.label]
        return Example(
            uid=example.uid,
            inputs=UnitText(before + filled.text, tuple(spans)),
            label=0,
            rationale=rationale,
            rated=rated,
            candidates=(answer, *(word for word in self._words if word != answer)),
        )

    def _marks(self, example: Example, marks: np.ndarray, n: int, what: str) -> np.ndarray:
        if len(marks) != n:
            raise UserError(
                f"example '{example.uid}' of {self.task.name} has {n} words, and {what} says of {len(marks)}"
            )
        return np.asarray(marks, dtype=bool)

    def _filled(self, example: Example) -> "_Filled":
        """The template with an example's texts."""
        parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
        names = FIELDS[:1] if len(parts) == 1 else FIELDS[1:]
        if names[0] not in self._named:
            kind = "single texts" if len(parts) == 1 else "pairs of texts"
            raise UserError(
                f"task.template={self.template!r}: the task {self.task.name} has {kind}; give "
                f"{' and '.join(f'{{{name}}}' for name in names)}"
            )
        texts = {name: self._own(example, part) for name, part in zip(names, parts, strict=True)}
        told, spans, units = "", list[tuple[int, int]](), {}
        for literal, name, _, _ in Formatter().parse(self.template):
            spans += [(start + len(told), end + len(told)) for start, end in spans_of(literal)]
            told += literal
            if name is not None:
                text, own = texts[name]
                units[name] = range(len(spans), len(spans) + len(own))
                spans += [(start + len(told), end + len(told)) for start, end in own]
                told += text
        return _Filled(told, spans, [unit for name in names for unit in units[name]])

    def _own(self, example: Example, part: Any) -> tuple[str, Spans]:
        """A text and where its units are."""
        if isinstance(part, UnitText) and part.spans is None:
            raise UserError(
                f"task.task.units=tokens: the units of {self.task.name} have to be its texts' own in a prompt"
            )
        if isinstance(part, str):
            return str(part), spans_of(part)
        if not isinstance(part, list):
            raise UserError(f"example '{example.uid}' of {self.task.name} is no text")
        ends = np.cumsum([len(word) + 1 for word in part]).tolist()
        return " ".join(part), tuple((end - len(word) - 1, end - 1) for word, end in zip(part, ends, strict=True))


@dataclass(frozen=True)
class _Filled:
    """A template with an example's texts.

    Attributes:
        text: what it says.
        spans: its units, those of the template and those of the texts.
        units: which of them each unit of the example is, in the example's order.
    """

    text: str
    spans: list[tuple[int, int]]
    units: list[int]
