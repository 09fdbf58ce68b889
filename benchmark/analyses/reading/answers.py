"""What a pair classifier answers, of single pairs and of multiple-choice questions, and what answers without reading."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from benchmark.annotations import KEYS, Option
from benchmark.models.classifier import Classifier
from benchmark.types import Batch, Example

Questions = Mapping[str, Sequence[int]]
"""By question the places of its options among the examples, in the order of the options."""


@dataclass(frozen=True)
class Reading:
    """What a model says of examples, in their order.

    Attributes:
        model: the classifier.
        examples, batches: what it reads.
        questions: those of which the examples are options; empty where they are none.
        predicted: the class of each example.
        right: whether each question, or of other tasks each example, is answered as annotated; of equal options the share.
    """

    model: Classifier
    examples: Sequence[Example]
    batches: Sequence[Batch]
    questions: Questions
    predicted: Int[torch.Tensor, " N"]
    right: Float[NDArray[np.float64], " Q"]


def read(model: Classifier, labels: Sequence[str], examples: Sequence[Example], batch_size: int) -> Reading:
    """One forward pass for each batch; of the task's two labels the second says that an option is right."""
    label_map = model.label_map(labels)
    parts = [examples[i : i + batch_size] for i in range(0, len(examples), batch_size)]
    batches = [model.encode_examples(part, label_map) for part in parts]
    logits = torch.cat([model.run(batch).logits for batch in batches]).cpu()
    predicted = logits.argmax(-1)
    questions = questions_of(examples)
    if KEYS[Option] in examples[0].meta:
        right = chosen_right(examples, questions, logits.double().softmax(-1)[:, label_map[1]].numpy())
    else:
        right = (predicted == torch.cat([batch.label for batch in batches]).cpu()).numpy().astype(float)
    return Reading(model, examples, batches, questions, predicted, right)


def question_of(example: Example) -> str:
    """What an example is an option of; of other tasks itself."""
    told = example.meta.get(KEYS[Option])
    return told.question if isinstance(told, Option) else example.uid


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


def mean_by_question(
    examples: Sequence[Example], values: Float[NDArray[np.float64], " N"]
) -> Float[NDArray[np.float64], " Q"]:
    """Of each question, in the order of the first options, the mean of the values of its options that have one; else NaN."""
    found: dict[str, list[float]] = {}
    for example, value in zip(examples, values.tolist(), strict=True):
        known = found.setdefault(question_of(example), [])
        if not np.isnan(value):
            known.append(value)
    return np.array([np.mean(known) if known else np.nan for known in found.values()])


def lengths(examples: Sequence[Example]) -> Float[NDArray[np.float64], " N"]:
    """Words of each example's option."""
    return np.array([len(example.inputs[1]) - example.meta[KEYS[Option]].query_words for example in examples], float)
