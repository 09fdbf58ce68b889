"""Edits of attention probabilities (of edges, and of whole rows) and of what heads give the output projection; `PruneHeads`,
in `attention_interface`, takes whole heads away.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class KeepEdges:
    """Edit that keeps a set of attention edges: `A'[l,h,i,j] = A[l,h,i,j] · keep[l,i,j]`, after the softmax, in all heads.

    With `renormalise` each row is rescaled to the sum it had, `A'[l,h,i,:] · Σ_j A[l,h,i,j] / Σ_j A'[l,h,i,j]`; a row
    without an edge left stays 0. Where no edge is dropped, the probabilities are the same to the last bit.

    Attributes:
        keep: True where an edge stays; its first dimension is 1 (the same edges for all examples) or B.
        renormalise: rescale rows.
    """

    keep: Bool[Tensor, "B L T T"]
    renormalise: bool = False

    def __call__(self, layer: int, probabilities: Float[Tensor, "B H T T"]) -> Float[Tensor, "B H T T"]:
        """Probabilities of `layer` with the other edges at 0."""
        probabilities_left = probabilities * self.keep[:, layer, None].to(probabilities.dtype)
        if not self.renormalise:
            return probabilities_left
        before, after = probabilities.sum(-1, keepdim=True), probabilities_left.sum(-1, keepdim=True)
        return probabilities_left * torch.where(after > 0, before / after, 0.0)


def make_uniform(layer: int, probabilities: Float[Tensor, "B H T T"]) -> Float[Tensor, "B H T T"]:
    """Edit that gives every key that a query may attend to the same probability (Wiegreffe & Pinter 2019).

    A query may attend to the keys of a probability above 0: padding and masked keys have exactly 0.
    """
    allowed = (probabilities > 0).to(probabilities.dtype)
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class UniformLayers:
    """Edit that makes the attention of some layers uniform (`make_uniform`).

    Attributes:
        layers: which, counted from 0.
    """

    layers: tuple[int, ...]

    def __call__(self, layer: int, probabilities: Float[Tensor, "B H T T"]) -> Float[Tensor, "B H T T"]:
        """Probabilities of `layer`."""
        return make_uniform(layer, probabilities) if layer in self.layers else probabilities


@dataclass(frozen=True)
class KeepOutputs:
    """Edit that changes nothing and keeps what the heads of each layer give the output projection.

    Attributes:
        outputs: one [B T H D] of each layer, in the order of the forward pass.
    """

    outputs: list[Tensor] = field(default_factory=list)

    def __call__(self, layer: int, outputs: Float[Tensor, "B T H D"]) -> Float[Tensor, "B T H D"]:
        """The same outputs."""
        self.outputs.append(outputs)
        return outputs


@dataclass(frozen=True)
class PatchHeads:
    """Edit that puts outputs of other runs in place of those of some heads at some positions (interchange intervention).

    Attributes:
        outputs: of each layer what is put there; of `KeepOutputs`, or zeros.
        where: True where it is put; dimensions of examples and positions may be 1, for all of them.
    """

    outputs: Sequence[Float[Tensor, "B T H D"]]
    where: Bool[Tensor, "#B L H #T"]

    def __call__(self, layer: int, outputs: Float[Tensor, "B T H D"]) -> Float[Tensor, "B T H D"]:
        """Outputs of `layer` with the others in place."""
        return torch.where(self.where[:, layer].transpose(1, 2)[..., None], self.outputs[layer], outputs)
