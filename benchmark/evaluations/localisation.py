"""Pointing and energy: does a map find the object? (Zhang et al. 2018; Wang et al. 2020; docs/protocols.md, section 9)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.evaluations.base import Averaged, Rows, described, higher
from benchmark.evaluations.maps import IMAGES, NO_MASK, masked_maps, rounding
from benchmark.models.classifier import Classifier
from benchmark.results.record import About, Metric
from benchmark.settings.declared import configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool

_MEASURES = {
    "pointing": ("pointing game", "pointing", "whether the map's highest pixel lies in the {}, ties at their mean"),
    "energy": ("energy", "energy", "share of the map's positive part that lies in the {}"),
}
_REGIONS = {"": ("", "", "mask"), "_box": (", box", " (box)", "mask's bounding box")}


@configurable
class Localisation(Averaged):
    """Where a map of pixels has its maximum and its positive part, against the mask of what it should find.

    With M the mask, s the map of pixels (`benchmark.evaluations.maps`) and s⁺ its positive part:

    - `pointing`: 1 where the map's maximum lies in M. Where several pixels share it, the share of them that lie in M:
      what drawing one of them would give on average. Pixels count as equal within 1e-6 of the map's largest magnitude,
      which is what enlarging equal scores of patches leaves. There is no tolerance around M: the 15 pixels of Zhang et
      al. 2018 are nearly a patch of ViT-B/16.
    - `energy`: Σ_M s⁺ / Σ s⁺, the energy-based pointing game (Wang et al. 2020), in a mosaic the localisation of Böhle
      et al. 2021; 0 where s has no positive part, as in the code of the latter: nothing that speaks for the class is
      in M.
      A map of patches is enlarged bilinearly and spills half a patch over the mask's edge: the control `oracle` shows the
      most that it can get.
    - `pointing_box`, `energy_box`: the same for the smallest rectangle that holds M.
    - `area`, `area_box`: the share of the image that M and the rectangle cover, what a map without knowledge gets.
    - `..._correct`: over the images that the model classifies correctly.

    Images without a mask, or without a pixel of it in the model's input, get no row.

    Attributes:
        target: the class that is explained. The mask is of the annotated one, and a good explanation of another class
            lies elsewhere; hence `label`, where agreement with rationales, which belong to a prediction, takes
            `predicted`.
        pool: from the scores of a patch's tokens to its own.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("plausibility", 12, "Localisation")
    nothing: ClassVar[str] = NO_MASK
    of_images: ClassVar[Literal[True]] = True

    target: TargetName = "label"
    pool: Pool = "max"

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Shares of one image each."""
        metrics = {}
        for images, (said, brief, told) in IMAGES.items():
            for region, (of_region, narrow, words) in _REGIONS.items():
                for name, (title, short, meaning) in _MEASURES.items():
                    metrics[f"{name}{region}{images}"] = higher(
                        f"{title}{of_region}{said}",
                        meaning.format(words) + told,
                        short=f"{short}{narrow}{brief}",
                        headline=not region and not images,
                    )
        for region, (of_region, narrow, words) in _REGIONS.items():
            metrics[f"area{region}"] = described(
                f"area{of_region}",
                f"share of the image that the {words} covers, what a map without knowledge scores",
                short=f"area{narrow}",
            )
        return metrics

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Scores of each image with a mask; NotApplicable for texts, and where the method scores nothing to map."""
        found = masked_maps(model, batch, attribution, self.pool)
        rows = Rows(found.uids)
        for region, inside in (("", found.masks), ("_box", boxes(found.masks))):
            for name, values in (("pointing", pointing(found.maps, inside)), ("energy", energy(found.maps, inside))):
                rows.add(f"{name}{region}", values)
                rows.add(f"{name}{region}_correct", values, defined=found.correct)
            rows.add(f"area{region}", inside.double().mean((1, 2)))
        return rows.frame()


def pointing(maps: Float[Tensor, "N Y X"], inside: Bool[Tensor, "N Y X"]) -> Float[Tensor, "N"]:
    """Share of each map's highest pixels that lie inside; NaN where the map holds a NaN."""
    highest = maps >= maps.amax((1, 2), keepdim=True) - rounding(maps)
    return (highest & inside).sum((1, 2)) / highest.sum((1, 2)).double()


def energy(maps: Float[Tensor, "N Y X"], inside: Bool[Tensor, "N Y X"]) -> Float[Tensor, "N"]:
    """Share of each map's positive part that lies inside; 0 where there is none."""
    positive = maps.clamp(min=0)
    whole, part = positive.sum((1, 2)), positive.masked_fill(~inside, 0).sum((1, 2))
    return torch.where(whole == 0, 0.0, (part / whole.where(whole != 0, 1)).clamp(max=1))  # sums are rounded


def boxes(masks: Bool[Tensor, "N Y X"]) -> Bool[Tensor, "N Y X"]:
    """The smallest rectangle around each mask, filled."""
    return _hull(masks.any(2))[:, :, None] & _hull(masks.any(1))[:, None, :]


def _hull(marked: Bool[Tensor, "N L"]) -> Bool[Tensor, "N L"]:
    """From the first mark of each row to its last."""
    begun, left = marked.int().cumsum(1), marked.int().flip(1).cumsum(1).flip(1)
    return (begun > 0) & (left > 0)
