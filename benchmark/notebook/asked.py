"""What is asked of each text: a class, or why a causal language model goes on with one token rather than another."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.next_token import CONTINUATION, VOCABULARY, candidate_ids
from benchmark.notebook.given import Inputs, target_of
from benchmark.targets import Contrast, LogProbability, Target

Candidates = tuple[tuple[str | int, ...], ...]
_AT_ONCE = 16


@dataclass(frozen=True)
class Asked:
    """What is explained of each text.

    Attributes:
        chosen: the class, and the one that it is contrasted with, as they were given.
        candidates: the answer and the foil of each prompt; empty where the model is a classifier. Of a model over its
            vocabulary their ids, without a foil where none is given.
        names: what the candidates are called.
    """

    chosen: tuple[Any, Any]
    candidates: Candidates = ()
    names: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of(model: Classifier, inputs: Inputs, *, target: Any, against: Any, answer: Any, foil: Any) -> "Asked":
        """What a call asks for.

        Raises:
            UserError: classes are asked of a language model, or tokens of a classifier, or not one for each text.
        """
        if model.encoder.answers == "class":
            if answer is not None or foil is not None:
                raise UserError(
                    "answer and foil are tokens of a causal language model (benchmark.load_model(..., "
                    'task="next_token")); a class of a classifier is target=, and the other one against='
                )
            return Asked((target, against))
        if target is not None or against is not None:
            raise UserError(
                "target and against are classes of a classifier; what comes next is answer=, and foil= what might have"
            )
        answers, foils = (_each(given, inputs.values, name) for given, name in ((answer, "answer"), (foil, "foil")))
        if model.encoder.over == CONTINUATION:
            raise UserError(
                'the classes of this model are a continuation and anything else: give continuation="what it says"'
            )
        if model.encoder.over == VOCABULARY:
            return Asked((None, None), _among_all(model, inputs, answers, foils) if answers or foils else ())
        if not (answers and foils):
            best = _most_probable(model, inputs)
            answers = answers or [first for first, _ in best]
            foils = foils or _others(model, inputs, answers, best)
        candidates = tuple(zip(answers, foils, strict=True))
        names = tuple(tuple(named_token(model, one) for one in row) for row in candidates)
        return Asked((None, None), candidates, names)

    def target(self, model: Classifier, logits: Float[Tensor, "B C"]) -> Target:
        """What is explained, of examples with these logits."""
        if not self.candidates:
            return target_of(model, *self.chosen, logits.argmax(-1))
        if model.encoder.over == VOCABULARY:
            first, *others = torch.tensor(self.candidates, device=logits.device).unbind(1)
            return Contrast(first, others[0]) if others else LogProbability(first)
        first = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        return Contrast(first, first + 1)


def _each(given: Any, texts: Sequence[Any], name: str) -> list[str | int]:
    """One for each text; empty where nothing is given."""
    if given is None:
        return []
    several = isinstance(given, Iterable) and not isinstance(given, str)
    found = list(given) if several else [given] * len(texts)
    if len(found) != len(texts):
        raise UserError(f"{name} has {len(found)} tokens for {len(texts)} texts; give one, or one for each")
    found = [int(one) if isinstance(one, np.integer) else one for one in found]
    if wrong := [one for one in found if isinstance(one, bool) or not isinstance(one, str | int)]:
        raise UserError(f"{name}={wrong[0]!r} is no token; give a word or an id")
    if below := [one for one in found if isinstance(one, int) and one < 0]:
        raise UserError(f"{name}={below[0]} is no id of a token")
    return found


def _among_all(model: Classifier, inputs: Inputs, answers: list[str | int], foils: list[str | int]) -> Candidates:
    """The ids of each answer, without any of the model's own next token, and of its foil where foils are given."""
    answers = answers or [first for first, _ in _most_probable(model, inputs)]
    rows = list(zip(answers, foils, strict=True)) if foils else [(answer,) for answer in answers]
    return tuple(
        tuple(
            candidate_ids(model.tokenizer, text_of(model, value), row, "answer" if len(row) == 1 else "answer and foil")
        )
        for value, row in zip(inputs.values, rows, strict=True)
    )


def next_tokens(model: Classifier, inputs: Sequence[Any], given: Any, what: str) -> list[int]:
    """The token that each of n prompts goes on with, given as words or ids, or one for all.

    Raises:
        UserError: a word is no single token behind its prompt, or there are not n of them.
    """
    return [
        candidate_ids(model.tokenizer, text_of(model, value), [one], what)[0]
        for value, one in zip(inputs, _each(given, inputs, what), strict=True)
    ]


def text_of(model: Classifier, value: Any) -> str:
    """What an answer goes on from: the prompt as one text, and nothing where it is given as ids or in a chat."""
    if model.encoder.chat is not None:
        return ""
    return value if isinstance(value, str) else " ".join(value) if isinstance(value, list) else ""


def _most_probable(model: Classifier, inputs: Inputs) -> list[tuple[int, int]]:
    """The two tokens that the model finds most probable after each text."""
    found: list[tuple[int, int]] = []
    for start in range(0, len(inputs.values), _AT_ONCE):
        part = inputs.values[start : start + _AT_ONCE]
        vocabulary = model.run(model.encode(part, candidates=[(0, 1)] * len(part))).vocabulary
        assert vocabulary is not None
        found += [(int(first), int(second)) for first, second in vocabulary.topk(2).indices]
    return found


def _others(
    model: Classifier, inputs: Inputs, answers: list[str | int], best: list[tuple[int, int]]
) -> list[str | int]:
    """The most probable token beside each answer."""
    foils: list[str | int] = []
    for value, answer, (first, second) in zip(inputs.values, answers, best, strict=True):
        text = text_of(model, value)
        (own,) = candidate_ids(model.tokenizer, text, [answer], "answer")
        foils.append(second if own == first else first)
    return foils


def named_token(model: Classifier, token: str | int) -> str:
    """What a token is called: as it was given, or as the tokenizer writes it."""
    if isinstance(token, str):
        return token
    return f"id {token}" if model.tokenizer is None else str(model.tokenizer.decode([token])).strip() or f"id {token}"
