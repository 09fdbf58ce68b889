"""Do measures of head importance agree? (Hao 2021, "Attention Head Pruning"; docs/protocols.md, section 7)."""

from collections.abc import Sequence
from dataclasses import field
from itertools import combinations
from typing import Any, ClassVar

import pandas as pd

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.resampling import correlation
from benchmark.errors import NotApplicable
from benchmark.evaluations import ranks
from benchmark.evaluations.head_pruning import Calibration
from benchmark.results.tables import Drawing, Table
from benchmark.settings.declared import Natural, configurable


@configurable
class RankingAgreement(Analysis):
    """Kendall's τ_b between the head importances of every two methods of the comparison that score heads.

    Intervals: the calibration examples are resampled, the same for both methods, and the importances computed again.

    Attributes:
        calibration: the examples that importance is computed from, as in head pruning.
        seed: of the resampling.
    """

    calibration: Calibration = field(default_factory=Calibration)
    seed: Natural = 0
    version: ClassVar[int] = 2

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table with a line per pair of methods; NotApplicable where fewer than two score heads."""
        scores = {}
        for name, cell in context.cells.items():
            try:
                scores[name] = (cell, cell.head_scores(self.calibration, "label"))
            except NotApplicable:
                continue
        if len(scores) < 2:
            raise NotApplicable("fewer than two methods of the comparison score heads")
        rows: list[dict[str, Any]] = []
        for first, second in combinations(scores, 2):
            agreement = correlation(
                scores[first], scores[second], lambda a, b: ranks.kendall(a, b).tau, together=True, seed=self.seed
            )
            labels = {"importance": first, "and": second}
            rows.append(figure_line(labels, "Kendall τ_b", agreement))
        return [
            Table(
                name="ranking_agreement",
                title="Agreement between head importances",
                labels=("importance", "and"),
                rows=pd.DataFrame(rows),
                drawing=Drawing("heat", x="and", y=("importance",), value="Kendall τ_b"),
            )
        ]
