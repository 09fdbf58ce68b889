"""Positive and negative perturbation (Chefer 2021a; docs/protocols.md, section 8)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import Averaged, correctness, of_class, rated_units, table, token_scores
from benchmark.models.classifier import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Natural, Shares, configurable
from benchmark.types import Attribution, Batch, Reads, Target
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


_SHORT = {"accuracy": "acc.", "probability": "prob.", "logit": "logit"}


@configurable
class Perturbation(Averaged):
    """Remove growing fractions of the units, most relevant first (positive) or least relevant first (negative).

    At fraction f, ⌊f · n⌋ of the n visible, rated units are removed at once (the published test's `int`). Units of a
    query are never rated and never removed. Reported per direction, each against f: top-1 accuracy against the label
    (examples without one get no row), softmax probability and logit of the target class. Every curve begins with its
    point at 0, the whole input. The area under a curve is named after the rule that made it:

    - `..._auc_mean`: trapezoid over the fractions, divided by their range: the mean height of the curve. (Over 0.1 to 0.9
      the integral is 0.8 of it.) The point at 0 has no part in it unless 0 is among the fractions.
    - `..._auc_published`: trapezoid over 0 and the fractions, times 100, not divided. It is the number in the tables of
      Chefer 2021a, at most 90 for an accuracy over 0 … 0.9.

    Lower is better for positive, higher for negative perturbation. The published test removes pixels; that of words is
    ours.

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

    target: Target = "predicted"
    operator: OperatorName = "auto"
    fractions: Shares = curves.TENTHS
    area: curves.Area = "mean"
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def about(self) -> About:
        """Removal in the order of an explanation shows whether it names what the model uses."""
        return About("faithfulness", 10, f"Perturbation{self._of_class}")

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Curves and areas of both directions."""
        metrics = {}
        ranges = {"accuracy": (0.0, 1.0), "probability": (0.0, 1.0), "logit": (-float("inf"), float("inf"))}
        area = "mean" if self.area == "mean" else "area, times 100, of the"
        for direction, higher, first in (("positive", False, "most relevant"), ("negative", True, "least relevant")):
            order = f"{first} first{self._of_class}"
            for name, bounds in ranges.items():
                measured = name if name == "accuracy" else f"{name} of the explained class"
                metrics[self._area_name(direction, name)] = Metric(
                    higher,
                    self._area_bounds(bounds),
                    headline=name == "accuracy",
                    title=f"{name} AUC, {order}",
                    short=f"{_SHORT[name]} AUC {first.partition(' ')[0]} rel. first{' (annot.)' if self._of_class else ''}",
                    meaning=f"{area} {measured} while growing fractions of the words are removed, the {first} first",
                )
            for name, bounds in ranges.items():
                metrics[f"{direction}_{name}"] = Metric(
                    higher,
                    bounds,
                    x="fraction removed",
                    headline=name == "accuracy",
                    title=f"{name}, {order}",
                    meaning=f"{name} after this fraction of the words is removed, the {first} first",
                )
        return metrics

    @property
    def _of_class(self) -> str:
        return "" if self.target == "predicted" else ", annotated class"

    @property
    def points(self) -> tuple[float, ...]:
        """The fractions of the curves: 0, then those of the setting."""
        return curves.with_zero(self.fractions)

    def _area_name(self, direction: str, curve: str) -> str:
        middle = "" if curve == "accuracy" else f"{curve}_"
        return f"{direction}_{middle}auc_{self.area}"

    def _area_bounds(self, bounds: tuple[float, float]) -> tuple[float, float]:
        if self.area == "mean":
            return bounds
        low, high = (100 * self.points[-1] * bound if bound else 0.0 for bound in bounds)
        return low, high

    def _area(self, curve: Float[Tensor, "B K"]) -> Float[Tensor, "B"]:
        """From a curve over `points`."""
        if self.area == "published":
            return curves.published_area(curve, self.points)
        return curves.area(curve[:, len(self.points) - len(self.fractions) :], self.fractions)

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Curves and areas of each example; NotApplicable where the method scores no tokens."""
        ranking = rank_units(batch, attribution, how=self.pool, seed=self.seed)
        operator = operator_for(self.operator, model, batch, "evaluations.perturbation.operator")
        count = curves.counts(ranking.n, self.points)
        removed = torch.cat([ranks.best(ranking.ranks, count), ranks.worst(ranking.ranks, count)])
        logits = logits_without(model, batch, removed, operator)
        positive, negative = logits.transpose(0, 1).tensor_split(2, dim=1)
        target, rated = attribution.target.to(logits.device), ranking.n > 0
        frames = [
            self._direction(batch, direction, values, target, rated)
            for direction, values in (("positive", positive), ("negative", negative))
        ]
        return pd.concat(frames, ignore_index=True)

    def _direction(
        self, batch: Batch, direction: str, logits: Float[Tensor, "B K C"], target: Tensor, rated: Tensor
    ) -> pd.DataFrame:
        column = target.clamp(min=0)[:, None]
        labelled, targeted = rated & (batch.label >= 0), rated & (target >= 0)
        frames = []
        for name, values, defined in (
            ("accuracy", correctness(logits, batch.label[:, None]), labelled),
            ("probability", of_class(logits.softmax(-1), column), targeted),
            ("logit", of_class(logits, column), targeted),
        ):
            curve, area = values.double(), self._area(values.double())
            frames.append(table(batch.uids, f"{direction}_{name}", curve, x=self.points, defined=defined))
            frames.append(table(batch.uids, self._area_name(direction, name), area, defined=defined))
        return pd.concat(frames, ignore_index=True)
