"""A map of pixels as a segmentation of foreground and background (Chefer 2021a, section 4; docs/protocols.md, section 9)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.evaluations.base import Averaged, Derived, Rows, higher
from benchmark.evaluations.maps import IMAGES, NO_MASK, masked_maps
from benchmark.evaluations.rationale.documents import average_precision
from benchmark.models.classifier import Classifier
from benchmark.results.record import About, Metric
from benchmark.results.statistics import mean_of_ratios, ratio
from benchmark.settings.declared import configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool

_POOLED = {
    "pixel_accuracy": (("right", "pixels"), ratio),
    "miou": (("shared", "shared_background", "joined", "joined_background"), mean_of_ratios),
}
"""Figures of sums over all images, and the counts of each image that they are made of."""

_WORDS = {
    "pixel_accuracy": (
        "pixel accuracy",
        "pixel acc.",
        "share of all pixels of all images on the right side, of a constant map that of background",
    ),
    "miou": (
        "mean IoU",
        "mIoU",
        "intersection over union of all pixels of all images, mean of object and background, of a constant map half of the "
        "background's share",
    ),
    "average_precision": ("mean average precision", "mAP", "average precision of map and 1 − map, together, per image"),
    "f1": ("pixel F1", "F1", "F1 of the pixels that the map takes for the object, per image"),
    "f1_of_lines": (
        "pixel F1, line by line",
        "F1 (lines)",
        "F1 of every line of pixels, 0 where it has none; mean of lines",
    ),
}
_HEADLINES = ("pixel_accuracy", "miou", "average_precision")


@configurable
class Segmentation(Averaged):
    """A map against a mask as Chefer 2021a compares them on ImageNet-Segmentation.

    The map of pixels (`benchmark.evaluations.maps`) is scaled to [0, 1] by its minimum and maximum; what lies above its
    mean is taken for the object, the rest for background.

    - `pixel_accuracy`: pixels on the right side over all pixels, summed over all images.
    - `miou`: for object and for background, pixels that are in both over those in either, summed over all images;
      their mean.
    - `average_precision` (mAP): of each image, the average precision of the scores (1 − map, map) of all its pixels,
      flattened together, against (background, object) of the mask; mean over images. It is an expectation over the orders
      of equal scores, where the published program takes these as one threshold.
    - `f1`: of each image, 2 · shared / (taken + marked); mean over images.
    - `f1_of_lines`: what the published program calls F1: it hands the lines of pixels of an image to a function for a
      batch, so that each line is a sample, and one without a pixel that is taken and marked counts 0.
    - `..._correct`: over the images that the model classifies correctly.

    A constant map takes every pixel for background and scores 0 on both channels, as the published program has it, where
    scaling divides by zero; a map that holds a NaN likewise. Its pixel accuracy is the share of background, which is much
    where objects are small, its mean IoU half of that, and its average precision that of random scores, about ½.
    Images without a mask, or without a pixel of it in the model's input, get no row.

    Attributes:
        target: the class that is explained; the published one is the predicted class.
        pool: from the scores of a patch's tokens to its own.
    """

    version: ClassVar[int] = 2  # 2: average precision over the orders of equal scores
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("plausibility", 14, "Segmentation")
    nothing: ClassVar[str] = NO_MASK
    of_images: ClassVar[Literal[True]] = True

    target: TargetName = "predicted"
    pool: Pool = "max"

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """All lie between 0 and 1."""
        return {
            f"{name}{images}": higher(
                title + said, meaning + told, short=short + brief, headline=name in _HEADLINES and not images
            )
            for images, (said, brief, told) in IMAGES.items()
            for name, (title, short, meaning) in _WORDS.items()
        }

    @property
    def derived(self) -> Mapping[str, Derived]:
        """Ratios of sums over images."""
        return {
            f"{name}{images}": Derived(tuple(f"{column}{images}" for column in columns), statistic)
            for images in IMAGES
            for name, (columns, statistic) in _POOLED.items()
        }

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Counts and scores of each image with a mask; NotApplicable for texts, and where the method maps nothing."""
        found = masked_maps(model, batch, attribution, self.pool)
        scaled = scaled_maps(found.maps)
        taken = foreground(scaled)
        columns: dict[str, Tensor | NDArray[np.float64]] = {
            **counts(taken, found.masks),
            "average_precision": average_precisions(scaled, found.masks),
            "f1": f1(taken.flatten(1), found.masks.flatten(1)),
            "f1_of_lines": f1(taken, found.masks).mean(1),
        }
        rows = Rows(found.uids)
        for name, values in columns.items():
            rows.add(name, values)
            rows.add(f"{name}_correct", values, defined=found.correct)
        return rows.frame()


def scaled_maps(maps: Float[Tensor, "N Y X"]) -> Float[Tensor, "N Y X"]:
    """Each map from its minimum, 0, to its maximum, 1; NaN throughout where it is constant or holds a NaN."""
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    return (maps - low) / (high - low)


def foreground(scaled: Float[Tensor, "N Y X"]) -> Bool[Tensor, "N Y X"]:
    """The pixels above the mean of their map; none of a NaN map."""
    return scaled > scaled.mean((1, 2), keepdim=True)


def counts(taken: Bool[Tensor, "N Y X"], masks: Bool[Tensor, "N Y X"]) -> Mapping[str, Float[Tensor, "N"]]:
    """Pixels of each image: on the right side, at all, and in intersection and union of what is taken and marked."""
    sides = {
        "right": taken == masks,
        "pixels": torch.ones_like(masks),
        "shared": taken & masks,
        "joined": taken | masks,
        "shared_background": ~taken & ~masks,
        "joined_background": ~taken | ~masks,
    }
    return {name: side.sum((1, 2)).double() for name, side in sides.items()}


def average_precisions(scaled: Float[Tensor, "N Y X"], masks: Bool[Tensor, "N Y X"]) -> NDArray[np.float64]:
    """Average precision of each image over the pixels of both channels; a NaN scores 0 in both."""
    scores = torch.stack([1 - scaled, scaled], dim=1).nan_to_num(0.0).flatten(1).cpu().numpy()
    truth = torch.stack([~masks, masks], dim=1).flatten(1).cpu().numpy()
    return np.array([average_precision(*pair) for pair in zip(truth, scores, strict=True)], dtype=np.float64)


def f1(taken: Bool[Tensor, "*n P"], marked: Bool[Tensor, "*n P"]) -> Float[Tensor, "*n"]:
    """F1 along the last dimension; 0 where nothing is taken or marked."""
    either = taken.sum(-1) + marked.sum(-1)
    return 2 * (taken & marked).sum(-1).double() / either.clamp(min=1)
