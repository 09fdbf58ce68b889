"""Questions whose query lists the options, put to a pair classifier option by option."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from benchmark.annotations import KEYS, Option
from benchmark.errors import UserError
from benchmark.settings.declared import configurable
from benchmark.types import Example, Task
from benchmark.words import units_of
from tasks.common import check_split, digest

SEPARATOR = "[sep]"
"""Stands between two options, in small or large letters."""


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
        tested: the options of the test split: `all`, or the `right` ones alone, which have people's marks. Models learn from
            all, and are chosen by all of the validation split.

    Raises:
        UserError: an example has no query, or not as many options as the task has classes, or the label of none.

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
        """The task with all options, that models are trained on."""
        return self if self.tested == "all" else replace(self, tested="all")

    def split(self, name: str) -> Sequence[Example]:
        """The options of "train", "validation" or "test", question by question; inputs are pairs of lists of words."""
        check_split(self.name, name)
        if name not in self._splits:
            options = [option for asked in self.task.split(name) for option in self._options(asked)]
            some = name == "test" and self.tested == "right"
            self._splits[name] = tuple(option for option in options if option.label or not some)
        return self._splits[name]

    def _options(self, asked: Example) -> Iterator[Example]:
        if not (isinstance(asked.inputs, tuple) and asked.query_units):
            raise UserError(
                f"example '{asked.uid}' of {self.task.name} has no query that lists options; "
                "a column of the table is one with task.task.query=COLUMN"
            )
        query, text = map(units_of, asked.inputs)
        options = _listed(query)
        if not all(options):
            raise UserError(
                f"example '{asked.uid}' of {self.task.name} lists an option without words between its [SEP]"
            )
        if len(options) != len(self.task.labels):
            raise UserError(
                f"example '{asked.uid}' of {self.task.name} lists {len(options)} options between its [SEP], and the task "
                f"has {len(self.task.labels)} classes"
            )
        if asked.label < 0:
            raise UserError(f"example '{asked.uid}' of {self.task.name} does not say which option is right")
        marks = None if asked.rationale is None else asked.rationale[asked.query_units :]
        for number, option in enumerate(options):
            right, rated = number == asked.label, np.arange(len(text) + len(option)) < len(text)
            rationale = np.concatenate([marks, np.zeros(len(option), bool)]) if right and marks is not None else None
            told = Option(asked.uid, number, len(options), query_words=0)
            yield Example(
                f"{asked.uid}-{number}",
                (list(text), list(option)),
                int(right),
                rationale=rationale,
                rated=rated,
                meta={KEYS[Option]: told},
            )


def _listed(query: Sequence[str]) -> list[list[str]]:
    """The words of each option."""
    found: list[list[str]] = [[]]
    for word in query:
        if word.casefold() == SEPARATOR:
            found.append([])
        else:
            found[-1].append(word)
    return found
