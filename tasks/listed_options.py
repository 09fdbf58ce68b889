"""Questions whose query lists the options, put to a pair classifier option by option."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from benchmark.annotations import KEYS, Option
from benchmark.errors import UserError
from benchmark.settings.declared import configurable
from benchmark.types import Example, Task
from benchmark.words import UnitText, units_of
from tasks.common import check_split, digest

_SEPARATOR = re.compile(r"\[sep\]", re.IGNORECASE)


@configurable
class ListedOptions:
    """Each example is one option of a question: a pair of the question and of the option, right or wrong.

    The wrapped task has a query that lists the options, "a bank [SEP] a library [SEP] a market", and a class for each of
    them, in their order, as ERASER's CoS-E has: a model of it would have to name a letter. Here it judges one option after
    the other, and its answer is the option with the largest probability of "right"; with `model.loss=options` it learns just
    that. `Example.meta` has an `Option`, by which the options of a question are put together.

    Words of the option are not rated and never removed. Annotators marked what in the question speaks for the right option:
    its example has their rationale, and the examples of wrong options have none.

    Attributes:
        task: gives the questions.
        tested: the options of the test split: `all`, or the `right` ones alone, which have people's marks. A report's
            accuracy is then the share of right options that are called right, and says nothing of questions. Models learn
            from all options, and are chosen by all of the validation split.

    Raises:
        UserError: an example has no query; it lists an option without words, or not as many as the task has classes; its
            label is not known; or a class has the name of an option that stands at another place.

    Source: DeYoung et al. 2020 (arXiv:1911.03429), whose CoS-E lists options so.
    """

    version: ClassVar[int] = 1

    task: Task
    tested: Literal["all", "right"] = "all"
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The task's name, and that it is put option by option."""
        return f"{self.task.name}-options"

    @property
    def labels(self) -> Sequence[str]:
        """Class names: wrong, right."""
        return ("wrong", "right")

    @cached_property
    def fingerprint(self) -> str:
        """Of the task and of what is tested."""
        settings = {"task": "listed_options", "version": self.version}
        if self.tested != "all":
            settings["tested"] = self.tested
        return digest(settings, [self.task.fingerprint])

    @property
    def learned_from(self) -> Task:
        """The task with all options of what the wrapped task is learned from, that models are trained on."""
        learned = getattr(self.task, "learned_from", self.task)
        return self if learned is self.task and self.tested == "all" else replace(self, task=learned, tested="all")

    def split(self, name: str) -> Sequence[Example]:
        """The options of "train", "validation" or "test", question by question; inputs are pairs of a text and words."""
        check_split(self.name, name)
        if name not in self._splits:
            options = [option for asked in self.task.split(name) for option in self._options(asked)]
            right_alone = name == "test" and self.tested == "right"
            self._splits[name] = tuple(option for option in options if option.label or not right_alone)
        return self._splits[name]

    def _options(self, asked: Example) -> Iterator[Example]:
        query, text = self._parts(asked)
        options = _listed(query)
        self._check(asked, options)
        words = len(units_of(text))
        marks = None if asked.rationale is None else asked.rationale[asked.query_units :]
        rated = np.ones(words, bool) if asked.rated is None else asked.rated[asked.query_units :]
        for number, option in enumerate(options):
            right = number == asked.label
            behind = np.zeros(len(option), bool)
            yield Example(
                f"{asked.uid}-{number}",
                (text, option),
                int(right),
                rationale=np.concatenate([marks, behind]) if right and marks is not None else None,
                rated=np.concatenate([rated, behind]),
                meta={KEYS[Option]: Option(asked.uid, number, len(options), query_words=0)},
            )

    def _parts(self, asked: Example) -> tuple[str | Sequence[str], str | Sequence[str]]:
        """The query and the text of an example."""
        if not (isinstance(asked.inputs, tuple) and asked.query_units):
            raise UserError(
                f"{self._of(asked)} has no query that lists options; name its column with task.task.query=COLUMN, or, of a "
                "data set in ERASER's format, set task.task.query=always"
            )
        query, text = asked.inputs
        if any(isinstance(part, UnitText) for part in (query, text)):
            raise UserError(f"{self._of(asked)} has other units than words; leave task.task.units at words")
        return query, text

    def _check(self, asked: Example, options: Sequence[Sequence[str]]) -> None:
        """Options and classes fit."""
        classes = len(self.task.labels)
        if not all(options):
            raise UserError(f"{self._of(asked)} lists an option without words between its [SEP]")
        if len(options) != classes:
            raise UserError(
                f"{self._of(asked)} lists {len(options)} option{'s' * (len(options) > 1)} between [SEP], and the task has "
                f"{classes} classes; name a class for each option, in their order, with task.task.label_names"
            )
        if asked.label < 0:
            raise UserError(f"{self._of(asked)} does not say which option is right")
        texts = [" ".join(option).casefold() for option in options]
        for place, label in enumerate(self.task.labels):
            if label.casefold() in texts and texts[place] != label.casefold():
                raise UserError(
                    f"{self._of(asked)} has the class '{label}' for its option {place + 1}, which is another one; name the "
                    "classes in the order of the options with task.task.label_names"
                )

    def _of(self, asked: Example) -> str:
        return f"example '{asked.uid}' of {self.task.name}"


def _listed(query: str | Sequence[str]) -> list[list[str]]:
    """The words of each option."""
    if isinstance(query, str):
        return [units_of(part) for part in _SEPARATOR.split(query)]
    found: list[list[str]] = [[]]
    for word in query:
        if _SEPARATOR.fullmatch(word):
            found.append([])
        else:
            found[-1].append(word)
    return found
