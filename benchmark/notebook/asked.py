"""What is asked of each text: a class, or why a causal language model goes on with one token rather than another."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.next_token import CANDIDATES
from benchmark.notebook.given import Inputs, target_of
from benchmark.targets import ClassTarget, Contrast, Target

Candidates = tuple[tuple[str | int, ...], ...]


@dataclass(frozen=True)
class Asked:
    """What is explained of each text.

    Attributes:
        chosen: the class, and the one that it is contrasted with, as they were given.
        candidates: of each prompt the answer and the foil where there is one; empty of a classifier.
        names: what they are called.
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
        answers, foils = (_each(given, inputs, name) for given, name in ((answer, "answer"), (foil, "foil")))
        answers = answers or _own(model, inputs)
        candidates = tuple(zip(answers, foils, strict=True)) if foils else tuple((one,) for one in answers)
        names = tuple(tuple(named_token(model, one) for one in row) for row in candidates)
        return Asked((None, None), candidates, names)

    def target(self, model: Classifier, logits: Float[Tensor, "B C"]) -> Target:
        """What is explained, of examples with these logits."""
        if not self.candidates:
            return target_of(model, *self.chosen, logits.argmax(-1))
        first = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        return ClassTarget(first) if logits.shape[-1] == 1 else Contrast(first, first + 1)


def _each(given: Any, inputs: Inputs, name: str) -> list[str | int]:
    """One for each text; empty where nothing is given."""
    if given is None:
        return []
    several = isinstance(given, Iterable) and not isinstance(given, str)
    found = list(given) if several else [given] * len(inputs.values)
    if len(found) != len(inputs.values):
        raise UserError(f"{name} has {len(found)} tokens for {len(inputs.values)} texts; give one, or one for each")
    if wrong := [one for one in found if isinstance(one, bool) or not isinstance(one, str | int)]:
        raise UserError(f"{name}={wrong[0]!r} is no token; give a word or an id")
    return found


def _own(model: Classifier, inputs: Inputs) -> list[str | int]:
    """The token that the model itself goes on with, after each text."""
    batch = model.encode(inputs.values, candidates=[(0,)] * len(inputs.values))
    vocabulary = model.run({name: tensor for name, tensor in batch.tensors.items() if name != CANDIDATES}).logits
    return list(map(int, vocabulary.argmax(-1)))


def named_token(model: Classifier, token: str | int) -> str:
    """What a token is called: as it was given, or as the tokenizer writes it."""
    if isinstance(token, str):
        return token
    return f"id {token}" if model.tokenizer is None else str(model.tokenizer.decode([token])).strip() or f"id {token}"
