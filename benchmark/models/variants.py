"""Expanded batches: many variants of every example in few forward passes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.models.classifier import Classifier
from benchmark.models.next_token import said_behind
from benchmark.types import Batch

Run = Callable[[Mapping[str, Tensor], Tensor, Tensor, Tensor], Tensor]
"""`(tensors, units [R T], mask [R M], example [R]) -> logits [R C]` of R variants and the example of each."""


@dataclass(frozen=True)
class Variants:
    """The distinct variants among K masks of B examples.

    Attributes:
        example: which example each of the N distinct variants belongs to.
        mask: its mask.
        place: which variant mask k of example b is.
    """

    example: Int[Tensor, "N"]
    mask: Bool[Tensor, "N M"]
    place: Int[Tensor, "K B"]


def distinct(masks: Bool[Tensor, "K B M"]) -> Variants:
    """Drop repeated variants (10 % and 15 % of five units are the same units), so that each is run once."""
    n_masks, n_examples, width = masks.shape
    flat = masks.reshape(n_masks * n_examples, width)
    example = np.tile(np.arange(n_examples, dtype=">u4"), n_masks)
    keys = np.concatenate([example.view(np.uint8).reshape(-1, 4), np.packbits(flat.cpu().numpy(), axis=1)], axis=1)
    keys = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1]))).ravel()
    _, first_places, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rows = torch.from_numpy(first_places).to(masks.device)
    place = torch.from_numpy(inverse.reshape(n_masks, n_examples)).to(masks.device)
    return Variants(example=rows % n_examples, mask=flat[rows], place=place)


def chunks(
    lengths: Int[Tensor, "N"], model: Classifier, *, layers: int = 1, most: int | None = None
) -> Iterator[Int[Tensor, "R"]]:
    """Rows for one forward pass each: longest first, within the model's `max_tokens`.

    Rows of similar length share a pass, so little padding is computed. A pass also stays within the model's memory
    budget for the attention of `layers` layers at once (1 without a graph), and has `most` rows at most. A row that exceeds
    the budget by itself still gets its pass.
    """
    order = lengths.argsort(descending=True, stable=True)
    longest = lengths[order].tolist()
    start = 0
    while start < len(longest):
        tokens = max(1, longest[start])
        rows = max(1, min(model.max_tokens // tokens, model.rows_per_chunk(tokens, layers), most or len(longest)))
        yield order[start : start + rows]
        start += rows


def take(batch: Batch, example: Int[Tensor, "R"]) -> tuple[dict[str, Tensor], Int[Tensor, "R T"]]:
    """Tensors and units of these examples (repetitions allowed), without columns that are padding in all of them."""
    tensors = {name: tensor[example] for name, tensor in batch.tensors.items()}
    units = batch.units[example]
    if "input_ids" not in tensors:
        return tensors, units
    width, longest = units.shape[1], int(batch.attention_mask.sum(1)[example].max())
    trimmed = {name: t[:, :longest] if t.ndim == 2 and t.shape[1] == width else t for name, t in tensors.items()}
    return trimmed, units[:, :longest]


def run_variants(
    model: Classifier,
    batch: Batch,
    masks: Bool[Tensor, "K B M"],
    run: Run,
    *,
    lengths: Callable[[Variants], Tensor] | None = None,
    most: int | None = None,
) -> Float[Tensor, "K B C"]:
    """Logits of every variant of every example.

    Args:
        model: the classifier, asked for its budgets of tokens and memory.
        batch: the examples, padded on the right.
        masks: K variants of each example.
        run: computes the logits of some variants.
        lengths: tokens that each distinct variant costs; None for those of its example.
        most: variants of one pass; None: as the budgets allow.
    """
    variants = distinct(masks)
    behind = said_behind(batch.tensors)
    costs = batch.attention_mask.sum(1)[variants.example] + behind if lengths is None else lengths(variants)
    if behind:  # logits of the whole vocabulary for each token that is said
        fitting = max(1, model.memory_budget // (4 * (behind + 1) * (model.encoder.vocabulary or 1)))
        most = fitting if most is None else min(most, fitting)
    distinct_logits: Tensor | None = None
    for rows in chunks(costs, model, most=most):
        tensors, units = take(batch, variants.example[rows])
        logits = run(tensors, units, variants.mask[rows], variants.example[rows])
        if distinct_logits is None:
            distinct_logits = logits.new_empty(len(variants.example), logits.shape[1])
        distinct_logits[rows] = logits
    if distinct_logits is None:
        return torch.zeros(len(masks), len(batch), len(model.labels), device=model.device, dtype=model.scores_dtype)
    return distinct_logits[variants.place]
