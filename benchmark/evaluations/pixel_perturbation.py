"""Positive and negative perturbation of pixels, as published (Chefer 2021a; docs/protocols.md, section 8)."""

from typing import ClassVar, Literal

import pandas as pd
import torch

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.maps import levelled_map
from benchmark.evaluations.removal_curves import RemovalCurves
from benchmark.models.classifier import Classifier
from benchmark.models.fills import FillName, fill_for, logits_painted
from benchmark.results.record import About
from benchmark.settings.declared import Natural, Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool


@configurable
class PixelPerturbation(RemovalCurves):
    """Paint over growing fractions of the pixels, those with the highest scores first (positive) or the lowest (negative).

    The pixels of the map (`benchmark.evaluations.maps`) are ranked; at fraction f the first ⌊f · n⌋ of all n pixels of the
    model's input are painted at once, in the published test black: 0 before normalisation. Curves and areas are those
    of `Perturbation`, from the whole image on: top-1 accuracy against the label, probability and logit of the target
    class.

    Equal scores are ordered by a permutation that the example seeds, where the published program leaves it to
    `torch.topk`. A map that varies no more than the rounding of its enlargement counts as constant.

    Attributes:
        target: the class that is explained, and whose probability and logit are followed.
        fill: `auto` (black; mean where the model has no image processor), or a name in `fills.FILLS`.
        fractions: increasing, within [0, 1].
        area: `mean` or `published`.
        pool: from the scores of a patch's tokens to its own.
        seed: of the tie-breaking permutations.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    named: ClassVar[str] = "pixel_perturbation"
    removed: ClassVar[str] = "pixels"
    apart: ClassVar[str] = " pixels"
    apart_in_short: ClassVar[str] = " px"
    of_images: ClassVar[Literal[True]] = True

    target: TargetName = "predicted"
    fill: FillName = "auto"
    fractions: Shares = curves.TENTHS
    area: curves.Area = "mean"
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def about(self) -> About:
        """Removal in the order of an explanation shows whether it names what the model uses."""
        return About("faithfulness", 12, f"Perturbation of pixels{self._of_class}")

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Curves and areas of each image; NotApplicable for texts, and where the method scores nothing to map."""
        maps = levelled_map(batch, attribution, self.pool)
        fill = fill_for(self.fill, model, self.setting("fill"))
        scores = maps.flatten(1)
        everywhere = torch.ones_like(scores, dtype=torch.bool)
        ranked = ranks.descending_ranks(scores, everywhere, ranks.tie_keys(batch.uids, scores.shape[1], self.seed))
        gone = self.removals(ranked, everywhere.sum(1)).reshape(-1, *maps.shape)
        logits = logits_painted(model, batch, gone, fill)
        return self.curve_rows(model, batch, logits, attribution.target, everywhere[:, 0])
