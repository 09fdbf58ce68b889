"""How many of the best words have to go until the decision flips, and by how much its log-probability falls.

Defined in docs/protocols.md, section 8.
"""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.aopc import THRESHOLDS
from benchmark.evaluations.base import Averaged, Rows, described, higher, lower
from benchmark.evaluations.perturbation import rank_units
from benchmark.models.classifier import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Count, Natural, Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool


@configurable
class DecisionFlips(Averaged):
    """Remove the best units, one step after another, until another class is predicted.

    - `flip_share`: the least k / n such that the model predicts another class without the best k of n units, over k = ⌈j n /
      steps⌉, j = 1 ... steps; 1 where it never does, which `never` counts. Lower is better.
    - `flip_first`: whether it does without the best unit alone.
    - `log_odds`: mean over the shares q of ln p(x without its best ⌈q n⌉ units) − ln p(x), p the probability of what is
      explained (Shrikumar et al. 2017 with words in place of pixels). Lower is better.

    Attributes:
        target: what is explained.
        operator: `auto`, or a name in `removal.OPERATORS`.
        steps: most steps from none to all units.
        fractions: the shares q of log-odds.
        pool: from the scores of a unit's tokens to its own.
        seed: of the tie-breaking permutations.

    Source: the flip as in Serrano & Smith 2019, of words in place of attention weights.
    Cost: steps + shares + 2 forward passes at most.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("faithfulness", 28, "Flips of the decision")

    target: TargetName = "predicted"
    operator: OperatorName = "auto"
    steps: Count = 20
    fractions: Shares = THRESHOLDS
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The three figures, and how many decisions never flip."""
        return {
            "flip_share": lower(
                "share until the decision flips", "least share of the best words without which another class is predicted",
                short="flip share", headline=True,
            ),
            "flip_first": higher(
                "flips without the best word", "share of examples that get another class without their best word",
                short="flip first",
            ),
            "log_odds": lower(
                "log-odds", "log-probability of what is explained without the best words less that of the whole input",
                short="log-odds", bounds=(-float("inf"), float("inf")),
            ),
            "never": described("never flips", "share of examples whose class is the same without all words"),
        }  # fmt: skip

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """The figures of each example with a rated unit; NotApplicable where the method scores no tokens."""
        ranking = rank_units(batch, attribution, how=self.pool, seed=self.seed)
        operator = operator_for(self.operator, model, batch, "evaluations.decision_flips.operator")
        steps, shares = self._counts(ranking.n)
        one = torch.ones_like(steps[:1]).clamp(max=ranking.n)
        removed = ranks.best(ranking.ranks, torch.cat([torch.zeros_like(one), one, shares, steps]))
        logits = logits_without(model, batch, removed, operator).double()
        decided = logits.argmax(-1)
        flipped = (decided[1:] != decided[0]).cpu().numpy()
        first, at_steps = flipped[0], flipped[1 + len(shares) :]
        share = (steps.double() / ranking.n.clamp(min=1)).cpu().numpy()
        least = np.where(at_steps, share, np.inf).min(0)
        logarithms = model.probability(logits[: 2 + len(shares)], attribution.target).log().cpu().numpy()
        rows, defined = Rows(batch.uids), (ranking.n > 0).cpu().numpy()
        add = partial(rows.add, defined=defined)
        add("flip_share", np.minimum(least, 1.0))
        add("flip_first", first.astype(float))
        add("log_odds", (logarithms[2:] - logarithms[0]).mean(0))
        add("never", np.isinf(least).astype(float))
        return rows.frame()

    def _counts(self, n: Int[Tensor, "B"]) -> tuple[Int[Tensor, "S B"], Int[Tensor, "Q B"]]:
        """How many units are gone at each step, and at each share."""
        steps = curves.counts(n, [step / self.steps for step in range(1, self.steps + 1)], "up")
        return steps, curves.counts(n, self.fractions, "up")
