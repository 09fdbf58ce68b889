"""What an edge score is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.read_rows import Rows
from benchmark.models.recomputing import is_long, visit_gradients
from benchmark.targets import Target
from benchmark.types import Batch, Explainable, as_target

Edges = tuple[Float[Tensor, "B H T T"], ...]
"""One tensor per layer; entry [b, h, i, j] scores the edge from query i to key j."""

Narrowed = tuple[Float[Tensor, "B H _ T"], ...]
"""The same, the last layer's perhaps of the queries alone that the classifier reads; see `read_rows.everywhere`."""

Signs = Literal["signed", "positive"]
"""Scores as they are, or their positive part."""


@runtime_checkable
class EdgeScore(Protocol):
    """Scores every attention edge of every layer, for a class of each example.

    A `LayerwiseScore` takes a `Target` too, and explains contrasts as well.
    """

    version: int

    @property
    def class_specific(self) -> bool:
        """Whether the scores depend on the target class."""
        ...

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Scores of the L layers."""
        ...


LayerVisitor = Callable[[int, Float[Tensor, "B H T T"]], None]
"""`(l, scores of layer l)`."""


class LayerwiseScore(ABC):
    """An edge score that can be had one layer at a time, so that nothing holds [B L H T T]."""

    @abstractmethod
    def visit(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        """Call `visit` with the scores of each layer, once for each, in any order."""

    def __call__(self, model: Classifier, batch: Batch, target: Explainable) -> Edges:
        """Scores of the L layers."""
        layers: dict[int, Tensor] = {}
        self.visit(model, batch, as_target(model, batch, target), layers.__setitem__)
        return tuple(layers[number] for number in sorted(layers))


def comes_layer_by_layer(edges: EdgeScore) -> TypeGuard[LayerwiseScore]:
    """Whether `visit` gives what a call gives: a subclass that calls in a way of its own may do something else."""
    call: Any = type(edges).__call__
    return isinstance(edges, LayerwiseScore) and call is LayerwiseScore.__call__


def take(part: Signs, scores: Tensor) -> Tensor:
    """The scores themselves, or their positive part."""
    return scores if part == "signed" else scores.clamp(min=0)


def each_layer(
    model: Classifier, batch: Batch
) -> Iterator[tuple[int, Float[Tensor, "B T D"], Float[Tensor, "B H T T"]]]:
    """(l, the input of block l, its attention) of every layer, from one forward pass."""
    trace = model.run(batch, record=("attentions", "hidden"))
    for layer, (hidden, attention) in enumerate(zip(trace.hidden, trace.attentions, strict=True)):
        yield layer, hidden, attention


def visit_attention(model: Classifier, batch: Batch, visit: LayerVisitor) -> None:
    """`visit(l, A_l)` for every layer while one forward pass goes through them."""

    def look(layer: int, attention: Tensor) -> Tensor:
        visit(layer, attention)
        return attention

    model.run(batch, edits=[look])


def visit_attention_and_gradient(
    model: Classifier,
    batch: Batch,
    target: Target,
    visit: Callable[[int, Float[Tensor, "B H _ T"], Float[Tensor, "B H _ T"]], None],
    rows: Rows = "all",
) -> None:
    """`visit(l, A_l, ∂y_t/∂A_l)` for every layer; of a long input block by block, which computes each block twice."""
    if is_long(model, batch.units.shape[1]):
        visit_gradients(model, batch, target.seed, visit, rows=rows)
        return
    for layer, pair in enumerate(zip(*attention_and_gradient(model, batch, target, rows), strict=True)):
        visit(layer, *pair)


def attention_and_gradient(
    model: Classifier, batch: Batch, target: Target, rows: Rows = "all"
) -> tuple[Narrowed, Narrowed]:
    """(A, ∂y_t/∂A) of every layer, from one forward and one backward pass; `rows` as in `Classifier.run`."""
    trace = model.run(batch, record=("attentions",), grad=True, rows=rows)
    gradients = model.gradients(trace.logits, trace.attentions, weights=target.seed(trace.logits))
    return tuple(layer.detach() for layer in trace.attentions), gradients


def normalize_rows(scores: Float[Tensor, "B T T"]) -> Float[Tensor, "B T T"]:
    """Non-negative rows divided by their sums; a row of zeros stays one."""
    total = scores.sum(-1, keepdim=True)
    return scores / total.masked_fill(total == 0, 1.0)
