"""What a method gives is held to what it promises, before anything is computed from it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from jaxtyping import Float, Int
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.guard import is_ours, watched
from benchmark.run.offers import JointMethod
from benchmark.types import Attribution, Batch, EdgeMethod, Method, layouts

_WAY_OUT = "Attribution in benchmark/types.py says what each is, Batch.units which word each token belongs to"


@dataclass(frozen=True)
class Checked:
    """An explainer whose answers are checked; a mistake in one is a line that names the method and what was expected.

    Scores that are not finite are let pass: they are a dash, not a mistake of the form (`arrays.flat`). A method that is not
    ours is `watched`: what it leaves changed is put back, and is a line likewise.

    Attributes:
        name: of the method in the comparison.
        method: the explainer.
    """

    name: str
    method: Method

    @property
    def class_specific(self) -> bool:
        """That of the method."""
        return self.method.class_specific

    @cached_property
    def ours(self) -> bool:
        """Whether the method and its parts come from this project."""
        return is_ours(self.method)

    def _watched(self, model: Classifier, batch: Batch, target: Tensor) -> AbstractContextManager[None]:
        return nullcontext() if self.ours else watched(f"methods.{self.name}", model, [batch], target)

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """The method's attributions; UserError where they are of another form than a batch's `Attribution`."""
        with self._watched(model, batch, target):
            answer = self.method(model, batch, target)
        return self._checked(answer, model, batch, "the method")

    def with_edges(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """The same of a `JointMethod`, with edge scores."""
        joint = cast(JointMethod, self.method)
        with self._watched(model, batch, target):
            answer = joint.with_edges(model, batch, target)
        return self._checked(answer, model, batch, "with_edges")

    def edge_scores(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Float[Tensor, "B L H T T"]:
        """The scores of an `EdgeMethod`; UserError where they are not of the batch's edges."""
        with self._watched(model, batch, target):
            scores = cast(EdgeMethod, self.method).edge_scores(model, batch, target)
        n_examples, width = batch.units.shape
        heads = {1, model.n_heads}
        expected = f"a torch tensor of shape [{n_examples}, {model.n_layers}, {model.n_heads} or 1, {width}, {width}]"
        if not isinstance(scores, Tensor):
            raise self._mistake(f"edge_scores gave {_described(scores)}; expected is {expected}")
        fixed = (*scores.shape[:2], *scores.shape[3:]) == (n_examples, model.n_layers, width, width)
        if scores.ndim != 5 or not fixed or scores.shape[2] not in heads:
            raise self._mistake(f"edge_scores gave {_described(scores)}; expected is {expected}")
        return scores

    def _checked(self, answer: Any, model: Classifier, batch: Batch, who: str) -> Attribution:
        if not isinstance(answer, Attribution):
            raise self._mistake(
                f"{who} gave {_described(answer)}; expected is benchmark.types.Attribution(target=target, tokens=...), "
                f"with tokens of shape {list(batch.units.shape)}, one score for each token of each example"
            )
        for field, shape in _shapes(answer, model, batch).items():
            value = getattr(answer, field)
            if not isinstance(value, Tensor) or not _fits(value, shape):
                found = _described(value)
                raise self._mistake(
                    f"{who} gave as {field} {found}; expected is a torch tensor of shape {_typed(shape)}"
                )
        return answer

    def _mistake(self, text: str) -> UserError:
        return UserError(f"methods.{self.name}: {text} ({_WAY_OUT})")


def _shapes(answer: Attribution, model: Classifier, batch: Batch) -> Mapping[str, tuple[int | None, ...]]:
    """What every field that is given must have; None for a dimension of any size."""
    n_examples, width = batch.units.shape
    sizes = {"B": n_examples, "T": width, "L": model.n_layers, "H": model.n_heads}
    sizes |= dict(zip("YX", batch.size or (0, 0), strict=True))
    given = {"target": None, **answer.of_examples}
    return {name: tuple(map(sizes.get, layouts()[name].dimensions)) for name in given}


def _fits(value: Tensor, shape: tuple[int | None, ...]) -> bool:
    return value.ndim == len(shape) and all(
        size in (None, found) for size, found in zip(shape, value.shape, strict=True)
    )


def _typed(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('K' if size is None else str(size) for size in shape)}]"


def _described(value: Any) -> str:
    """Type and shape of what was given, in words."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    kind = type(value).__name__
    if value is None:
        return "None"
    size = f" of {len(value)} items" if isinstance(value, list | tuple | dict) else ""
    return f"a {kind}{size}"
