"""What is asked of a pair classifier, in single pairs or in multiple-choice questions, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from benchmark.annotations import KEYS, Option, passage_segment, question_of
from benchmark.models.classifier import Classifier
from benchmark.types import Example

QuestionValues = Float[NDArray[np.float64], " Q"]
"""One number for each question, or of other tasks for each example."""


@dataclass(frozen=True)
class Asked:
    """Examples, and the questions that they are options of; of other tasks each example is its own question.

    Attributes:
        examples: clean ones.
    """

    examples: Sequence[Example]

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """By question the places of its options, in their order; questions in the order of their first options."""
        found: dict[str, dict[int, int]] = {}
        for place, example in enumerate(self.examples):
            told = example.meta.get(KEYS[Option])
            found.setdefault(question_of(example), {})[told.number if isinstance(told, Option) else 0] = place
        return {question: [places[number] for number in sorted(places)] for question, places in found.items()}

    @property
    def has_options(self) -> bool:
        """Whether the examples are options of questions."""
        return KEYS[Option] in self.examples[0].meta

    @cached_property
    def passages(self) -> Int[NDArray[np.int64], " Q"]:
        """The number of each question's passage; questions about the same words have the same."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(_passage(self._first(q)), len(numbers)) for q in self.places], np.int64)

    @cached_property
    def by_order(self) -> Sequence[bool | None]:
        """Of each question whether the order of the passage's words decides it, where that is known."""
        told = [self._first(question).meta.get(KEYS[Option]) for question in self.places]
        return [one.needs_order if isinstance(one, Option) else None for one in told]

    def of(self, questions: Sequence[str]) -> "Asked":
        """Only these questions."""
        chosen = set(questions)
        return Asked([example for example in self.examples if question_of(example) in chosen])

    def with_a_choice(self) -> "Asked":
        """Without the questions whose options are all right or all wrong."""
        if not self.has_options:
            return self
        labels = {q: {self.examples[place].label for place in places} for q, places in self.places.items()}
        return self.of([question for question, known in labels.items() if len(known) > 1])

    def mean(self, values: Float[NDArray[np.float64], " N"]) -> QuestionValues:
        """Of each question the mean of the values of its options that have one; else NaN."""
        known = [values[list(places)][~np.isnan(values[list(places)])] for places in self.places.values()]
        return np.array([part.mean() if len(part) else np.nan for part in known])

    def right(self, score: Float[NDArray[np.float64], " N"], read: Sequence[Example] | None = None) -> QuestionValues:
        """Of each question whether the option with the largest score is a right one; of equal ones the share that is.

        Args:
            score: of each option.
            read: what was scored, if not the clean examples. Options that read alike have the score of the first of them, as
                rounding differs with a batch's padding.
        """
        found = []
        for places in self.places.values():
            texts = [_texts((read or self.examples)[place]) for place in places]
            scores = score[[places[texts.index(text)] for text in texts]]
            labels = np.array([self.examples[place].label for place in places])
            found.append(float(labels[scores == scores.max()].mean()))
        return np.array(found)

    def alike(self, read: Sequence[Example]) -> QuestionValues:
        """Of each question whether a wrong option reads like a right one."""
        found = []
        for places in self.places.values():
            kinds = ({_texts(read[place]) for place in places if read[place].label == label} for label in (0, 1))
            found.append(float(bool(set.intersection(*kinds))))
        return np.array(found)

    def _first(self, question: str) -> Example:
        return self.examples[self.places[question][0]]


@dataclass(frozen=True)
class Reading:
    """What a model says of examples, clean or attacked.

    Attributes:
        examples: what it reads, in the order of `asked`.
        predicted: the class of each.
        right: whether each question is answered as annotated; of equal options the share.
    """

    asked: Asked
    examples: Sequence[Example]
    predicted: Int[torch.Tensor, " N"]
    right: QuestionValues


def read(
    model: Classifier, labels: Sequence[str], asked: Asked, examples: Sequence[Example], batch_size: int
) -> Reading:
    """One forward pass for each batch; of the labels of a task of options the second says that an option is right."""
    label_map = model.label_map(labels)
    batches = (model.encode_examples(part, label_map) for part in parts_of(examples, batch_size))
    logits, annotated = zip(*((model.run(batch).logits.cpu(), batch.label.cpu()) for batch in batches), strict=True)
    predicted = torch.cat(logits).argmax(-1)
    if asked.has_options:
        right = asked.right(model.probabilities(torch.cat(logits).double())[:, label_map[1]].numpy(), examples)
    else:
        right = (predicted == torch.cat(annotated)).numpy().astype(float)
    return Reading(asked, examples, predicted, right)


def parts_of(examples: Sequence[Example], size: int) -> list[Sequence[Example]]:
    """The examples in parts of a size."""
    return [examples[start : start + size] for start in range(0, len(examples), size)]


def lengths(examples: Sequence[Example]) -> Float[NDArray[np.float64], " N"]:
    """Words of each example's option."""
    return np.array([len(example.inputs[1]) - example.meta[KEYS[Option]].query_words for example in examples], float)


def _texts(example: Example) -> tuple[str, ...]:
    return tuple(text if isinstance(text, str) else " ".join(text) for text in example.inputs)


def _passage(example: Example) -> str:
    return _texts(example)[passage_segment(example)]
