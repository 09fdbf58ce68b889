"""Maps of pixels, from the scores of patches, and masks of what they should find (docs/protocols.md, sections 1 and 9)."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.types import Attribution, Batch
from benchmark.units import Pool, pool

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


def pixel_map(batch: Batch, attribution: Attribution, how: Pool = "max") -> Float[Tensor, "B Y X"]:
    """One score per pixel of the model's input: the method's own, or those of its patches enlarged bilinearly.

    The centre of a patch has the patch's score and pixels between four centres are interpolated; beyond the outermost
    centres the score stays (`align_corners=False`, as the code of Chefer 2021a has it). A margin of pixels narrower than a
    patch, which the model does not read, goes on as the pixels beside it.

    Args:
        batch: images.
        attribution: scores of their patches, or of their pixels.
        how: from the scores of a patch's tokens to its own.

    Raises:
        NotApplicable: the batch holds no images, or the method scores neither patches nor pixels.
    """
    if batch.grid is None or batch.patch is None or batch.size is None:
        raise NotApplicable("the examples are no images")
    if attribution.pixels is not None:
        return attribution.pixels.to(batch.units.device)
    if attribution.tokens is None:
        raise NotApplicable("the method gives no token scores")
    scores, _ = pool(attribution.tokens.to(batch.units.device), batch.units, how)
    rows, columns = batch.grid
    pixels = F.interpolate(
        scores.reshape(-1, 1, rows, columns), scale_factor=batch.patch, mode="bilinear", align_corners=False
    )
    margin = (0, batch.size[1] - pixels.shape[-1], 0, batch.size[0] - pixels.shape[-2])
    return F.pad(pixels, margin, mode="replicate")[:, 0]


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
