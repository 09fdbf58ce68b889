"""What a model learns of a question that has one right option among several: which of them is the best."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmark.annotations import KEYS, Option
from benchmark.errors import UserError
from benchmark.types import Example, Task


def options_of(task: Task) -> int:
    """How many options every question of a task has, in the splits that a model learns from.

    Raises:
        UserError: examples are no options of questions, stand apart, or are of questions with another number of options or
            of right options than one.
    """
    found = {_options(task.name, task.split(split)) for split in ("train", "validation")}
    if len(found) > 1:
        raise UserError(
            f"recipe.loss=options: the questions of {task.name} have {' or '.join(map(str, sorted(found)))} options by "
            "split, and all need as many; leave it at examples"
        )
    return found.pop()


def _options(name: str, examples: Sequence[Example]) -> int:
    told = [example.meta.get(KEYS[Option]) for example in examples]
    options = [option for option in told if isinstance(option, Option)]
    if not options or len(options) < len(told):
        raise UserError(
            f"recipe.loss=options: the examples of {name} are not the options of questions; leave it at examples, or use "
            "task=multiple_choice"
        )
    count = options[0].options
    for start in range(0, len(options), count):
        question = options[start : start + count]
        if {option.question for option in question} != {options[start].question} or len(question) != count:
            raise UserError(
                f"recipe.loss=options: question '{options[start].question}' of {name} does not have {count} options, one "
                "behind the other, as the first question has; leave it at examples"
            )
        if (right := sum(example.label for example in examples[start : start + count])) != 1:
            raise UserError(
                f"recipe.loss=options: question '{options[start].question}' of {name} has {right} right options, not one; "
                "leave it at examples"
            )
    return count


def choice_loss(logits: Float[Tensor, "N 2"], right: Int[Tensor, " N"], options: int) -> Float[Tensor, ""]:
    """Mean over questions of −log(exp(d_r) / Σ_o exp(d_o)), d_o = z_o,1 − z_o,0 and r the right option; in nats.

    As transformers' models for multiple choice learn, which give every option one score; here the score is the log-odds of
    "right" of a pair classifier.

    Args:
        logits: z, of wrong and right, for the options of each question one behind the other.
        right: 1 for the right option, 0 for the others.
        options: how many each question has.
    """
    return cross_entropy(_margins(logits, options), right.reshape(-1, options).argmax(1))


def choices_right(
    logits: Float[np.ndarray, "N 2"], right: Int[np.ndarray, " N"], options: int
) -> Bool[np.ndarray, " questions"]:
    """Whether the right option of each question has the largest margin; arguments as in `choice_loss`."""
    found: Bool[np.ndarray, " questions"] = _margins(logits, options).argmax(1) == right.reshape(-1, options).argmax(1)
    return found


def _margins(logits: Any, options: int) -> Any:
    """d of every option, a row for each question; of tensors and of arrays."""
    return (logits[:, 1] - logits[:, 0]).reshape(-1, options)
