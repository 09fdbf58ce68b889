"""Do the scores of a set of words add up to what its removal changes? Correlation, sensitivity-n, infidelity, monotonicity.

Defined in docs/protocols.md, section 8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil
from typing import ClassVar

import numpy as np
import pandas as pd
import scipy
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from benchmark.evaluations.base import (
    SHARE,
    SIGNED,
    UNBOUNDED,
    Averaged,
    Column,
    Rows,
    described,
    higher,
    lower,
    rated_units,
    token_scores,
)
from benchmark.evaluations.normalised_aopc import input_key
from benchmark.evaluations.remembered import Remembered
from benchmark.models.classifier import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.randomness import generator
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Count, Natural, Share, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool, pool

Sets = Bool[NDArray[np.bool_], "K n"]
Drops = Float[NDArray[np.float64], " K"]

_EQUAL = 1e-12
_SLACK = 1e-9  # .2 · 35 is 7.000000000000001 in floating point: it still is 7 units


@dataclass(frozen=True)
class Subsets:
    """Sets of an example's n rated units, the same for every method.

    Attributes:
        single: each unit by itself [n n].
        of_share: random sets of ⌈share · n⌉ units.
        by_size: random sets of 2, 4, ... at most n/2 units.
    """

    single: Sets
    of_share: Sets
    by_size: tuple[Sets, ...]

    @staticmethod
    def of(n: int, share: float, count: int, of_each_size: int, seed: int, uid: str) -> "Subsets":
        """Drawn by the example's own generator."""
        draw = generator(seed, "subsets", uid)
        sizes = [2**power for power in range(1, n.bit_length()) if 2**power <= n / 2]
        return Subsets(
            np.eye(n, dtype=bool),
            _drawn(draw, n, max(1, ceil(share * n - _SLACK)), count),
            tuple(_drawn(draw, n, size, of_each_size) for size in sizes),
        )

    @property
    def all(self) -> Sets:
        """All of them, one below the other."""
        return np.concatenate([self.single, self.of_share, *self.by_size])

    def apart(self, values: Drops) -> tuple[Drops, Drops, list[Drops]]:
        """The values of `all`: of single units, of the sets of a share, and by size."""
        lengths = [len(self.single), len(self.of_share), *map(len, self.by_size)]
        single, of_share, *by_size = np.split(values, np.cumsum(lengths)[:-1])
        return single, of_share, by_size


def _drawn(draw: np.random.Generator, n: int, size: int, count: int) -> Sets:
    """`count` random sets of `size` of n units."""
    sets = np.zeros((count, n), dtype=bool)
    for row in sets:
        row[draw.permutation(n)[:size]] = True
    return sets


def pearson(a: Column, b: Column) -> float:
    """Pearson's r; NaN where either does not vary."""
    if any(np.ptp(values) <= _EQUAL * np.abs(values).max() for values in (a, b)):
        return float("nan")
    a, b = (values / np.abs(values).max() for values in (a - a.mean(), b - b.mean()))
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def infidelity(sums: Drops, drops: Drops) -> float:
    """`mean (α a − d)² / var d`, α = max(0, Σ a d / Σ a²) the scale that fits best; NaN where the drops do not vary.

    Without the 0 scores and their opposites would be equally good.
    """
    variance = float(drops.var())
    if variance <= _EQUAL:
        return float("nan")
    square = float((sums * sums).sum())
    alpha = max(0.0, float((sums * drops).sum()) / square) if square > 0 else 0.0
    return float(((alpha * sums - drops) ** 2).mean()) / variance


def _mean_of_known(values: Sequence[float]) -> float:
    """Over the sizes at which the sums vary, which those of a sparse explanation may not; NaN where there is none."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


@configurable
class SubsetFaithfulness(Averaged):
    """Do the scores of a set of units add up to what their removal changes?

    With d(S) = p(x) − p(x without S), p the probability of what is explained, and a(S) = Σ_{u ∈ S} s_u:

    - faithfulness correlation: Pearson's r of a(S) and d(S) over random sets of ⌈share · n⌉ units;
    - sensitivity-n: the same for sets of 1, 2, 4, ... n/2 units (of 1: every unit), mean over sizes;
    - infidelity: mean of (α a(S) − d(S))² over the first sets, over the variance of d; α is the scale that fits best for
      the example, since the units of scores differ between methods. 0 is the best, and scores of 0 have
      1 + mean(d)² / Var d;
    - monotonicity: Spearman's ρ of s_u and d({u}).

    An example has no figure where the scores or the drops are constant; `undefined` is the share of such examples. Sets do
    not depend on the method: the instance remembers the drops of the last 10,000 examples, so that all methods share passes.

    Attributes:
        target: what is explained, and whose probability is followed.
        operator: `auto`, or a name in `removal.OPERATORS`.
        share: of the units in a set.
        subsets: sets of that share.
        of_each_size: sets of each size of sensitivity-n.
        pool: from the scores of a unit's tokens to its own.
        seed: of the sets.

    Source: Bhatt et al. 2020 (correlation), Ancona et al. 2018 (sensitivity-n), Yeh et al. 2019 (infidelity; the fitted
    scale as in the authors' program), Arya et al. 2019 (monotonicity).
    Cost: subsets + n + of_each_size · log₂ n passes per example, once for all methods.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("faithfulness", 26, "Sets of words: do their scores add up?")

    target: TargetName = "predicted"
    operator: OperatorName = "auto"
    share: Share = 0.2
    subsets: Count = 50
    of_each_size: Count = 20
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The four figures, and how many examples have none."""
        signed = partial(higher, bounds=SIGNED)
        return {
            "faithfulness_correlation": signed(
                "faithfulness correlation",
                "correlation of the sum of the scores of random sets of words and of what removing them changes",
                short="faith. corr.",
                headline=True,
            ),
            "sensitivity_n": signed(
                "sensitivity-n", "the same over sets of 1, 2, 4, ... n/2 words, mean over sizes", short="sens.-n"
            ),
            "infidelity": lower(
                "infidelity",
                "mean square of what the fitted sums of scores miss, over the variance of what removals change",
                short="infid.",
                bounds=UNBOUNDED,
            ),
            "monotonicity": signed(
                "monotonicity",
                "rank correlation of a word's score and of what removing it alone changes",
                short="monot.",
            ),
            "undefined": described(
                "no correlation", "share of examples whose scores or drops are constant", bounds=SHARE
            ),
        }

    @cached_property
    def _memory(self) -> Remembered[Drops]:
        """Not a field: what is remembered is no setting."""
        return Remembered()

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """The figures of each example; NotApplicable where the method scores no tokens."""
        pooled, visible = pool(token_scores(batch, attribution), batch.units, self.pool)
        places = [marks.nonzero()[:, 0].cpu().numpy() for marks in rated_units(batch, visible)]
        sets = [
            Subsets.of(len(own), self.share, self.subsets, self.of_each_size, self.seed, uid)
            for own, uid in zip(places, batch.uids, strict=True)
        ]
        drops = self._drops(model, batch, attribution.target, places, sets)
        found: dict[str, list[float]] = {name: [] for name in self.metrics}
        for b, own in enumerate(places):
            scores = pooled[b].double().cpu().numpy()[own]
            for name, value in self._figures(scores, sets[b], drops[b]).items():
                found[name].append(value)
        rows = Rows(batch.uids)
        rated = np.array([len(own) > 1 for own in places])
        for name, values in found.items():
            column = np.array(values)
            rows.add(name, column, defined=rated & ~np.isnan(column))
        return rows.frame()

    def _figures(self, scores: Column, sets: Subsets, drops: Drops) -> dict[str, float]:
        single, of_share, by_size = sets.apart(drops)
        sums = sets.of_share @ scores
        correlations = [pearson(scores, single)]
        correlations += [pearson(own @ scores, part) for own, part in zip(sets.by_size, by_size, strict=True)]
        correlation = pearson(sums, of_share)
        return {
            "faithfulness_correlation": correlation,
            "sensitivity_n": _mean_of_known(correlations),
            "infidelity": infidelity(sums, of_share),
            "monotonicity": pearson(scipy.stats.rankdata(scores), scipy.stats.rankdata(single)),
            "undefined": float(np.isnan(correlation)),
        }

    def _drops(
        self,
        model: Classifier,
        batch: Batch,
        target: Target,
        places: Sequence[NDArray[np.intp]],
        sets: Sequence[Subsets],
    ) -> list[Drops]:
        """d of all sets of each example, which its name seeds: equal texts of other names have other sets."""
        keys = [
            (uid, input_key(model, batch.select([b]), torch.from_numpy(places[b]), target[b : b + 1]))
            for b, uid in enumerate(batch.uids)
        ]

        def missing(rows: list[int]) -> list[Drops]:
            own = [places[b] for b in rows], [sets[b].all for b in rows]
            return self._computed(model, batch.select(rows), target[rows], *own)

        return self._memory.of(keys, missing)

    def _computed(
        self, model: Classifier, batch: Batch, target: Target, places: Sequence[NDArray[np.intp]], sets: Sequence[Sets]
    ) -> list[Drops]:
        operator = operator_for(self.operator, model, batch, "evaluations.subset_faithfulness.operator")
        most, n_units = max(map(len, sets)), int(batch.units.max()) + 1
        removed = torch.zeros(1 + most, len(batch), n_units, dtype=torch.bool)  # the first row removes nothing
        for b, (own, masks) in enumerate(zip(places, sets, strict=True)):
            rows = torch.zeros(len(masks), n_units, dtype=torch.bool)
            rows[:, torch.from_numpy(own)] = torch.from_numpy(masks)
            removed[1 : 1 + len(masks), b] = rows
        logits = logits_without(model, batch, removed.to(batch.units.device), operator)
        values = model.probability(logits.double(), target).cpu().numpy()
        return [values[0, b] - values[1 : 1 + len(masks), b] for b, masks in enumerate(sets)]
