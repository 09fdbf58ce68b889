"""Inputs of a mechanism that is written into a model by hand, so that what decides each of them is known."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from benchmark.errors import UserError
from benchmark.models.written.families import GRID, Form, picture
from benchmark.models.written.mechanism import QUESTION, Drawn, Mechanism
from benchmark.models.written.mechanisms import SHARES, mechanism
from benchmark.models.written.program import Program
from benchmark.models.written.truth import AGAINST, EDGES, HEADS
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import SPLITS
from benchmark.settings.identity import identity
from benchmark.types import Example
from tasks.common import check_split, digest

Strength = Literal["weak", "medium", "strong"]


@configurable
class MechanismTask:
    """Inputs of one of `benchmark.models.written.mechanisms`, for the model that it is written into (`model=written`).

    An input is six words and a last one, "?", which is not rated. The rationale holds the words that speak for the answer,
    by construction; `meta` the heads that take part and the attention edges that carry something, for the tests
    `known_heads` and `known_edges`.

    Attributes:
        mechanism: its name, or the dotted path of a function of your own (docs/mechanisms.md).
        strength: how much of its attention a head gives to a word that it looks for: weak .2, medium .4, strong .8.
        form: text for a classifier, prompt for a language model (whose answer and foil are the labels), image for a vision
            transformer (a patch for each word).
        examples: of each split.
        seed: of the inputs.
        corrupted: give each input a counterpart with which circuits are patched: the next input with another answer, and
            where all have one, the same input with words that mean nothing in the place of those that decide.
    """

    version: ClassVar[int] = 1

    mechanism: str = "copy"
    strength: Strength = "medium"
    form: Form = "text"
    examples: Count = 200
    seed: Natural = 0
    corrupted: bool = False
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def known(self) -> Mechanism:
        """What is known of the model.

        Raises:
            UserError: there is no such mechanism, or it cannot be drawn as images.
        """
        found = mechanism(self.mechanism, SHARES[self.strength])
        if self.form == "image" and not found.of_patches:
            raise UserError(f"task.mechanism={self.mechanism} is of words that are cut into pieces; patches are not")
        return found

    @property
    def program(self) -> Program:
        """What `model=written` writes."""
        return self.known.program

    @property
    def name(self) -> str:
        """In run folders and tables."""
        return f"mechanism-{self.known.name}"

    @property
    def labels(self) -> Sequence[str]:
        """no and yes; of prompts answer and foil."""
        return ("answer", "foil") if self.form == "prompt" else self.program.labels

    @property
    def rationale_is_truth(self) -> bool:
        """Whether it is known by construction."""
        return True

    @cached_property
    def fingerprint(self) -> str:
        """Of the settings and of the program."""
        settings: dict[str, Any] = {
            name: getattr(self, name) for name in ("mechanism", "strength", "form", "examples", "seed")
        }
        settings |= {"corrupted": True} if self.corrupted else {}
        return digest({"task": "mechanism", "version": self.version, "program": identity(self.program), **settings})

    def split(self, name: str) -> Sequence[Example]:
        """Inputs of "train", "validation" or "test"."""
        check_split(self.name, name)
        if name not in self._splits:
            drawn = tuple(self.known.inputs(self.examples, len(SPLITS) * self.seed + SPLITS.index(name)))
            self._splits[name] = tuple(
                self._example(
                    f"{self.known.name}-{name}-{place:04d}",
                    one,
                    _other(self.program, drawn, place) if self.corrupted else None,
                )
                for place, one in enumerate(drawn)
            )
        return self._splits[name]

    def _inputs(self, drawn: Drawn) -> Any:
        words = (*drawn.words, QUESTION)
        return picture(self.program, words) if self.form == "image" else " ".join(words)

    def _example(self, uid: str, drawn: Drawn, other: Drawn | None) -> Example:
        words = (*drawn.words, QUESTION)
        units = GRID**2 if self.form == "image" else len(words)
        places = np.arange(units)
        labels = self.program.labels
        given = labels[drawn.label], labels[1 - drawn.label]
        return Example(
            uid=uid,
            inputs=self._inputs(drawn),
            label=0 if self.form == "prompt" else drawn.label,
            rationale=np.isin(places, sorted(drawn.speaks_for)),
            rated=places < len(drawn.words),
            candidates=given if self.form == "prompt" else (),
            meta=_meta(self.known, drawn),
            corrupted=None if other is None else self._inputs(other),
        )


def _other(program: Program, drawn: Sequence[Drawn], place: int) -> Drawn:
    """The next input with another answer, from the first again behind the last.

    Where all have the same answer, the input with words that mean nothing in the place of those that speak for it.
    """
    own, following = drawn[place], (*drawn[place + 1 :], *drawn[:place])
    found = next((one for one in following if one.label != own.label), None)
    if found is not None:
        return found
    idle = [word for word, features in program.words.items() if not features and word not in own.words]
    left = iter(idle * len(own.words))
    words = tuple(next(left) if number in own.speaks_for else word for number, word in enumerate(own.words))
    return replace(own, words=words)


def _meta(known: Mechanism, drawn: Drawn) -> Mapping[str, Any]:
    return {
        HEADS: sorted(known.heads if drawn.heads is None else drawn.heads),
        EDGES: sorted(drawn.edges, key=str),
        AGAINST: sorted(drawn.speaks_against),
    }
