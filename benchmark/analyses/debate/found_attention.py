"""Adversarial attention as arrays that are kept beside the tables, and read again to be run again."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.debate.edited_runs import Selected, Weights
from benchmark.analyses.resumed import Arrays
from benchmark.results.store import Ragged


def stored(selected: Selected, weights: Weights) -> Arrays:
    """Attention in the edited rows [B K H R T] without padding: by layer one row of numbers, and the sizes of each example.

    `SCOPE/LAYER/attention` holds, example after example, [K, H, rows, tokens]; `SCOPE/LAYER/sizes` those four numbers.
    """
    lengths = selected.unedited.batch.attention_mask.sum(1).tolist()
    arrays = {}
    for layer, given in weights.items():
        rows = [min(given.shape[3], length) for length in lengths]
        parts = [given[b, :, :, : rows[b], :length] for b, length in enumerate(lengths)]
        stem = _stem(selected, layer)
        arrays[f"{stem}/attention"] = np.concatenate([_numpy(part.flatten()) for part in parts])
        arrays[f"{stem}/sizes"] = np.array([part.shape for part in parts], dtype=np.int64)
    return arrays


def restored(found: Ragged, selected: Selected) -> Weights:
    """The stored attention of the examples of a batch [B K H R T], for `adversary.checked`.

    Args:
        found: what holds the arrays of `stored` for these examples, and perhaps for others.
        selected: the batch, cut and padded in any way, within the scope that the attention was found for.
    """
    places = {uid: place for place, uid in enumerate(found.uids)}
    wanted = [places[uid] for uid in selected.unedited.batch.uids]
    weights = {}
    for layer, own in selected.weights.items():
        stem = _stem(selected, layer)
        sizes = found.arrays[f"{stem}/sizes"]
        ends = np.cumsum(sizes.prod(axis=1))
        restarts = int(sizes[0, 0])
        result = own[:, None].repeat(1, restarts, 1, 1, 1)
        for b, place in enumerate(wanted):
            _, _, rows, tokens = shape = tuple(map(int, sizes[place]))
            numbers = found.arrays[f"{stem}/attention"][ends[place] - np.prod(shape) : ends[place]]
            result[b, :, :, :rows, :tokens] = torch.from_numpy(numbers.reshape(shape)).to(own)
        weights[layer] = result
    return weights


def chosen(weights: Weights, restart: Int[Tensor, "B"]) -> Weights:
    """One restart of each example [B 1 H R T]."""
    example = torch.arange(len(restart), device=restart.device)
    return {i: given[example, restart][:, None] for i, given in weights.items()}


def read_tokens(selected: Selected, weights: Float[Tensor, "B H R T"]) -> list[NDArray[np.float64]]:
    """What the classifier's token reads in the last layer: Σ_i read_i mean_h A[h,i,j], for each example's own tokens."""
    unedited, (layer,) = selected.unedited, selected.rows
    read = unedited.model.read_weights(unedited.batch).gather(1, selected.rows[layer].query)
    rows = torch.einsum("br,brt->bt", read.double(), weights.double().mean(1))
    lengths: Sequence[int] = unedited.batch.attention_mask.sum(1).tolist()
    return [row[:length].cpu().numpy() for row, length in zip(rows, lengths, strict=True)]


def _stem(selected: Selected, layer: int) -> str:
    return f"{selected.scope.name}/{selected.unedited.model.attention_names[layer]}"


def _numpy(tensor: Tensor) -> NDArray[np.float64]:
    """The numbers as they are; halves as float32, which holds them."""
    array: NDArray[np.float64] = (tensor.float() if tensor.element_size() < 4 else tensor).cpu().numpy()
    return array
