"""Maps of pixels beside the masks of what they should find (docs/protocols.md, section 9)."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.models.classifier import Classifier
from benchmark.models.maps import pixel_map
from benchmark.types import Attribution, Batch
from benchmark.units import Pool

NO_MASK = "no example has a mask of pixels"
IMAGES = {"": ("", "", ""), "_correct": (", correctly classified", " (corr.)", ", of correctly classified images")}
"""Ends of metrics' names, and what title, short title and meaning then say of the images."""

_ROUNDING = 1e-6  # of a map's largest magnitude: what enlarging leaves of equal scores in float32, several times over


@dataclass(frozen=True)
class MaskedMaps:
    """The images of a batch that have a mask with a pixel in the model's input.

    Attributes:
        uids: of the N images.
        maps: one score per pixel, in float64.
        masks: which pixels a map should find.
        correct: whether the model predicts the annotated class; False where none is annotated.
    """

    uids: tuple[str, ...]
    maps: Float[Tensor, "N Y X"]
    masks: Bool[Tensor, "N Y X"]
    correct: Bool[Tensor, "N"]


def levelled_map(batch: Batch, attribution: Attribution, how: Pool) -> Float[Tensor, "B Y X"]:
    """`pixel_map` in float64; a map that varies no more than the rounding of its enlargement is constant.

    Raises:
        NotApplicable: the batch holds no images, or the method scores neither patches nor pixels.
    """
    maps = pixel_map(batch, attribution, how).double()
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    return torch.where(high - low <= rounding(maps), high, maps)


def rounding(maps: Float[Tensor, "B Y X"]) -> Float[Tensor, "B 1 1"]:
    """How far equal scores may lie apart in each map."""
    return _ROUNDING * maps.abs().amax((1, 2), keepdim=True)


def masked_maps(model: Classifier, batch: Batch, attribution: Attribution, how: Pool) -> MaskedMaps:
    """The maps of the images that have a mask.

    Raises:
        NotApplicable: the batch holds no images, or the method scores neither patches nor pixels.
    """
    maps = levelled_map(batch, attribution, how)
    marked = {b: mask for b, mask in enumerate(batch.masks) if mask is not None and mask.any()}
    rows = list(marked)
    masks = np.stack([*marked.values()]) if rows else np.zeros((0, *maps.shape[1:]), dtype=bool)
    correct = model.predict(batch) == batch.label if rows else torch.zeros_like(batch.label, dtype=torch.bool)
    return MaskedMaps(
        uids=tuple(batch.uids[b] for b in rows),
        maps=maps[rows],
        masks=torch.from_numpy(masks).to(maps.device),
        correct=correct[rows],
    )
