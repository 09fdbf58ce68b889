"""Do scores of sources say what the model answers without some of them? (docs/protocols.md, section 8)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor

from benchmark.evaluations import ranks
from benchmark.evaluations.base import SIGNED, Averaged, Rows, higher, rated_units, token_scores
from benchmark.models.classifier import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.randomness import generator
from benchmark.results.record import About, Metric
from benchmark.settings.declared import AtLeast, Count, Natural, Rising, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool, pool


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
      probability ½; over all subsets where there are no more than `samples`. Scores that leave the sum the same for every
      subset, as those of a constant map of 0, order nothing and have 0, which random orders have on average. An example
      whose probability no subset changes has no value, nor has one with fewer than two sources.
    - `top_drop`, at k: `ln p(all) − ln p(without the best k)`, for examples with more than k sources.

    What is explained is a class of the model: of a language model with candidates p is the probability among these, and with
    `model.labels=vocabulary` among all tokens.

    Attributes:
        target: what is explained.
        operator: `auto`, or a name in `removal.OPERATORS`.
        samples: subsets.
        best: the numbers k.
        pool: from the scores of a source's tokens to its own. The sum, since the score is of a sum.
        seed: of the subsets, and of the order of equal scores.

    Source: Cohen-Wang et al. 2024 (ContextCite); Park et al. 2023.
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
        scores, visible = pool(token_scores(batch, attribution), batch.units, self.pool)
        rated = rated_units(batch, visible)
        keys = ranks.tie_keys(batch.uids, scores.shape[1], self.seed)
        order, n = ranks.descending_ranks(scores, rated, keys), rated.sum(1)
        subsets = self._subsets(batch, rated)
        best = ranks.best(order, torch.stack([torch.full_like(n, k).minimum(n) for k in self.best]))
        removed = torch.cat([torch.zeros_like(best[:1]), best, rated & ~subsets.kept])
        operator = operator_for(self.operator, model, batch, "evaluations.context_attribution.operator")
        logits = logits_without(model, batch, removed, operator).double()
        target = attribution.target.to(logits.device)
        value = torch.stack([target.log_probability(each) for each in logits]).T
        whole, without, only = value.tensor_split([1, 1 + len(self.best)], dim=1)
        known = target.known.to(n.device)
        rows = Rows(batch.uids)
        lds = self._lds(scores, subsets, only)
        rows.add("lds", lds, defined=known & (n >= 2) & ~torch.from_numpy(np.isnan(lds)).to(n.device))
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
            return np.array(list(product((True, False), repeat=sources)), dtype=bool).reshape(-1, sources)
        return generator(self.seed, "subsets", key).random((self.samples, sources)) < 0.5

    @staticmethod
    def _lds(scores: Float[Tensor, "B U"], subsets: Subsets, value: Float[Tensor, "B K"]) -> NDArray[np.float64]:
        sums = torch.einsum("kbu,bu->bk", subsets.kept.double(), scores.double()).cpu().numpy()
        found = np.full(len(sums), np.nan)
        for b, (own, log_probability, counted) in enumerate(
            zip(sums, value.cpu().numpy(), subsets.counted, strict=True)
        ):
            x, y = own[:counted], log_probability[:counted]
            if (y == y[0]).all():
                continue
            found[b] = 0.0 if (x == x[0]).all() else spearmanr(x, y).statistic
        return found
