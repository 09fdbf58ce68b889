"""The area between accuracy under random removals and a method's (Madsen et al. 2024; docs/protocols.md, section 8)."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import SIGNED, Averaged, Derived, Rows, correctness, higher, lower
from benchmark.evaluations.normalised_aopc import input_key
from benchmark.evaluations.perturbation import Ranking, rank_units
from benchmark.evaluations.remembered import Remembered
from benchmark.models.classifier import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.randomness import generator
from benchmark.results import statistics
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Natural, Shares, configurable
from benchmark.targets import ClassTarget, TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool


@configurable
class Racu(Averaged):
    """Relative area between curves: `∫ (a_rand − a_m) df / ∫ (a_rand − a_rand(1)) df` over shares f from 0 to 1.

    a_m(f) is the accuracy without the ⌊f n⌋ best units by the method, a_rand(f) that without as many random ones, and
    a_rand(1) that without any unit; trapezoid rule, a ratio of sums over the examples. Higher is better, 0 is random, and it
    may be negative. It is comparable between models, since what a model can lose stands below the line; it speaks of lost
    evidence alone where removals are something that the model knows (`recipe.mask_share`, the analysis `shift`).

    Random units are drawn once for each example, the same for all methods: the instance remembers them for the last 10,000
    examples.

    Attributes:
        target: what is explained.
        operator: `auto`, or a name in `removal.OPERATORS`.
        fractions: shares between 0 and 1, which are added.
        pool: from the scores of a unit's tokens to its own.
        seed: of the random order and of the tie-breaking permutations.

    Source: Madsen et al. 2024 and their program, which is a ratio per seed; here it is one of sums over examples.
    Cost: shares + 2 forward passes, and once for all methods shares + 1.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("faithfulness", 12, "Accuracy under removals, relative to random ones")

    target: TargetName = "predicted"
    operator: OperatorName = "auto"
    fractions: Shares = curves.TENTHS
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The ratio, and both curves."""
        at = partial(lower, x="share removed")
        return {
            "racu": higher(
                "relative area between curves",
                "area between the accuracies without random and without the best words, relative to what there is to lose",
                short="RACU",
                bounds=(-float("inf"), float("inf")),
                headline=True,
            ),
            "accuracy_at": at("accuracy, most relevant first", "accuracy without this share of the best words"),
            "random_accuracy_at": at("accuracy, random words first", "accuracy without this share of random words"),
        }

    @property
    def derived(self) -> Mapping[str, Derived]:
        """The ratio of two areas, each a mean over examples."""
        return {"racu": Derived(("gain", "room"), statistics.ratio, scalars=("gain", "room"), ranges=(SIGNED, SIGNED))}

    @property
    def points(self) -> tuple[float, ...]:
        """All shares, with both ends."""
        inner = [share for share in self.fractions if 0 < share < 1]
        return (0.0, *inner, 1.0)

    @cached_property
    def _memory(self) -> Remembered[NDArray[np.float64]]:
        """Not a field: what is remembered is no setting."""
        return Remembered()

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Both curves and the areas of each labelled example; NotApplicable where the method scores no tokens."""
        ranking = rank_units(batch, attribution, how=self.pool, seed=self.seed)
        own = self._correct(model, batch, ranking)
        random = self._of_random(model, batch, ranking)
        known = (batch.label >= 0).cpu().numpy() & (ranking.n > 0).cpu().numpy()
        areas: list[NDArray[np.float64]] = [
            np.asarray(np.trapezoid(values, self.points, axis=0)) for values in (random, own)
        ]
        rows = Rows(batch.uids)
        add = partial(rows.add, defined=known)
        add("gain", areas[0] - areas[1])
        add("room", areas[0] - random[-1])
        add("accuracy_at", own.T, x=self.points)
        add("random_accuracy_at", random.T, x=self.points)
        return rows.frame()

    def _correct(self, model: Classifier, batch: Batch, ranking: Ranking) -> Float[NDArray[np.float64], "K B"]:
        """Whether the label is predicted without the best units, at every point."""
        operator = operator_for(self.operator, model, batch, "evaluations.racu.operator")
        removed = ranks.best(ranking.ranks, curves.counts(ranking.n, self.points))
        logits = logits_without(model, batch, removed, operator)
        values: NDArray[np.float64] = correctness(logits.double(), batch.label.to(logits.device)).cpu().numpy()
        return values

    def _of_random(self, model: Classifier, batch: Batch, ranking: Ranking) -> Float[NDArray[np.float64], "K B"]:
        """The same with units in the example's random order."""
        places = [marks.nonzero()[:, 0].cpu() for marks in ranking.rated]
        labels = ClassTarget(batch.label.clamp(min=0))
        keys = [
            (uid, input_key(model, batch.select([b]), places[b], labels[b : b + 1])) for b, uid in enumerate(batch.uids)
        ]

        def missing(rows: list[int]) -> list[NDArray[np.float64]]:
            part = batch.select(rows)
            return list(self._correct(model, part, self._random_ranking(part.uids, ranking, rows)).T)

        return np.stack(self._memory.of(keys, missing), axis=1)

    def _random_ranking(self, uids: Sequence[str], ranking: Ranking, rows: Sequence[int]) -> Ranking:
        rated = ranking.rated[list(rows)]
        scores: Tensor = torch.zeros(rated.shape, dtype=torch.float64)
        for row, uid in enumerate(uids):
            scores[row] = torch.from_numpy(generator(self.seed, "random removal", uid).random(rated.shape[1]))
        keys = ranks.tie_keys(uids, rated.shape[1], self.seed)
        return Ranking(ranks.descending_ranks(scores.to(rated.device), rated, keys), rated)
