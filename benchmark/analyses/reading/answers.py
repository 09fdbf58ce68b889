"""What a pair classifier answers, of single pairs and of multiple-choice questions, and what answers without reading."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from benchmark.annotations import KEYS, Option
from benchmark.models.classifier import Classifier
from benchmark.types import Batch, Example

Questions = Mapping[str, Sequence[int]]
"""By question the places of its options among the examples, in the order of the options."""


@dataclass(frozen=True)
class Answers:
    """What a model says of examples, in their order.

    Attributes:
        predicted: the class.
        right: whether it is the annotated one.
        score: the probability of the task's second class, which says that an option is right.
    """

    predicted: Int[torch.Tensor, " N"]
    right: Bool[NDArray[np.bool_], " N"]
    score: Float[NDArray[np.float64], " N"]


def answers(model: Classifier, batches: Sequence[Batch], right_class: int) -> Answers:
    """One forward pass for each batch; `right_class` is the model's number of the task's second class."""
    logits = torch.cat([model.run(batch).logits for batch in batches]).cpu()
    labels = torch.cat([batch.label for batch in batches]).cpu()
    predicted = logits.argmax(-1)
    return Answers(predicted, (predicted == labels).numpy(), logits.double().softmax(-1)[:, right_class].numpy())


def questions_of(examples: Sequence[Example]) -> Questions:
    """The questions of which examples are options; those whose options are all right or all wrong are left out."""
    found: dict[str, dict[int, int]] = {}
    for place, example in enumerate(examples):
        told = example.meta.get(KEYS[Option])
        if isinstance(told, Option):
            found.setdefault(told.question, {})[told.number] = place
    in_order = {question: [places[number] for number in sorted(places)] for question, places in found.items()}
    return {q: places for q, places in in_order.items() if len({examples[place].label for place in places}) > 1}


def chosen_right(
    examples: Sequence[Example], questions: Questions, score: Float[NDArray[np.float64], " N"]
) -> Float[NDArray[np.float64], " Q"]:
    """Of each question whether the option with the largest score is a right one; of equal ones the share that is."""
    found = []
    for places in questions.values():
        scores = score[list(places)]
        labels = np.array([examples[place].label for place in places])
        found.append(float(labels[scores == scores.max()].mean()))
    return np.array(found)


def lengths(examples: Sequence[Example]) -> Float[NDArray[np.float64], " N"]:
    """Words of each example's option."""
    return np.array([len(example.inputs[1]) - example.meta[KEYS[Option]].query_words for example in examples], float)
