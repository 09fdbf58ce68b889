"""Comprehensiveness and sufficiency (DeYoung et al. 2020, ERASER; PROTOCOLS section 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import Averaged, table
from benchmark.evaluations.perturbation import rank_units
from benchmark.identity import costs_only
from benchmark.models.classifier import Classifier
from benchmark.models.expansion import check_budget
from benchmark.models.removal import logits_without, operator_for
from benchmark.types import Attribution, Batch, Metric, Reads, Target
from benchmark.units import Pool

THRESHOLDS = (0.01, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class Erasure:
    """Class probabilities of an input, without its best units, and with nothing but them, for each of Q shares.

    Attributes:
        whole: of the unperturbed input.
        without: after the best share of the units is removed.
        only: after all other rated units are removed.
        rated: whether the example has a rated unit at all.
    """

    whole: Float[Tensor, "B C"]
    without: Float[Tensor, "Q B C"]
    only: Float[Tensor, "Q B C"]
    rated: Bool[Tensor, "B"]

    @property
    def predicted(self) -> Int[Tensor, "B"]:
        """The predicted class ŷ."""
        return self.whole.argmax(-1)

    def drops(self) -> tuple[Float[Tensor, "B Q"], Float[Tensor, "B Q"]]:
        """Comprehensiveness p(ŷ|x) − p(ŷ|without) and sufficiency p(ŷ|x) − p(ŷ|only) at each share."""
        index = self.predicted[None, :, None]
        whole = self.whole.gather(1, self.predicted[:, None])
        without = self.without.gather(2, index.expand(len(self.without), -1, 1)).squeeze(2).T
        only = self.only.gather(2, index.expand(len(self.only), -1, 1)).squeeze(2).T
        return whole - without, whole - only


@dataclass(frozen=True)
class Aopc(Averaged):
    """Comprehensiveness and sufficiency, averaged over the shares q (the area over the perturbation curve).

    comprehensiveness = mean_q p(ŷ|x) − p(ŷ|x without its best q), higher is better;
    sufficiency = mean_q p(ŷ|x) − p(ŷ|only the best q of x), lower is better; ŷ is the predicted class of x.
    The best q are ⌈q · n⌉ of the n visible, rated units, so at least one. Units of a query are never rated, and stay.

    Args:
        target: the class that is explained; ŷ is the predicted one in any case.
        operator: `auto`, or a name in `removal.OPERATORS`.
        fractions: the shares q, increasing.
        pool: from the scores of a unit's tokens to its own.
        seed: of the tie-breaking permutations.
        max_tokens: tokens of one forward pass; None for what suits the device.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"

    target: Target = "predicted"
    operator: str = "auto"
    fractions: Sequence[float | int] = THRESHOLDS
    pool: Pool = "max"
    seed: int = 0
    max_tokens: int | None = costs_only(None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fractions", curves.check_fractions(self.fractions, "evaluations.aopc.fractions"))
        check_budget(self.max_tokens, "evaluations.aopc.max_tokens")

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Both means, and both by share."""
        bounds = (-1.0, 1.0)
        return {
            "comprehensiveness": Metric(higher_is_better=True, bounds=bounds, headline=True),
            "sufficiency": Metric(higher_is_better=False, bounds=bounds, headline=True),
            "comprehensiveness_at": Metric(higher_is_better=True, bounds=bounds, x="share removed"),
            "sufficiency_at": Metric(higher_is_better=False, bounds=bounds, x="share kept"),
        }

    def erase(self, model: Classifier, batch: Batch, attribution: Attribution) -> Erasure:
        """The probabilities that both measures compare; the ERASER export writes them out."""
        ranking = rank_units(batch, attribution, how=self.pool, seed=self.seed)
        operator = operator_for(self.operator, model, batch, "evaluations.aopc.operator")
        top = ranks.best(ranking.ranks, curves.counts(ranking.n, self.fractions, "up"))
        nothing = torch.zeros_like(top[:1])
        removed = torch.cat([nothing, top, ranking.rated[None] & ~top])
        logits = logits_without(model, batch, removed, operator, max_tokens=self.max_tokens)
        probabilities, n_shares = logits.softmax(-1), len(top)
        whole, without, only = probabilities[0], probabilities[1 : n_shares + 1], probabilities[n_shares + 1 :]
        return Erasure(whole, without, only, ranking.n > 0)

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Both measures of each example; NotApplicable where the method scores no tokens."""
        erasure = self.erase(model, batch, attribution)
        frames = []
        for name, values in zip(("comprehensiveness", "sufficiency"), erasure.drops(), strict=True):
            drop = values.double()
            frames.append(table(batch.uids, name, drop.mean(1), defined=erasure.rated))
            frames.append(table(batch.uids, f"{name}_at", drop, x=self.fractions, defined=erasure.rated))
        return pd.concat(frames, ignore_index=True)
