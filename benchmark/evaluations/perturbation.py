"""Positive and negative perturbation (Chefer 2021a; docs/protocols.md, section 8)."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from jaxtyping import Bool
from torch import Tensor

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import rated_units, token_scores
from benchmark.evaluations.removal_curves import RemovalCurves
from benchmark.models.classifier import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.results.record import About
from benchmark.settings.declared import Natural, Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool, pool


@dataclass(frozen=True)
class Ranking:
    """The rated units of a batch in the order of their scores: rank 0 is the most relevant, U what is not rated."""

    ranks: Tensor
    rated: Bool[Tensor, "B U"]

    @property
    def n(self) -> Tensor:
        """How many units of each example are rated."""
        return self.rated.sum(1)


def rank_units(batch: Batch, attribution: Attribution, *, how: Pool, seed: int) -> Ranking:
    """Rank the visible units that are no query's; ties are broken by a permutation seeded by the example."""
    scores, visible = pool(token_scores(batch, attribution), batch.units, how)
    rated = rated_units(batch, visible)
    keys = ranks.tie_keys(batch.uids, scores.shape[1], seed)
    return Ranking(ranks.descending_ranks(scores, rated, keys), rated)


@configurable
class Perturbation(RemovalCurves):
    """Remove growing fractions of the units, most relevant first (positive) or least relevant first (negative).

    At fraction f, ⌊f · n⌋ of the n visible, rated units are removed at once (the published test's `int`). Units of a
    query are never rated and never removed. Reported per direction, each against f: top-1 accuracy against the label
    (examples without one get no row), softmax probability and logit of the target class (with target=log_probability the
    logarithm of its probability in place of the logit). Every curve begins with its
    point at 0, the whole input. The area under a curve is named after the rule that made it:

    - `..._auc_mean`: trapezoid over the fractions, divided by their range: the mean height of the curve. (Over 0.1 to 0.9
      the integral is 0.8 of it.) The point at 0 has no part in it unless 0 is among the fractions.
    - `..._auc_published`: trapezoid over 0 and the fractions, times 100, not divided. It is the number in the tables of
      Chefer 2021a, at most 90 for an accuracy over 0 … 0.9.

    Lower is better for positive, higher for negative perturbation. The published test removes pixels (`pixel_perturbation`);
    that of words and patches is ours.

    Attributes:
        target: the class that is explained, and whose probability and logit are followed.
        operator: `auto`, or a name in `removal.OPERATORS`.
        fractions: increasing, within [0, 1].
        area: `mean` or `published`.
        pool: from the scores of a unit's tokens to its own.
        seed: of the tie-breaking permutations.
    """

    version: ClassVar[int] = 2  # 2: the curves' points at 0, and the names of the areas
    reads: ClassVar[Reads] = "tokens"
    named: ClassVar[str] = "perturbation"
    removed: ClassVar[str] = "words or patches"

    target: TargetName = "predicted"
    operator: OperatorName = "auto"
    fractions: Shares = curves.TENTHS
    area: curves.Area = "mean"
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def about(self) -> About:
        """Removal in the order of an explanation shows whether it names what the model uses."""
        return About("faithfulness", 10, f"Perturbation{self._of_class}")

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Curves and areas of each example; NotApplicable where the method scores no tokens."""
        ranking = rank_units(batch, attribution, how=self.pool, seed=self.seed)
        operator = operator_for(self.operator, model, batch, self.setting("operator"))
        logits = logits_without(model, batch, self.removals(ranking.ranks, ranking.n), operator)
        return self.curve_rows(model, batch, logits, attribution.target, ranking.n > 0)
