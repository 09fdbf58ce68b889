"""What methods on units (words, patches) share: which there are, their scores as token scores, patches as a grid."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.targets import Target
from benchmark.types import Attribution, Batch
from benchmark.units import pool
from methods.shared.input_gradients import Change, output_drops


def visible_units(batch: Batch) -> Bool[Tensor, "B U"]:
    """Units that have a token within the model's window."""
    _, visible = pool(torch.zeros_like(batch.units, dtype=torch.float32), batch.units)
    return visible


def unit_attribution(batch: Batch, target: Target, scores: Float[Tensor, "B U"]) -> Attribution:
    """Every token with the score of its unit, 0 where it has none."""
    if scores.shape[1] == 0:
        return Attribution(target=target, tokens=scores.new_zeros(batch.units.shape))
    tokens = scores.gather(1, batch.units.clamp(min=0)).masked_fill(batch.units < 0, 0)
    return Attribution(target=target, tokens=tokens)


def drops_of_each(
    model: Classifier,
    batch: Batch,
    target: Target,
    removed: Bool[Tensor, "K B U"],
    run: Callable[[Batch, Bool[Tensor, "N 1 U"]], Float[Tensor, "N 1 C"]],
    output: Change,
) -> Float[Tensor, "K B"]:
    """`output_drops` of one example after the other: its variants share passes with each other alone.

    So what an example scores does not depend on its neighbours, not even by rounding. Rounding is large beside the effects
    of removals where a prediction hardly reacts to any. Logits of all classes, which may be a vocabulary, are held of one
    example at a time.

    Args:
        model: the classifier.
        batch: the examples.
        target: what is explained of each.
        removed: which units each of K variants lacks.
        run: gives logits of the whole example and its variants.
        output: what drops.
    """
    variants = torch.cat([torch.zeros_like(removed[:1]), removed])
    drops = []
    for b in range(len(batch)):
        logits = run(batch.select([b]), variants[:, b : b + 1])
        drops.append(output_drops(model, logits, target[[b]], output))
    return torch.cat(drops, dim=1)


def patch_grid(model: Classifier, batch: Batch) -> tuple[int, int] | None:
    """(rows, columns) of an image's patches, numbered row by row; None for a text."""
    if "pixel_values" not in batch.tensors:
        return None
    height, width = batch.tensors["pixel_values"].shape[2:]
    size = model.config.patch_size
    high, wide = (size, size) if isinstance(size, int) else size
    return height // high, width // wide
