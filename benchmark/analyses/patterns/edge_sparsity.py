"""Is an attribution map sparser than the attention map of the same head? (Hao et al. 2021, figure 2).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.patterns.edge_maps import MEASURES, Shown, mean_of, shown, sparsity
from benchmark.analyses.resumed import Arrays, explained_of
from benchmark.errors import NotApplicable
from benchmark.results import statistics
from benchmark.results.tables import Drawing, Table, line
from benchmark.settings.declared import Count, configurable
from benchmark.targets import TargetName
from benchmark.types import Batch, Method

ATTENTION, ATTRIBUTION, LESS = "attention", "attribution", "attribution less attention"
MAPS = (ATTENTION, ATTRIBUTION)
_GINI, _ENTROPY, _PART = MEASURES[0], MEASURES[2], "share of the map's largest"
_GINIS, _SHARE = MEASURES[:2], (0.0, 1.0)
_UNDEFINED, _NOTHING = "share of maps of zeros", "every map is one of zeros"


@configurable
class EdgeSparsity(Analysis):
    """How the mass of a head's attribution map is spread over its edges, beside that of its attention map.

    The masses of a head are `m_e = |E[l, h, i, j]|`, of its attention `A[l, h, i, j]`, over the edges e = (i, j) that the
    model permits between tokens that are no padding. Of each map the Gini index, the entropy in nats and the share of the
    mass in the best ⌈share · n⌉ of its n edges (`benchmark.evaluations.complexity`).

    Rows of attention sum to 1; attribution knows which rows the prediction needs, in the last layer that of the token alone
    that the classifier reads. It is sparse for that reason too. "By query" is the mean of the Gini index over the keys of
    each query, of the queries that have any attribution: what is left when only the choice among keys is compared.

    `edge_sparsity`: means over heads, with the paired difference. `edge_sparsity_by_layer` likewise for each layer.
    `edge_sparsity_heads`: both Gini indices of each head, and `edge_sparsity_verdict`: of how many heads attribution is the
    sparser one or attention is, by sign flips over the examples, Holm-corrected over the heads. `edge_sparsity_example`: one
    head's attention beside its attribution, that with the largest score in the example whose length is nearest to 12 tokens.

    A map of zeros has no figure: the example is left out of that head's mean, and the share of such maps is said.

    Attributes:
        explainer: scores edges for each head.
        target: class that is explained.

    Raises:
        NotApplicable: the explainer scores no edges of heads, or the model has an encoder and a decoder.

    Source: Hao et al. 2021, who show that attribution is sparser for one head by eye; the figures are this project's.
    Cost: a forward pass and the explainer's edge scores.
    """

    version: ClassVar[int] = 1

    explainer: Method
    target: TargetName = "predicted"
    limit: Count | None = 100

    def __call__(self, context: Context) -> Sequence[Table]:
        """Means, layers, heads and the picture of one."""
        limited = context.setting.limited(self.limit)
        model, data = limited.model, limited.data
        if model.streams.count > 1:
            raise NotApplicable("the model has an encoder and a decoder: its edges join two sequences of tokens")
        if not self.explainer.scores_edges:
            raise NotApplicable("the explainer scores no edges")
        target_of = explained_of(data, self.target)

        def compute(batch: Batch) -> Arrays:
            return {"sparsity": sparsity(model, batch, self.explainer, target_of(batch))}

        found = self.by_example(context, limited, compute, "sparsity of edges")
        values = found.arrays["sparsity"]
        return [
            _overall(values),
            _verdict(values),
            _by_layer(values),
            _heads(values),
            _example(shown(model, data.batches, self.explainer, target_of)),
        ]


def _lines(labels: Mapping[str, Any], values: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Each measure of both maps [N 2 M], and the paired difference, of the examples that have both."""
    rows = []
    for number, measure in enumerate(MEASURES):
        both = values[..., number]
        pairs = both[~np.isnan(both).any(1)]
        bounds = (0.0, np.inf) if measure == _ENTROPY else _SHARE
        of_difference = (-bounds[1], bounds[1])
        figures = [
            *statistics.intervals(pairs, bounds=bounds),
            statistics.interval(pairs[:, 1] - pairs[:, 0], bounds=of_difference),
        ]
        note = "" if len(pairs) else _NOTHING
        rows += [
            figure_line({**labels, "map": which}, measure, figure, note, of_difference if which == LESS else bounds)
            for which, figure in zip((*MAPS, LESS), figures, strict=True)
        ]
    return rows


def _overall(values: NDArray[np.float64]) -> Table:
    rows = _lines({}, _mean(values, (2, 3)))
    for number, which in enumerate(MAPS):
        zeros = np.isnan(values[:, number, ..., 0]).mean((1, 2))
        rows.append(figure_line({"map": which}, _UNDEFINED, statistics.interval(zeros, bounds=_SHARE), "", _SHARE))
    return Table(
        name="edge_sparsity",
        title="Is attribution sparser than attention? Means over all heads",
        labels=("map",),
        rows=pd.DataFrame(rows),
        sentences=(
            "Of each head's map, the mean over heads and over examples; the difference is paired, and intervals are over "
            "examples. A Gini index of 0 is a map of equal edges.",
            "By query: over the keys of each query that has any attribution, so that rows which the prediction does not "
            "need do not count as sparsity.",
        ),
    )


def _by_layer(values: NDArray[np.float64]) -> Table:
    rows = [
        row for layer in range(values.shape[2]) for row in _lines({"layer": layer}, _mean(values[:, :, layer], (2,)))
    ]
    return Table(
        name="edge_sparsity_by_layer",
        title="Sparsity of attention and of attribution by layer, mean over heads",
        labels=("layer", "map"),
        rows=pd.DataFrame([row for row in rows if row["map"] != LESS]),
        drawing=Drawing("curves", x="layer", y=_GINIS, series="map", alike=(_GINIS,)),
    )


def _heads(values: NDArray[np.float64]) -> Table:
    rows = []
    for layer, head in np.ndindex(values.shape[2:4]):
        rows += [
            row for row in _lines({"layer": layer, "head": head}, values[:, :, layer, head]) if row["metric"] in _GINIS
        ]
    return Table(
        name="edge_sparsity_heads",
        title="Gini index of every head's attention map and attribution map",
        labels=("layer", "head", "map"),
        rows=pd.DataFrame(rows),
        drawing=Drawing("heat", x="head", y=("layer",), panels=("map",), value=_GINI, differences=(LESS,)),
        printed=False,
    )


def _verdict(values: NDArray[np.float64]) -> Table:
    """In how many heads is which map the sparser one?"""
    of_heads = "a count of this model's heads, which are no sample"
    return Table(
        name="edge_sparsity_verdict",
        title="In how many heads is attribution sparser than attention?",
        labels=("by",),
        rows=pd.DataFrame([row for measure in _GINIS for row in _counted(values, measure)]),
        sentences=(f"Sign flips over {len(values)} examples, Holm-corrected over the heads; {of_heads}.",),
    )


def _counted(values: NDArray[np.float64], measure: str) -> list[dict[str, Any]]:
    number = MEASURES.index(measure)
    differences = (values[:, 1, ..., number] - values[:, 0, ..., number]).reshape(len(values), -1)
    columns = [column[~np.isnan(column)] for column in differences.T]
    flips = statistics.flips_for(len(columns))
    p = {head: float(statistics.sign_flip_p(c[:, None], flips=flips)[0]) for head, c in enumerate(columns) if len(c)}
    beyond = [columns[head] for head, level in statistics.holm(p).items() if level <= statistics.ALPHA]
    skewed = [column for column in beyond if statistics.too_skewed(column[:, None], len(p))[0]]
    told = [column.mean() for column in beyond if not any(column is other for other in skewed)]
    sparser, less = sum(mean > 0 for mean in told), sum(mean < 0 for mean in told)
    counts = {"attribution is sparser": sparser, "attention is sparser": less}
    counts |= {"not told apart": len(columns) - sparser - less - len(skewed)}
    counts |= {statistics.TOO_SKEWED: len(skewed)} if skewed else {}
    return [line({"by": measure}, what, note=f"{count} of {len(columns)} heads") for what, count in counts.items()]


def _example(head: Shown) -> Table:
    rows = [
        line({"map": which, "query": query, "key": key}, _PART, float(head.maps[number, i, j]))
        for number, which in enumerate(MAPS)
        for i, query in enumerate(head.tokens)
        for j, key in enumerate(head.tokens)
    ]
    return Table(
        name="edge_sparsity_example",
        title=f"Attention and attribution of one head: layer {head.layer}, head {head.head}, example {head.uid}",
        labels=("map", "query", "key"),
        rows=pd.DataFrame(rows),
        sentences=("One head of one example, to look at: no interval.",),
        drawing=Drawing("heat", x="key", y=("query",), panels=("map",), value=_PART),
        printed=False,
    )


def _mean(values: NDArray[np.float64], axes: tuple[int, ...]) -> NDArray[np.float64]:
    """The mean over heads that have a figure in both maps; NaN where none has."""
    return mean_of(values, np.broadcast_to(~np.isnan(values).any(1, keepdims=True), values.shape), axes)
