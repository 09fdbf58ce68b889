"""Does a layer's attribution add up to what its attention contributes? (Hao 2021, docs/protocols.md, section 6)."""

from collections.abc import Mapping
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.base import UNBOUNDED, Averaged, Derived, Rows, lower
from benchmark.evaluations.head_pruning import pruned_logits
from benchmark.models.classifier import Classifier
from benchmark.results.record import About, Metric
from benchmark.results.statistics import ratio
from benchmark.settings.declared import configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Attribution, Batch, Reads


def layer_contributions(model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B L"]:
    """`F(A_l) − F(0·A_l)`: how the target's probability falls when all attention of layer l is set to 0."""
    n_layers, shape = model.n_layers, (len(batch), model.n_layers, model.n_heads)
    keep = torch.ones(1 + n_layers, *shape, dtype=torch.bool, device=batch.units.device)
    keep[torch.arange(1, n_layers + 1), :, torch.arange(n_layers)] = False
    logits = pruned_logits(model, batch, keep)
    probability = model.likelihood(logits, target)
    return (probability[:1] - probability[1:]).T


_GAP = "difference between a layer's summed attribution and what its attention adds to the class's probability"


@configurable
class Completeness(Averaged):
    """The gap `|Σ E_l − (F(A_l) − F(0·A_l))|` of each layer, with F the probability of the target class (of
    a log-probability F itself).

    `gap_layer` is the gap by layer, `gap` its mean over layers; `relative_gap` is the mean gap over the mean
    magnitude of the contributions. 0 is complete. Edge scores in other units than probability are not meant to add up
    to it, and show a large gap.

    Attributes:
        target: class that is explained.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("faithfulness", 70, "Completeness of each layer's attribution")

    target: TargetName = "predicted"

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Gap, relative gap, and the gap by layer."""
        return {
            "gap": lower(
                "completeness gap", f"{_GAP}, mean over layers", short="compl. gap", bounds=UNBOUNDED, headline=True
            ),
            "relative_gap": lower(
                "relative completeness gap",
                "mean gap over the mean magnitude of what the attention of a layer contributes",
                short="rel. gap",
                bounds=UNBOUNDED,
            ),
            "gap_layer": lower("completeness gap by layer", _GAP, bounds=UNBOUNDED, x="layer"),
        }

    @property
    def derived(self) -> Mapping[str, Derived]:
        """The relative gap is a ratio of two means."""
        return {"relative_gap": Derived(("gap", "contribution"), ratio)}

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Gaps of each example; NotApplicable where the method scores no edges."""
        if attribution.totals is None:
            raise NotApplicable("the method does not score edges")
        contributions = layer_contributions(model, batch, attribution.target)
        gaps = (attribution.totals.to(contributions.device) - contributions).abs()
        rows = Rows(batch.uids)
        rows.add("gap", gaps.mean(1))
        rows.add("contribution", contributions.abs().mean(1))
        rows.add("gap_layer", gaps, x=range(model.n_layers))
        return rows.frame()
