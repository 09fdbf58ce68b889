"""Attention weights set to 0, in the rows of a scope."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.analyses.debate.edited_runs import Selected, Weights
from benchmark.randomness import generator

Order = Literal["attention", "gradient", "attention × gradient", "random"]


def without(weights: Weights, dropped: Mapping[int, Bool[Tensor, "N H R T"]], *, renormalise: bool) -> Weights:
    """The weights with some at 0; `renormalise` brings each row back to the sum it had, where anything is left of it.

    Rows from which nothing is dropped stay the same to the last bit.
    """
    result = {}
    for i, own in weights.items():
        left = own.masked_fill(dropped[i], 0.0)
        if renormalise:
            before, after = own.sum(-1, keepdim=True), left.sum(-1, keepdim=True)
            factor = torch.where(after > 0, before / after, 0.0)
            left = torch.where(dropped[i].any(-1, keepdim=True), left * factor, left)
        result[i] = left
    return result


def largest(selected: Selected) -> dict[int, Bool[Tensor, "B H R T"]]:
    """The largest movable weight of every edited row and head; of equal ones the first."""
    return {
        i: _one(own.masked_fill(~_movable(selected, i), -1.0).argmax(-1), selected, i)
        for i, own in selected.weights.items()
    }


def another(selected: Selected, draw: int, seed: int) -> dict[int, Bool[Tensor, "B H R T"]]:
    """One movable weight of every edited row and head, drawn uniformly among those that are not `largest`."""
    drawn = {}
    for i, top in largest(selected).items():
        keys = random_keys(selected, i, f"another weight {draw}", seed).masked_fill(~_movable(selected, i) | top, -1.0)
        drawn[i] = _one(keys.argmax(-1), selected, i)
    return drawn


def ranked(selected: Selected, order: Order, seed: int) -> dict[int, Int[Tensor, "B H R T"]]:
    """The place of every movable weight of the scope, over all layers, rows and heads, from 0; others come behind.

    `gradient` is ∂y/∂A of the logit of the predicted class, signed, in the model as it is; all orders are descending.
    """
    scores = _scores(selected, order, seed)
    movable = {i: _movable(selected, i).expand_as(score) for i, score in scores.items()}
    flat = torch.cat([s.double().masked_fill(~movable[i], -torch.inf).flatten(1) for i, s in scores.items()], dim=1)
    by_score = flat.argsort(dim=1, descending=True, stable=True)
    place = torch.empty_like(by_score)
    place.scatter_(1, by_score, torch.arange(flat.shape[1], device=flat.device).expand_as(by_score))
    ends = np.cumsum([score[0].numel() for score in scores.values()])
    return {
        i: place[:, end - score[0].numel() : end].reshape(score.shape)
        for (i, score), end in zip(scores.items(), ends.tolist(), strict=True)
    }


def movable_count(selected: Selected) -> Int[Tensor, "B"]:
    """How many weights of all layers, rows and heads are movable."""
    return torch.stack([_movable(selected, i).flatten(1).sum(1) for i in selected.rows]).sum(0)


def random_keys(selected: Selected, layer: int, purpose: str, seed: int) -> Float[Tensor, "B H R T"]:
    """U(0, 1) for every weight, which depends on the example and the layer, not on the padding of its batch."""
    batch, own = selected.unedited.batch, selected.weights[layer]
    lengths = batch.attention_mask.sum(1).tolist()
    keys = torch.zeros(own.shape, dtype=torch.float64)
    for b, (uid, length) in enumerate(zip(batch.uids, lengths, strict=True)):
        rows = min(own.shape[2], length)
        random = generator(seed, purpose, uid, str(layer)).random((own.shape[1], rows, length))
        keys[b, :, :rows, :length] = torch.from_numpy(random)
    return keys.to(own.device)


def _scores(selected: Selected, order: Order, seed: int) -> Weights:
    if order == "attention":
        return selected.weights
    if order == "random":
        return {i: random_keys(selected, i, "order of removal", seed) for i in selected.rows}
    gradients = selected.gradients
    return {i: g if order == "gradient" else g * selected.weights[i] for i, g in gradients.items()}


def _movable(selected: Selected, layer: int) -> Bool[Tensor, "B H R T"]:
    return selected.rows[layer].movable[:, None].expand_as(selected.weights[layer])


def _one(place: Int[Tensor, "B H R"], selected: Selected, layer: int) -> Bool[Tensor, "B H R T"]:
    """True at one key of each row, where the row is edited."""
    movable = _movable(selected, layer)
    return torch.zeros_like(movable).scatter(-1, place[..., None], value=True) & movable
