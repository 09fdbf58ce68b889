"""Functions and ready scores as methods: `(model, batch, target) -> Attribution`."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.models import Classifier
from benchmark.notebook.given import finite, numbers
from benchmark.types import Attribution, Batch, Method
from benchmark.units import spread

_FORMS = (
    "a function of a text that gives one score per word, or of (model, batch, target) that gives a "
    "benchmark.types.Attribution"
)


@dataclass(frozen=True)
class OfText(Method):
    """A function of an input (as it was given) that gives one score per word (patch); a word's tokens share its score.

    Attributes:
        name: for messages.
        function: `input -> scores`.
        inputs: by identifier.
    """

    name: str
    function: Callable[[Any], Any]
    inputs: Mapping[str, Any]
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """What the function says of each input; UserError where that is not one finite number per word."""
        rows = []
        for row, (uid, words) in enumerate(zip(batch.uids, batch.words, strict=True)):
            what = f"what {self.name} gives for text {uid}"
            rows.append(finite(numbers(self.function(self.inputs[uid]), words, what), batch, row, what))
        return Attribution(target=target, tokens=spread(rows, batch.units))


@dataclass(frozen=True)
class OfBatch(Method):
    """A function with a method's own contract, whose result is checked.

    Attributes:
        name: for messages.
        function: `(model, batch, target) -> Attribution`.
    """

    name: str
    function: Callable[[Classifier, Batch, Tensor], Any]
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """What the function says; UserError where shapes are wrong or a score is not finite."""
        found = self.function(model, batch, target)
        if not isinstance(found, Attribution):
            raise UserError(f"{self.name} gives {type(found).__name__}; give a benchmark.types.Attribution")
        expected = {
            "tokens": tuple(batch.units.shape),
            "heads": (len(batch), model.n_layers, model.n_heads),
        }
        if found.tokens is None and found.heads is None:
            raise UserError(f"{self.name} gives an Attribution without scores; give tokens, heads or both")
        for name, shape in expected.items():
            self._check(name, getattr(found, name), shape, batch)
        return Attribution(target=target, tokens=found.tokens, heads=found.heads)

    def _check(self, name: str, scores: Any, shape: tuple[int, ...], batch: Batch) -> None:
        if scores is None:
            return
        if not isinstance(scores, Tensor) or tuple(scores.shape) != shape:
            kind = list(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise UserError(f"{self.name} gives {name} of shape {kind}; give a tensor of shape {list(shape)}")
        counted = scores[batch.attention_mask.to(scores.device)] if name == "tokens" else scores
        if not bool(torch.isfinite(counted).all()):
            raise UserError(f"{self.name} gives {name} scores that are not finite (NaN or infinity)")


@dataclass(frozen=True)
class Given(Method):
    """Scores that were made elsewhere, by identifier; the same for every class."""

    name: str
    scores: Mapping[str, NDArray]
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Every token with the score of its word; UserError where a score is not finite."""
        whose = enumerate(batch.uids)
        rows = [finite(self.scores[uid], batch, row, f"scores['{self.name}'] of text {uid}") for row, uid in whose]
        return Attribution(target=target, tokens=spread(rows, batch.units))


@dataclass(frozen=True)
class Unserved(Method):
    """A method that cannot serve here, with the reason."""

    reason: str
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """NotApplicable with the reason."""
        raise NotApplicable(self.reason)


def of_callable(name: str, function: Callable[..., Any], inputs: Mapping[str, Any]) -> OfText | OfBatch:
    """The method that a function is, by what it can be called with; UserError where that is neither form."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} does not say what it takes; wrap it in {_FORMS}") from error
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [part for part in signature.parameters.values() if part.kind in kinds and part.default is part.empty]
    if len(required) > 1 and _takes(signature, 3):
        return OfBatch(name, function)
    if _takes(signature, 1):
        return OfText(name, function, inputs)
    raise UserError(f"{name}{signature} can be called neither way; give {_FORMS}")


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
