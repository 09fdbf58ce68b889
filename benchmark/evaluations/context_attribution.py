"""Do scores of sources say what the model answers without some of them? (docs/protocols.md, section 8)"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
import scipy
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.evaluations import ranks
from benchmark.evaluations.base import SIGNED, Averaged, Rows, higher, rated_units, token_scores
from benchmark.models.classifier import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.randomness import generator
from benchmark.results.record import About, Metric
from benchmark.settings.declared import AtLeast, Count, Natural, Rising, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool, pool

_FOLLOWS = 1e-9
"""Below it the sums, or what they are held to, follow from the number of sources alone."""


@dataclass(frozen=True)
class Subsets:
    """Sources that are kept, drawn for each example; the same for every method.

    Attributes:
        kept: of K subsets of each example; none of a source that is not rated.
        counted: how many of the K are the example's own; what follows repeats the first.
    """

    kept: Bool[Tensor, "K B U"]
    counted: tuple[int, ...]


@configurable
class ContextAttribution(Averaged):
    """The linear datamodelling score, and the log-probability that the best sources are worth.

    Sources are the rated units: sentences of a context (`task=facts`), or words. With s their scores and p(S) the
    probability of what is explained where the sources S alone are left and everything that is not rated stays:

    - `lds = ρ(Σ_{i ∈ S} s_i, ln p(S))`, Spearman's rank correlation over random subsets S, each source in it with
      probability ½; over all subsets where there are no more than `samples`. More sources make the answer surer, and a sum
      of positive scores larger, whichever they are: random positive scores have a positive figure too.
    - `lds_given_number`: the same where the number of sources that are left is held constant, the partial correlation
      `(ρ_xy − ρ_xz ρ_yz) / √((1 − ρ_xz²)(1 − ρ_yz²))` with z = |S|. Random scores, of whatever sign, have 0 on average.
    - In both, scores whose sum follows from the number alone, or is the same for all subsets, order nothing and have 0. An
      example whose probability no subset changes beyond rounding has no value, nor has one with fewer than two sources.
    - `top_drop`, at k: `ln p(all) − ln p(without the best k)`, for examples with more than k sources.

    What is explained is a class of the model: of a language model with candidates p is the probability among these, and with
    `model.labels=vocabulary` among all tokens.

    Attributes:
        target: what is explained.
        operator: `auto`, or a name in `removal.OPERATORS`.
        samples: subsets.
        best: the numbers k.
        pool: from the scores of a source's tokens to its own. The sum, since the score is of a sum; but a source whose
            tokens all have one score, as methods give that remove whole units, has that score.
        seed: of the subsets, and of the order of equal scores.

    Source: Cohen-Wang et al. 2024 (ContextCite); Park et al. 2023. The partial correlation is this project's.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("faithfulness", 25, "Context attribution: linear datamodelling score and top-k drop")
    nothing: ClassVar[str] = "no example has two sources whose removal changes the answer"

    target: TargetName = "predicted"
    operator: OperatorName = "auto"
    samples: Annotated[int, AtLeast(2)] = 64
    best: Annotated[Sequence[Count], Rising()] = (1, 3, 5)
    pool: Pool = "sum"
    seed: Natural = 0

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The correlation, and the drop at each k."""
        unbounded = partial(higher, bounds=(-float("inf"), float("inf")))
        return {
            "lds": higher(
                "linear datamodelling score",
                "rank correlation of the summed scores of the sources that are left with the log-probability that they give",
                short="LDS",
                bounds=SIGNED,
            ),
            "lds_given_number": higher(
                "linear datamodelling score, number held constant",
                "the same rank correlation where the number of the sources that are left is held constant",
                short="LDS, number const.",
                bounds=SIGNED,
                headline=True,
            ),
            "top_drop": unbounded(
                "log-probability drop without the best sources",
                "drop of the explained log-probability when this many of the best sources are removed",
                short="top-k drop",
                x="sources removed",
                headline=True,
            ),
        }

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Both measures of each example; NotApplicable where the method scores no tokens, or labels have no distribution."""
        model.needs_distribution("a log-probability")
        scores, visible = source_scores(token_scores(batch, attribution), batch.units, self.pool)
        rated = rated_units(batch, visible)
        keys = ranks.tie_keys(batch.uids, scores.shape[1], self.seed)
        order, n = ranks.descending_ranks(scores, rated, keys), rated.sum(1)
        subsets = self._subsets(batch, rated)
        best = ranks.best(order, torch.stack([torch.full_like(n, k).minimum(n) for k in self.best]))
        removed = torch.cat([torch.zeros_like(best[:1]), best, rated & ~subsets.kept])
        value = self._log_probabilities(model, batch, removed, attribution.target)
        whole, without, only = value.tensor_split([1, 1 + len(self.best)], dim=1)
        known = attribution.target.known.to(n.device)
        rows = Rows(batch.uids)
        sums = torch.einsum("kbu,bu->bk", subsets.kept.double(), scores.double().masked_fill(~rated, 0))
        found = [
            datamodelling(own[:counted], left[:counted], number[:counted], 100 * torch.finfo(model.dtype).eps)
            for own, left, number, counted in zip(
                sums.cpu().numpy(),
                only.cpu().numpy(),
                subsets.kept.sum(2).T.cpu().numpy(),
                subsets.counted,
                strict=True,
            )
        ]
        moved = torch.tensor([one is not None for one in found], device=n.device)
        for place, name in enumerate(("lds", "lds_given_number")):
            values = np.array([0.0 if one is None else one[place] for one in found])
            rows.add(name, values, defined=known & (n >= 2) & moved)
        enough = torch.stack([n > k for k in self.best], dim=1)
        rows.add("top_drop", whole - without, x=self.best, defined=enough & known[:, None])
        return rows.frame()

    def _subsets(self, batch: Batch, rated: Bool[Tensor, "B U"]) -> Subsets:
        """By the key of each example, over its own rated sources alone, whatever the batch."""
        kept = torch.zeros(self.samples, *rated.shape, dtype=torch.bool)
        counted = []
        for b, key in enumerate(batch.draw_keys):
            places = rated[b].cpu().nonzero()[:, 0]
            drawn = self._drawn(len(places), key)
            kept[:, b, places] = torch.from_numpy(drawn[:1]).expand(self.samples, -1)
            kept[: len(drawn), b, places] = torch.from_numpy(drawn)
            counted.append(len(drawn))
        return Subsets(kept.to(rated.device), tuple(counted))

    def _drawn(self, sources: int, key: str) -> NDArray[np.bool_]:
        """[K sources]; all subsets where these are few."""
        if 2**sources <= self.samples:
            return np.array(list(product((True, False), repeat=sources)), dtype=bool).reshape(2**sources, sources)
        return generator(self.seed, "subsets", key).random((self.samples, sources)) < 0.5

    def _log_probabilities(
        self, model: Classifier, batch: Batch, removed: Bool[Tensor, "K B U"], target: Target
    ) -> Float[Tensor, "B K"]:
        """`ln p` after each removal; logits of all classes are held of a few removals at a time."""
        operator = operator_for(self.operator, model, batch, "evaluations.context_attribution.operator")
        at_once = max(1, model.memory_budget // (8 * len(batch) * len(model.labels)))
        found = []
        for part in torch.split(removed, at_once):
            logits = logits_without(model, batch, part, operator).double()
            found += [target.to(logits.device).log_probability(each) for each in logits]
        return torch.stack(found, dim=1)


def source_scores(
    tokens: Float[Tensor, "B T"], units: Int[Tensor, "B T"], how: Pool
) -> tuple[Float[Tensor, "B U"], Bool[Tensor, "B U"]]:
    """Scores of units and which are visible, as `pool`; a sum leaves a unit alone whose tokens all have one score.

    Methods that remove whole units give every token the score of its unit, which a sum would count once for each.
    """
    scores, visible = pool(tokens, units, how)
    if how != "sum":
        return scores, visible
    largest, smallest = pool(tokens, units, "max")[0], -pool(-tokens, units, "max")[0]
    return torch.where(largest == smallest, largest, scores), visible


def datamodelling(
    sums: NDArray[np.float64], log_probabilities: NDArray[np.float64], number: NDArray[np.int64], rounding: float
) -> tuple[float, float] | None:
    """The rank correlation over K subsets, and that with the number of sources held constant; None where nothing changes.

    Args:
        sums: of the scores of the sources that are left.
        log_probabilities: that they give.
        number: how many they are.
        rounding: what the log-probabilities may differ by, relative to the largest of them and 1, though nothing changes.
    """
    scale = max(1.0, float(np.abs(log_probabilities).max()))
    if np.ptp(log_probabilities) <= rounding * scale:
        return None
    largest = float(np.abs(sums).max())
    # equal sums in another order of their terms are no two sums
    x = np.round(sums / largest, 10) if largest else sums
    if np.ptp(x) == 0:
        return 0.0, 0.0
    whole = float(scipy.stats.spearmanr(x, log_probabilities).statistic)
    if np.ptp(number) == 0:
        return whole, whole
    of_sums, of_values = (float(scipy.stats.spearmanr(y, number).statistic) for y in (x, log_probabilities))
    left = (1 - of_sums**2) * (1 - of_values**2)
    return whole, 0.0 if left < _FOLLOWS else (whole - of_sums * of_values) / math.sqrt(left)
