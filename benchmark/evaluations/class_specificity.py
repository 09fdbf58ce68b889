"""Do explanations of different classes of one example differ? (Chefer 2021a, sections 1 and 4)."""

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from benchmark.errors import NotApplicable
from benchmark.evaluations import ranks
from benchmark.evaluations.base import SIGNED, Averaged, Rows, described, lower, rated_units
from benchmark.models.classifier import Classifier
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Above, Natural, Share, configurable
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool, pool

_NO_ORDER = "in no example do the explanations of two classes both order words"


@configurable
class ClassSpecificity(Averaged):
    """Rank correlation, and overlap of the best units, between the explanations of two classes of one example.

    `tau = mean_{a<b} τ_b(s^a, s^b)` and `overlap = mean_{a<b} |top_k(s^a) ∩ top_k(s^b)| / k`. s^c are the scores of the
    example's visible, rated units for class c; k = ⌈share · units⌉, at least 1. (a, b) are all pairs of the example's
    classes: the predicted and the next most probable ones, at most 10. Ties are broken by one seeded permutation of the
    example's units, the same for both classes. τ_b is in [−1, 1], the overlap in [0, 1]; equal explanations give 1 and 1,
    unrelated ones about 0 and about `share`.

    A pair is undefined where one explanation is constant or has fewer than two units, and so orders nothing. Such pairs are
    in no mean; `undefined` is their share.

    Lower is better: an explanation that is the same for every class cannot say why this class and not that one (the source
    shows such maps for rollout and partial LRP side by side). The property is necessary, not sufficient: scores drawn anew
    for each class would have it too. It is therefore read beside a test of faithfulness.

    Attributes:
        share: of the units that are the best k.
        pool: from the scores of a unit's tokens to its own.
        seed: of the order of ties.

    Source: Chefer et al. 2021a, sections 1 and 4, which compare maps by eye, and by perturbation for the annotated beside
    the predicted class (`perturbation_target`); the two measures, the share and the number of classes are ours.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "classes"
    about: ClassVar[About] = About("descriptive", 20, "Class specificity")
    nothing: ClassVar[str] = "no example has two explanations that order its units"

    share: Annotated[Share, Above(0)] = 0.2
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Correlation and overlap between classes, and how many pairs have none."""
        return {
            "tau": lower(
                "τ between classes",
                "mean Kendall's τ between the explanations of two classes of one example",
                short="τ classes",
                bounds=SIGNED,
                headline=True,
                without=_NO_ORDER,
            ),
            "overlap": lower(
                "overlap between classes",
                "mean share of best words that the explanations of two classes of one example have in common",
                short="overlap classes",
                headline=True,
                without=_NO_ORDER,
            ),
            "undefined": described(
                "undefined pairs of classes", "share of pairs of classes of which an explanation orders no words"
            ),
        }

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Means over the pairs of classes of each example; NotApplicable where there are no scores for classes."""
        if attribution.classes is None:
            raise NotApplicable("the method gives no token scores")
        pooled = [pool(s.to(batch.units.device), batch.units, self.pool) for s in attribution.classes.unbind(1)]
        rated = rated_units(batch, pooled[0][1])
        scores = torch.stack([units for units, _ in pooled], dim=1)
        best = ranks.best_share(scores.transpose(0, 1), rated, self.share, batch.uids, self.seed)
        chosen = best.transpose(0, 1).cpu().numpy()
        values, is_rated = scores.double().cpu().numpy(), rated.cpu().numpy()
        measures = np.array([_pairs(values[b][:, is_rated[b]], chosen[b][:, is_rated[b]]) for b in range(len(batch))])
        defined = measures[:, 2] < 1
        rows = Rows(batch.uids)
        for k, name in enumerate(("tau", "overlap")):
            rows.add(name, measures[:, k], defined=defined)
        rows.add("undefined", measures[:, 2])
        return rows.frame()


def _pairs(scores: NDArray[np.float64], best: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Mean τ_b and mean overlap over the defined pairs of rows [K n], and the share of pairs that are undefined."""
    flat = ranks.constant(scores)
    pairs = [(a, b) for a, b in combinations(range(len(scores)), 2) if not flat[a] and not flat[b]]
    total = len(scores) * (len(scores) - 1) // 2
    if not pairs:
        return float("nan"), float("nan"), 1.0
    taus = [ranks.tau_b(scores[[b]], scores[a])[0] for a, b in pairs]
    overlaps = [(best[a] & best[b]).sum() / best[a].sum() for a, b in pairs]
    return float(np.mean(taus)), float(np.mean(overlaps)), 1 - len(pairs) / total
