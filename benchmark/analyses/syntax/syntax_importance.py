"""Do parsing heads matter? How well a head finds syntactic heads, against its importance for what the model was trained for.

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.syntax.head_votes import Votes, votes_of
from benchmark.analyses.syntax.syntax_heads import ALL
from benchmark.errors import NotApplicable
from benchmark.evaluations.head_pruning import Calibration
from benchmark.models.headless import needs_head
from benchmark.randomness import generator
from benchmark.results.statistics import Interval, spread_interval
from benchmark.results.tables import Drawing, Table, frame, line
from benchmark.run.cell import Cell
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import OfComparison
from benchmark.targets import TargetName

_RESAMPLES = 200
_SPEARMAN, _ACCURACY, _IMPORTANCE = "Spearman ρ", "accuracy", "importance"


@configurable
class SyntaxImportance(Analysis):
    """Spearman's ρ, over the L · H heads, of a head's accuracy as a parser and its importance by an explainer.

    Accuracy is that of `syntax_heads`, over all words or those of a relation, in the direction that is better on the
    validation split; importance is what head pruning ranks heads by. A ρ near 1 would say that the heads that find syntax
    are those that the task needs. The interval resamples the sentences of the accuracy and the examples of the importance,
    each on their own, and is that of ρ as so many of either estimate it (`spread_interval`). Heads are not resampled: the
    figure is of this model's heads.

    Attributes:
        methods: names of the comparison's methods whose importance is compared.
        relations: `all`, or names of relations.
        calibration: the examples that importance is computed from; `same` is the scored ones, which need no label.
        target: the class that importance is computed for, of the scored examples; sentences of treebanks have no label.
        limit: how many of the scored sentences, drawn by the comparison's seed; None for all.
        validation: sentences that directions are chosen on.
        seed: of the resampling.

    Raises:
        NotApplicable: the examples have no parse, no method scores heads, or the model predicts nothing.

    Source: this project.
    Cost: that of the methods' head scores, and two forward passes.
    """

    version: ClassVar[int] = 1

    methods: Annotated[Sequence[str], OfComparison("methods")] = ("attattr", "taylor", "raw_attention")
    relations: Sequence[str] = (ALL, "nsubj")
    calibration: Calibration | Literal["same"] = "same"
    target: TargetName = "predicted"
    limit: Count | None = 500
    validation: Count = 300
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Correlations, and the points behind them."""
        limited = context.setting.limited(self.limit)
        needs_head(limited.model)
        chosen = votes_of(limited.model, limited.data.calibration("validation", self.validation))
        measured = votes_of(limited.model, limited.data.batches)
        accuracies = {name: by_head(chosen, measured, name) for name in self.relations}
        scores = self._scores(context)
        if not scores:
            raise NotApplicable(f"none of {', '.join(self.methods)} scores heads")
        rows: list[dict[str, Any]] = []
        points: list[dict[str, Any]] = []
        for method, (cell, importance) in scores.items():
            for relation, counts in accuracies.items():
                place = {"importance": method, "relation": relation}
                if counts is None:
                    rows.append(line(place, _SPEARMAN, note="too few sentences have the relation"))
                    continue
                rows.append(figure_line(place, _SPEARMAN, self._correlation(cell, importance, counts)))
                points += _points(place, cell, importance, counts)
        return [
            Table(
                name="syntax_importance",
                title="Do parsing heads matter? Correlation of a head's accuracy as a parser and its importance",
                labels=("importance", "relation"),
                rows=pd.DataFrame(rows),
                sentences=(
                    "n counts the sentences of the accuracy or of the importance, the fewer; heads are not resampled.",
                ),
            ),
            Table(
                name="syntax_importance_points",
                title="A head's accuracy as a parser and its importance",
                labels=("importance", "relation", "layer", "head"),
                rows=frame(points, _LABELS),
                drawing=Drawing("scatter", x=_ACCURACY, y=(_IMPORTANCE,), panels=("importance", "relation"))
                if points
                else None,
                printed=False,
            ),
        ]

    def _scores(self, context: Context) -> dict[str, tuple[Cell, Float[Tensor, "N L H"]]]:
        if unknown := [name for name in self.methods if name not in context.cells]:
            raise NotApplicable(f"the comparison lacks {', '.join(unknown)}")
        found = {}
        for name in self.methods:
            cell = context.cells[name]
            try:
                found[name] = cell, cell.head_scores(self.calibration, self.target)
            except NotApplicable:
                continue
        return found

    def _correlation(
        self, cell: Cell, scores: Float[Tensor, "N L H"], counts: Float[NDArray[np.float64], "S LH 2"]
    ) -> Interval:
        def measure(rows: NDArray[np.int64], sentences: NDArray[np.int64]) -> float:
            importance = cell.aggregate(scores[rows]).flatten().double().numpy()
            return float(scipy.stats.spearmanr(importance, _ratio(counts[sentences])).statistic)

        n, m = len(scores), len(counts)
        random = generator(self.seed, "resampled heads")
        drawn = [measure(random.integers(0, n, n), random.integers(0, m, m)) for _ in range(_RESAMPLES)]
        return spread_interval(measure(np.arange(n), np.arange(m)), drawn, min(n, m), (-1.0, 1.0))


_LABELS = ("importance", "relation", "layer", "head")


def by_head(chosen: Votes, measured: Votes, relation: str) -> Float[NDArray[np.float64], "S LH 2"] | None:
    """Right votes and words of every sentence and head, in the direction that is better where it is chosen.

    None where fewer than two sentences of either have the relation.
    """
    of_chosen, of_measured = (
        np.ones(len(each.head), dtype=bool) if relation == ALL else each.relation == relation
        for each in (chosen, measured)
    )
    sentences, place = np.unique(measured.sentence[of_measured], return_inverse=True)
    if not of_chosen.any() or len(sentences) < 2:
        return None
    way = (chosen.voted == chosen.head[:, None, None, None])[of_chosen].sum(0).argmax(0)
    voted = np.take_along_axis(measured.voted[of_measured], way[None, None], axis=1)[:, 0]
    right = (voted == measured.head[of_measured][:, None, None]).reshape(len(voted), -1)
    found = np.zeros((len(sentences), right.shape[1], 2))
    np.add.at(found[:, :, 0], place, right)
    found[:, :, 1] = np.bincount(place, minlength=len(sentences))[:, None]
    return found


def _ratio(counts: Float[NDArray[np.float64], "S LH 2"]) -> Float[NDArray[np.float64], " LH"]:
    sums: NDArray[np.float64] = counts.sum(0)
    return sums[:, 0] / sums[:, 1]


def _points(
    place: Mapping[str, Any], cell: Cell, scores: Float[Tensor, "N L H"], counts: Float[NDArray[np.float64], "S LH 2"]
) -> list[dict[str, Any]]:
    importance = cell.aggregate(scores)
    accuracy, found = _ratio(counts), []
    for number, value in enumerate(importance.flatten().tolist()):
        layer, head = divmod(number, importance.shape[1])
        at = {**place, "layer": layer, "head": head}
        found += [
            line(at, _IMPORTANCE, value, n=len(scores)),
            line(at, _ACCURACY, float(accuracy[number]), n=len(counts)),
        ]
    return found
