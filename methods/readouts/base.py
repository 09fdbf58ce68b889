"""What a token readout is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from benchmark.errors import UserError
from methods.edges.base import Edges


@runtime_checkable
class Readout(Protocol):
    """Turns edge scores into one score per token."""

    version: int

    def __call__(self, edges: Edges, read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores; `read[b]` weighs the tokens whose final state the classifier reads (rows sum to 1)."""
        ...


class LayerwiseReadout(ABC):
    """A readout that reduces each layer alone and then needs nothing else of it, so that no two layers are held at once."""

    def needs(self, layer: int, n_layers: int) -> bool:
        """Whether the readout reads this layer at all; UserError for a setting that names a layer that there is not."""
        return True

    @abstractmethod
    def reduce(self, edges: Float[Tensor, "B H T T"], read: Float[Tensor, "B T"]) -> Tensor:
        """What is kept of one layer."""

    @abstractmethod
    def combine(self, layers: Sequence[Tensor], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores from what was kept of the needed layers, from the first to the last."""

    def __call__(self, edges: Edges, read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores; `read[b]` weighs the tokens whose final state the classifier reads."""
        needed = (layer for number, layer in enumerate(edges) if self.needs(number, len(edges)))
        return self.combine([self.reduce(layer, read) for layer in needed], read)


def reads_layer_by_layer(readout: Readout) -> TypeGuard[LayerwiseReadout]:
    """Whether the parts of a readout give what a call gives: a subclass that calls in a way of its own may not."""
    call: Any = type(readout).__call__
    return isinstance(readout, LayerwiseReadout) and call is LayerwiseReadout.__call__


def read_rows(edges: Float[Tensor, "B H T T"], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """`Σ_i read_i mean_h E[h,i,j]`: the row of the token that the classifier reads."""
    return (read.unsqueeze(1) @ edges.mean(1)).squeeze(1)


@runtime_checkable
class ChecksLayers(Protocol):
    """A readout with a setting that names layers."""

    def check_layers(self, n_layers: int) -> None:
        """UserError where a model of so many layers does not have one of them."""
        ...


def layer_index(layer: int, n_layers: int, setting: str) -> int:
    """A layer counted from 0, or from the end where negative; UserError where there is none."""
    if not -n_layers <= layer < n_layers:
        raise UserError(
            f"{setting}={layer} is out of range: the model has {n_layers} layers; "
            f"{-n_layers} to {n_layers - 1} are allowed"
        )
    return layer % n_layers


def head_index(head: int, n_heads: int, setting: str) -> int:
    """A head counted from 0, or from the end where negative; UserError where there is none."""
    if not -n_heads <= head < n_heads:
        raise UserError(
            f"{setting}={head} is out of range: these edge scores have {n_heads} heads; "
            f"{-n_heads} to {n_heads - 1} are allowed"
        )
    return head % n_heads
