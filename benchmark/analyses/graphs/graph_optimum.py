"""How good is the greedy construction of attribution graphs? (Hao et al. 2021; docs/protocols.md, section 4)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.graphs.summed_edges import SummedEdges, summed_edges
from benchmark.analyses.means import defined_mean, mean_line
from benchmark.analyses.measured import figure_line
from benchmark.analyses.resumed import Arrays, explained_of
from benchmark.randomness import generator
from benchmark.results.graph import Construction, attribution_graph, layer_shares, top_node
from benchmark.results.optimal_graph import RandomTrees, allowed_cells, best_tree
from benchmark.results.tables import Drawing, Table
from benchmark.settings.declared import Count, Natural, Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Batch, Method

_GREEDY, _RANDOM = "greedy over optimum", "random tree over optimum"
_REACHED, _EDGES, _BEST_EDGES, _LEFT_OUT = "optimum reached", "edges, greedy", "edges, optimum", "left out"
_EQUAL = 1e-9
_NOTHING = "no example has an optimum above 0"


@configurable
class GraphOptimum(Analysis):
    """What the walk down the layers keeps of the best that it could keep.

    Of a tree below the top node (`benchmark.results.optimal_graph`) with cells e above the threshold τ, the objective is

        V(E) = Σ_{e ∈ E} (w_e − λ),    λ = penalty · max_e w_e

    with w the score α of the edge, as in the source, or its share of the layer's maximum. The source names the objective and
    approaches it by a heuristic that does not know λ; here its V is compared with the exact optimum, example by example:
    `greedy over optimum`, at most 1, and below 0 where the edges cost more than they are worth. Beside it trees of as many
    edges that are grown at random over all cells, above τ or not (mean of `draws`).

    An example whose optimum is 0 has no share and is left out, as is one with more than `most_edges` cells above τ; `left
    out` says how many.

    Attributes:
        explainer: scores edges.
        thresholds: τ, increasing, within [0, 1].
        penalties: λ over the largest weight, increasing, within [0, 1].
        weights: `score` (the source) or `share`.
        construction: of the graphs, `paper` or `script`.
        draws: random trees of an example.
        most_edges: of an example that is solved.
        target: class that is explained.
        seed: of the random trees.

    Raises:
        NotApplicable: the explainer scores no edges, or the model has an encoder and a decoder.

    Source: Hao et al. 2021, section "Attribution tree", for objective and heuristic; the optimum is this project's.
    Cost: the explainer's edge scores; the programs take no model.
    """

    version: ClassVar[int] = 1

    explainer: Method
    thresholds: Shares = (0.1, 0.2, 0.4, 0.6)
    penalties: Shares = (0.0, 0.1, 0.2)
    weights: Literal["score", "share"] = "score"
    construction: Construction = "paper"
    draws: Count = 20
    most_edges: Count = 400
    target: TargetName = "predicted"
    limit: Count | None = 100
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Shares of the optimum against τ, for each λ."""
        limited = context.setting.limited(self.limit)
        target_of = explained_of(limited.data, self.target)

        def compute(batch: Batch) -> Arrays:
            examples = summed_edges(limited.model, batch, self.explainer, target_of(batch))
            return {"objectives": np.stack([self.objectives(example) for example in examples])}

        found = self.by_example(context, limited, compute, "optimal graphs").arrays["objectives"]
        return [self._table(found)]

    def objectives(self, example: SummedEdges) -> NDArray[np.float64]:
        """V of the optimum, of greedy and of random trees, edges of greedy and of the optimum [τ λ 5]; NaN if not solved."""
        values = np.full((len(self.thresholds), len(self.penalties), 5), np.nan)
        shares, top = layer_shares(example.scores, example.terminal), top_node(example.scores, example.terminal)
        if top is None:
            return values
        weights = shares if self.weights == "share" else example.scores
        random = generator(self.seed, "random trees", example.uid)
        every = RandomTrees(np.ones(shares.shape, dtype=bool), self.construction, top, example.terminal)
        for t, threshold in enumerate(self.thresholds):
            cells = allowed_cells(shares > threshold, self.construction, top, example.terminal)
            if not cells or len(cells) > self.most_edges:
                continue
            graph = attribution_graph(
                example.scores, threshold, construction=self.construction, terminal=example.terminal
            )
            greedy = np.array([weights[edge.layer, edge.query, edge.key] for edge in graph.edges])
            size = len(graph.edges)
            trees = [every.draw(size, random) for _ in range(self.draws)]
            drawn = np.array([[weights[cell] for cell in tree] for tree in trees]).reshape(self.draws, -1)
            kept = np.array([weights[cell] for cell in cells])
            for p, penalty in enumerate(self.penalties):
                price = penalty * kept.max()
                best = kept[best_tree(cells, kept - price, top)] - price
                chance = (drawn - price).sum(1).mean()
                values[t, p] = best.sum(), (greedy - price).sum(), chance, size, len(best)
        return values

    def _table(self, values: NDArray[np.float64]) -> Table:
        rows: list[dict[str, Any]] = []
        for t, threshold in enumerate(self.thresholds):
            for p, penalty in enumerate(self.penalties):
                price = f"λ = {penalty:g} max w" if penalty else "λ = 0"
                rows += _lines({"threshold": f"{threshold:g}", "λ": price}, values[:, t, p])
        return Table(
            name="graph_optimum",
            title="What the greedy attribution graph keeps of the best that it could keep",
            labels=("threshold", "λ"),
            rows=pd.DataFrame(rows),
            sentences=(
                "Weight kept less λ for each edge, over that of the exact optimum above the same threshold, mean over "
                "examples; max w is the largest weight of the example.",
                f"Random trees have as many edges as the greedy graph, over all cells; mean of {self.draws}. Left out are "
                f"examples with no edge above the threshold, with more than {self.most_edges}, or whose optimum is empty.",
            ),
            drawing=Drawing("curves", x="threshold", y=(_GREEDY, _RANDOM), series="λ", alike=((_GREEDY, _RANDOM),)),
        )


def _lines(labels: Mapping[str, Any], values: NDArray[np.float64]) -> list[dict[str, Any]]:
    best = values[:, 0]
    defined = best > 0
    kept = values[defined]
    return [
        mean_line(labels, _GREEDY, kept[:, 1] / kept[:, 0], (-np.inf, 1.0), _NOTHING),
        mean_line(labels, _RANDOM, kept[:, 2] / kept[:, 0], (-np.inf, 1.0), _NOTHING),
        mean_line(labels, _REACHED, kept[:, 1] >= kept[:, 0] * (1 - _EQUAL), (0.0, 1.0), _NOTHING),
        mean_line(labels, _EDGES, kept[:, 3], (0.0, np.inf), _NOTHING),
        mean_line(labels, _BEST_EDGES, kept[:, 4], (0.0, np.inf), _NOTHING),
        figure_line(labels, _LEFT_OUT, defined_mean(~defined, (0.0, 1.0)), "", (0.0, 1.0)),
    ]
