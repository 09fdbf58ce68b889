"""Is an attribution graph compositional? Its edges beside a dependency tree's (docs/protocols.md, section 17)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.graphs.summed_edges import SummedEdges, summed_edges
from benchmark.analyses.resumed import Arrays, explained_of
from benchmark.analyses.syntax.syntax_heads import share_line, share_of
from benchmark.analyses.syntax.trees import PUNCTUATION
from benchmark.annotations import Parse, annotated
from benchmark.randomness import generator
from benchmark.results import statistics
from benchmark.results.graph import Construction, attribution_graph, top_node
from benchmark.results.optimal_graph import RandomTrees
from benchmark.results.statistics import interval
from benchmark.results.tables import Drawing, Table
from benchmark.settings.declared import Count, Natural, Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Batch, Method

GRAPH, CHAIN, RANDOM = "attribution graph", "each word to the next", "random trees"
TREES = (GRAPH, CHAIN, RANDOM)
_SHARE, _MORE = "share that are dependencies", "the graph has more"
_DIFFERENCE = (-1.0, 1.0)

Pairs = frozenset[tuple[int, int]]


@configurable
class GraphSyntax(Analysis):
    """The share of a graph's edges between words that are edges of the sentence's dependency tree, direction aside.

        Σ_sentences |G ∩ D| / Σ_sentences |G|

    G are the pairs of different words that the graph's edges join (its tokens are pieces of words; special tokens and
    punctuation are left out), D the annotated pairs. Beside it the chain, each word with the next, and trees of as many
    edges that are grown at random below the same top node (`optimal_graph.RandomTrees`, all `draws` of a sentence summed);
    and what the graph has more than these, of the same sentences.

    Attributes:
        explainer: scores edges.
        thresholds: τ, increasing, within [0, 1].
        construction: of the graphs, `paper` or `script`.
        draws: random trees of a sentence.
        target: class that is explained.
        limit: how many of the scored sentences, drawn by the comparison's seed; None for all.
        seed: of the random trees.

    Raises:
        NotApplicable: the examples have no parse, the explainer scores no edges, or the model has an encoder and a decoder.

    Source: Hao et al. 2021, who say of two examples that the graph combines words compositionally; the measure is this
        project's, after the attachment scores of parsers.
    Cost: the explainer's edge scores.
    """

    version: ClassVar[int] = 1

    explainer: Method
    thresholds: Shares = (0.1, 0.2, 0.4, 0.6)
    construction: Construction = "paper"
    draws: Count = 20
    target: TargetName = "predicted"
    limit: Count | None = 300
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Shares against τ, and their differences from both controls."""
        limited = context.setting.limited(self.limit)
        target_of = explained_of(limited.data, self.target)

        def compute(batch: Batch) -> Arrays:
            parses = annotated(batch.meta, Parse)
            examples = summed_edges(limited.model, batch, self.explainer, target_of(batch))
            return {"shared": np.stack([self.shared(*pair) for pair in zip(examples, parses, strict=True)])}

        found = self.by_example(context, limited, compute, "syntax of graphs").arrays["shared"]
        return [self._table(found)]

    def shared(self, example: SummedEdges, parse: Parse) -> NDArray[np.float64]:
        """Edges that are dependencies, and all, of each of `TREES` [τ 3 2]."""
        words = [word for word in sorted({*example.units} - {-1}) if parse.relations[word] != PUNCTUATION]
        inside = {*words}
        gold = _pairs((word, parse.heads[word]) for word in words if parse.heads[word] in inside)
        chain = _pairs((word, word + 1) for word in words if word + 1 in inside)
        random = generator(self.seed, "random trees", example.uid)
        top, exists = top_node(example.scores, example.terminal), np.ones(example.scores.shape, dtype=bool)
        trees = None if top is None else RandomTrees(exists, self.construction, top, example.terminal)
        values = np.zeros((len(self.thresholds), len(TREES), 2))
        for t, threshold in enumerate(self.thresholds):
            graph = attribution_graph(
                example.scores, threshold, construction=self.construction, terminal=example.terminal
            )
            values[t, 0] = _counted(self._joined(example, inside, [(e.query, e.key) for e in graph.edges]), gold)
            values[t, 1] = _counted(chain, gold)
            for _ in range(self.draws if trees else 0):
                drawn = trees.draw(len(graph.edges), random) if trees else []
                joined = self._joined(example, inside, [(query, key) for _, query, key in drawn])
                values[t, 2] += _counted(joined, gold)
        return values

    @staticmethod
    def _joined(example: SummedEdges, inside: set[int], edges: Sequence[tuple[int, int]]) -> Pairs:
        """The pairs of different words that edges between tokens join."""
        named = ((example.units[query], example.units[key]) for query, key in edges)
        return _pairs((v, w) for v, w in named if v != w and v in inside and w in inside)

    def _table(self, values: NDArray[np.float64]) -> Table:
        rows: list[dict[str, Any]] = []
        for t, threshold in enumerate(self.thresholds):
            place = {"threshold": f"{threshold:g}"}
            for number, tree in enumerate(TREES):
                rows.append(_line(place | {"tree": tree}, values[:, t, number]))
            for number in (1, 2):
                columns = values[:, t, [0, number]].reshape(len(values), -1)
                figure = interval(columns, _less, bounds=_DIFFERENCE)
                rows.append(share_line(place | {"tree": TREES[number]}, _MORE, figure, _DIFFERENCE))
        return Table(
            name="graph_syntax",
            title="Is the graph compositional? Share of the edges between words that are dependencies",
            labels=("threshold", "tree"),
            rows=pd.DataFrame(rows),
            sentences=(
                "Edges of all sentences together, direction aside; intervals and n are of sentences. Punctuation, special "
                "tokens and edges inside a word are left out.",
                f"Random trees have the top node and the number of edges of the graph; {self.draws} of each sentence.",
            ),
            drawing=Drawing("curves", x="threshold", y=(_SHARE,), series="tree"),
        )


def _less(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first ratio less the second, from means of [shared, all, shared, all]."""
    difference: NDArray[np.float64] = statistics.ratio(means[..., :2]) - statistics.ratio(means[..., 2:])
    return difference


def _line(labels: Mapping[str, Any], values: NDArray[np.float64]) -> dict[str, Any]:
    """The share, of the sentences that have an edge."""
    return share_line(labels, _SHARE, share_of(values[values[:, 1] > 0]), (0.0, 1.0))


def _counted(edges: Pairs, gold: Pairs) -> tuple[int, int]:
    return len(edges & gold), len(edges)


def _pairs(edges: Iterable[tuple[int, int]]) -> Pairs:
    return frozenset((min(edge), max(edge)) for edge in edges)
