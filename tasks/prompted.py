"""A classification task as prompts for a causal language model: its texts in a template, its labels as words."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from random import Random
from string import Formatter
from typing import ClassVar

import numpy as np

from benchmark.errors import UserError
from benchmark.settings.declared import Natural, configurable
from benchmark.types import Example, Task
from benchmark.words import spans_of
from tasks.common import check_split, digest

FIELDS = ("text", "first", "second")
"""What a template may hold: the text, or the two of a pair."""


@configurable
class Prompted:
    """The examples of another task, each in a template that ends where its label would be said.

    Candidates for the next token are the words of all labels, that of the example's own label first. Rated are the words of
    the example's texts alone, but those of a query: neither what the template says nor the examples that are shown before.
    A rationale stays what it was.

    Attributes:
        task: gives texts and labels.
        template: what is asked, with `{text}`, or of pairs with `{first}` and `{second}`, each once.
        words: what the labels are called in the prompt, in the order of the task's labels; None: their names.
        shots: examples of the training split that stand before every prompt, with their labels in turn.
        seed: draws these examples.

    Raises:
        UserError: the template lacks a text or names something else; labels and words are not as many; an example has no
            label, is no text, or is joined by the template to words of its own.
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
        named = [name for _, name, _, _ in Formatter().parse(self.template) if name is not None]
        if sorted(named) not in (["text"], ["first", "second"]):
            raise UserError(
                f"task.template={self.template!r}: give {{text}} once, or of pairs {{first}} and {{second}} once each"
            )

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

    @cached_property
    def _before(self) -> str:
        """The examples that stand before every prompt."""
        if not self.shots:
            return ""
        examples = [example for example in self.task.split("train") if example.label >= 0]
        Random(self.seed).shuffle(examples)
        by_label = [iter([e for e in examples if e.label == label]) for label in range(len(self.task.labels))]
        shown = [next(by_label[number % len(by_label)], None) for number in range(self.shots)]
        if None in shown:
            raise UserError(
                f"task.shots={self.shots}: the training split of {self.task.name} has too few examples of a label"
            )
        return "".join(f"{self._filled(one)[0]} {self._words[one.label]}\n\n" for one in shown if one is not None)

    def _prompt(self, example: Example) -> Example:
        if example.label < 0:
            raise UserError(f"example '{example.uid}' of {self.task.name} has no label, so that no word is its answer")
        filled, places = self._filled(example)
        prompt = self._before + filled
        units = self._units(
            example, prompt, [(start + len(self._before), end + len(self._before)) for start, end in places]
        )
        of_texts = np.arange(len(units)) >= example.query_units
        if example.rated is not None:
            of_texts &= np.asarray(example.rated, dtype=bool)
        rated = np.zeros(len(spans_of(prompt)), dtype=bool)
        rated[units[of_texts]] = True
        rationale = None
        if example.rationale is not None:
            rationale = np.zeros(len(rated), dtype=bool)
            rationale[units] = example.rationale
            rationale &= rated
        own = self._words[example.label]
        others = (word for word in self._words if word != own)
        return Example(
            uid=example.uid,
            inputs=prompt,
            label=0,
            rationale=rationale,
            rated=rated,
            candidates=(own, *others),
            meta=example.meta,
        )

    def _filled(self, example: Example) -> tuple[str, list[tuple[int, int]]]:
        """The template with an example's texts, and where each of them begins and ends, in the order of the example."""
        texts = dict(self._texts(example))
        told, places = "", {}
        for literal, name, _, _ in Formatter().parse(self.template):
            told += literal
            if name is not None:
                places[name] = len(told), len(told) + len(texts[name])
                told += texts[name]
        return told, [places[name] for name in texts]

    def _texts(self, example: Example) -> Iterator[tuple[str, str]]:
        parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
        names = FIELDS[:1] if len(parts) == 1 else FIELDS[1:]
        if f"{{{names[0]}}}" not in self.template:
            kind = "single texts" if len(parts) == 1 else "pairs of texts"
            raise UserError(
                f"task.template={self.template!r}: the task {self.task.name} has {kind}; give "
                f"{' and '.join(f'{{{name}}}' for name in names)}"
            )
        for name, part in zip(names, parts, strict=True):
            if not isinstance(part, str | list):
                raise UserError(f"example '{example.uid}' of {self.task.name} is no text")
            yield name, part if isinstance(part, str) else " ".join(part)

    def _units(self, example: Example, prompt: str, places: Sequence[tuple[int, int]]) -> np.ndarray:
        """Which unit of the prompt each unit of the example's texts is."""
        spans = spans_of(prompt)
        found = [
            [number for number, (start, end) in enumerate(spans) if start < stop and end > begin]
            for begin, stop in places
        ]
        parts = [part for _, part in self._texts(example)]
        if [len(one) for one in found] != [len(spans_of(part)) for part in parts]:
            raise UserError(
                f"task.template={self.template!r}: the words of example '{example.uid}' come apart in another way in the "
                "template; put white space before and behind each text"
            )
        return np.array([number for one in found for number in one], dtype=np.int64)
