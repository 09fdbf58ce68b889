"""What a comparison reads of a method: `(method, inputs) -> [B, ...]`, in the layout of the published array."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmark import build
from benchmark.models import PruneHeads
from tests.conftest import SHARED
from tests.methods.parity import Inputs, Read


def tokens(method: Any, inputs: Inputs) -> Tensor:
    found: Tensor = method(inputs.model, inputs.batch, inputs.target).tokens
    return found


def patches(method: Any, inputs: Inputs) -> Tensor:
    return tokens(method, inputs)[:, 1:]


def pixels(method: Any, inputs: Inputs) -> Tensor:
    found: Tensor = method(inputs.model, inputs.batch, inputs.target).pixels
    return found


def share_of_sum(method: Any, inputs: Inputs) -> Tensor:
    found = tokens(method, inputs)
    return found / found.sum(1, keepdim=True)


def min_max(method: Any, inputs: Inputs) -> Tensor:
    found = patches(method, inputs)
    low, high = found.amin(1, keepdim=True), found.amax(1, keepdim=True)
    return (found - low) / (high - low)


def min_max_of_the_map(method: Any, inputs: Inputs) -> Tensor:
    """Rescaled by the extremes of the clamped map of the last layer over all its cells."""
    found = tokens(method, inputs)
    maps = method.edge_scores(inputs.model, inputs.batch, inputs.target)[:, -1].mean(1).clamp(min=0)
    for row in range(len(found)):
        own = maps[row, : inputs.length(row), : inputs.length(row)]
        found[row] = (found[row] - own.min()) / (own.max() - own.min())
    return found


def every_class(method: Any, inputs: Inputs) -> Tensor:
    """Token scores for each class, [B T C]."""
    classes = range(len(inputs.model.labels))
    chosen = [torch.full_like(inputs.target, target) for target in classes]
    return torch.stack([tokens(method, replace(inputs, target=target)) for target in chosen], dim=-1)


def every_class_without_value_bias(method: Any, inputs: Inputs) -> Tensor:
    """With the biases of all value projections at 0."""
    biases = [value for name, value in inputs.model.model.named_parameters() if name.endswith("self.value.bias")]
    kept = [bias.detach().clone() for bias in biases]
    assert biases
    try:
        for bias in biases:
            bias.data.zero_()
        return every_class(method, inputs)
    finally:
        for bias, before in zip(biases, kept, strict=True):
            bias.data.copy_(before)


def edges(method: Any, inputs: Inputs) -> Tensor:
    """[B L H T T]."""
    found: Tensor = method.edge_scores(inputs.model, inputs.batch, inputs.target)
    return found


def joint_edges(method: Any, inputs: Inputs) -> Tensor:
    """[B L T T] of edge scores that know no heads."""
    return edges(method, inputs).squeeze(2)


def per_attention(method: Any, inputs: Inputs) -> Tensor:
    """Edge scores of which attention is a factor, divided by it and read at the read row: [B L H T]."""
    attention = edges(build("methods/raw_attention"), inputs)
    return (edges(method, inputs) / attention)[:, :, :, 0]


def heads(method: Any, inputs: Inputs) -> Tensor:
    found: Tensor = method(inputs.model, inputs.batch, inputs.target).heads
    return found


def sum_over_examples(method: Any, inputs: Inputs) -> Tensor:
    return heads(method, inputs).sum(0)


def mean_over_examples(method: Any, inputs: Inputs) -> Tensor:
    return heads(method, inputs).mean(0)


def pruned(ranking: str) -> Read:
    """Logits [B 11 C] as the heads that the script removed are removed, 0 … 100 %."""

    def read(_method: Any, inputs: Inputs) -> Tensor:
        masks = np.load(SHARED / "golden" / "attattr_bert.npz")[f"prune_masks_{ranking}"]
        edits = [PruneHeads(torch.as_tensor(keep)[None].bool()) for keep in masks]
        return torch.stack([inputs.model.run(inputs.batch, edits=[edit]).logits for edit in edits], dim=1)

    return read


def aggregated(method: Any, inputs: Inputs) -> Tensor:
    found: Tensor = method.aggregate_heads(heads(method, inputs))
    return found
