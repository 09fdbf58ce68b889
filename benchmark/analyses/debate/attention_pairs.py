"""How far the attention of two models lies apart, with their heads in order or matched."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models import AttentionEdit, Classifier
from benchmark.models.divergences import even_rows, jsd, over_rows
from benchmark.types import Batch

Rows = Literal["all queries", "read token"]
ROWS: tuple[Rows, ...] = get_args(Rows)


@dataclass(frozen=True)
class Recorded:
    """One batch in two models, padded alike.

    Attributes:
        batch: the examples.
        attentions: of each model, per layer.
        probabilities: of the classes, of each model.
        rows: weight of each query, by which queries are read.
    """

    batch: Batch
    attentions: tuple[Sequence[Tensor], Sequence[Tensor]]
    probabilities: tuple[Tensor, Tensor]
    rows: dict[Rows, Float[Tensor, "B T"]]


def recorded_pairs(
    first: Classifier, second: Classifier, batches: Sequence[Batch], edits: Sequence[AttentionEdit] = ()
) -> Iterator[Recorded]:
    """Both models on the same batches, in parts that fit the memory budget.

    Args:
        first: a model.
        second: one of as many layers and heads, and the same tokens.
        batches: encoded for either.
        edits: of the first model's attention.

    Raises:
        NotApplicable: layers or heads differ, or the labels have a probability each.
    """
    shapes = [(model.n_layers, model.n_heads, len(model.labels)) for model in (first, second)]
    if shapes[0] != shapes[1]:
        raise NotApplicable(f"layers, heads and classes of the models differ: {shapes[0]} and {shapes[1]}")
    first.needs_distribution("total variation")
    for batch in batches:
        for part, _ in first.parts(batch, 2 * first.n_layers + 3 * first.n_heads):
            traces = first.run(part, record=("attentions",), edits=edits), second.run(part, record=("attentions",))
            dtype = traces[0].attentions[0].dtype
            even, read = even_rows(part.attention_mask, dtype), first.read_weights(part).to(dtype)
            yield Recorded(
                part,
                (traces[0].attentions, traces[1].attentions),
                (traces[0].probabilities, traces[1].probabilities),
                {"all queries": even, "read token": read},
            )


def head_divergences(recorded: Recorded, rows: Float[Tensor, "B T"]) -> Float[Tensor, "B L H H"]:
    """JSD of every head of the first model and every head of the second in each layer, mean over queries."""
    layers = []
    for first, second in zip(*recorded.attentions, strict=True):
        layers.append(over_rows(jsd(first[:, :, None], second[:, None]), rows[:, None, None]))
    return torch.stack(layers, dim=1)


def matched(divergences: Float[NDArray[np.float64], "N L H H"]) -> Float[NDArray[np.float64], "N L"]:
    """Mean over heads, those of the second model in the order that makes the mean over examples least, layer by layer.

    Heads have no order between trainings. The matching is that of Hungarian method, on all examples.
    """
    layers = []
    for layer in range(divergences.shape[1]):
        first, second = linear_sum_assignment(divergences[:, layer].mean(0))
        layers.append(divergences[:, layer, first, second].mean(1))
    return np.stack(layers, axis=1)


def in_order(divergences: Float[NDArray[np.float64], "N L H H"]) -> Float[NDArray[np.float64], "N L"]:
    """Mean over heads, each with that of the same number."""
    means: NDArray[np.float64] = np.diagonal(divergences, axis1=2, axis2=3).mean(-1)
    return means


def same_tokens(first: Sequence[Batch], second: Sequence[Batch]) -> None:
    """NotApplicable where two models read the examples as different tokens, so that their attention cannot be compared."""
    for a, b in zip(first, second, strict=True):
        alike = a.uids == b.uids and a.tensors.keys() == b.tensors.keys() and torch.equal(a.units, b.units)
        if not alike or not all(torch.equal(tensor, b.tensors[name]) for name, tensor in a.tensors.items()):
            raise NotApplicable("the models read the examples as different tokens")
