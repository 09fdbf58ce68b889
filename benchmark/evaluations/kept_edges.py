"""Faithfulness of edges: what a model still knows when it keeps only some attention edges.

An extension: the model is run again with the edges of an attribution graph (Hao 2021) alone, beside random edges and the
best ones. All of them are masks of the edges that are kept.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import SIGNED, UNBOUNDED, Averaged, Rows, correctness, described, higher
from benchmark.evaluations.edges import edge_scores, terminals, unpadded
from benchmark.models.classifier import Classifier
from benchmark.models.edits import KeepEdges
from benchmark.models.variants import run_variants
from benchmark.randomness import generator
from benchmark.results.graph import AttributionGraph, Construction, attribution_graph
from benchmark.results.optimal_graph import RandomTrees
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Count, Natural, Shares, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Attribution, Batch, Reads

KEPT_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_SETS = {
    "graph": "the graph's edges",
    "top": "as many best edges",
    "random": "as many random edges",
    "trees": "random trees of as many edges",
}

MASK_CELLS = 1 << 26
"""Cells [T T] of all layers that the masks of one expanded batch hold together: at 512 tokens and 12 layers, 21 masks."""

Keep = Bool[Tensor, "B L T T"]


@dataclass(frozen=True)
class Ordered:
    """Edges of B examples in the order of a score: `ranks` are 0 for the highest and N where there is no edge."""

    ranks: Int[Tensor, "G N"]
    shape: torch.Size

    @staticmethod
    def over_layers(scores: Float[Tensor, "B L T T"], cells: Keep, keys: Float[Tensor, "B L T T"]) -> "Ordered":
        """The edges of all layers together; ties in the order of `keys`."""
        flat = [x.flatten(1) for x in (scores, cells, keys)]
        return Ordered(ranks.descending_ranks(*flat), cells.shape)

    @staticmethod
    def within_layers(keys: Float[Tensor, "B L T T"], cells: Keep) -> "Ordered":
        """The edges of every layer by themselves, in the order of `keys` (the largest first)."""
        flat = [x.flatten(0, 1).flatten(1) for x in (keys, cells, -keys)]
        return Ordered(ranks.descending_ranks(*flat), cells.shape)

    def first(self, count: Int[Tensor, "*"]) -> Keep:
        """The `count` first edges: [B] for an order over all layers, [B L] for one within layers."""
        return ranks.best(self.ranks, count.reshape(1, -1))[0].reshape(self.shape)


@configurable
class KeptEdges(Averaged):
    """Keep a set of attention edges, set all others to 0 after the softmax in every head, and run the model.

    An edge (l, i, j) exists where i and j are no padding and some head of layer l attends from i to j. Two curves, each of
    the target's probability p_t and of accuracy against the label (examples without one get no row):

    - Against the threshold τ of attribution graphs: `graph_…` keeps the graph's edges and its terminal edge in the last
      layer. `top_…` keeps as many edges, the best by score over all layers. `random_…` keeps as many in every layer, drawn
      among the edges that a graph could have, mean over `draws`. `trees_…` keeps trees of as many edges that are grown at
      random below the graph's top node, each edge drawn from all that exist and keep it a graph of the construction
      (`results.optimal_graph.RandomTrees`), and the terminal edge, mean over `draws`. `edges_kept` is the number of the
      graph's edges, `edges_kept_share` their share of all edges. Without a top node nothing is kept.
    - Against the share of edges kept: `kept_…` keeps the best ⌊share · n⌋ of the n edges of all layers by score,
      `kept_random_…` random ones, mean over `draws`. `kept_auc` is the area under p_t (trapezoid over the shares divided
      by their range), `kept_auc_over_random` that area less the one of random edges.

    Self edges i → i: graphs have none, and none are kept beside a graph, since the residual connection hands on a token's
    own state anyhow. In the second curve they are edges like all others. With `keep_self` they are kept in every set and
    not counted: the budget is spent on the other edges alone.

    Scores are summed over heads, an edge is kept in all heads or in none. Ties are broken by a permutation seeded by
    the example.

    Attributes:
        target: the class that is explained, and whose probability is followed.
        construction: of the graphs, `paper` or `script`.
        thresholds: of the graphs, increasing, within [0, 1].
        fractions: increasing, within [0, 1].
        draws: random sets of edges for each point of a curve.
        keep_self: keep all self edges in every set.
        renormalise: rescale the rows of attention to sum to 1; rows with nothing kept stay 0.
        seed: of the random sets and of ties.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[Reads] = "edges"
    about: ClassVar[About] = About("faithfulness", 50, "Keeping some attention edges")

    target: TargetName = "predicted"
    construction: Construction = "paper"
    thresholds: Shares = curves.TENTHS
    fractions: Shares = KEPT_SHARES
    draws: Count = 3
    keep_self: bool = False
    renormalise: bool = False
    seed: Natural = 0

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Curves against the threshold and against the share, areas under the latter."""
        metrics = {
            "kept_auc": higher(
                "probability AUC, best edges kept",
                "mean probability of the explained class while growing shares of the edges are kept, best first",
                short="kept-edge AUC",
                headline=True,
            ),
            "kept_auc_over_random": higher(
                "probability AUC, best over random edges kept",
                "probability AUC with the best edges kept, less that with as many random edges kept",
                short="kept-edge AUC over random",
                bounds=SIGNED,
                headline=True,
            ),
        }
        for measure, measured in (("probability", "probability of the explained class"), ("accuracy", "accuracy")):
            for kind in _SETS:
                metrics[f"{kind}_{measure}"] = (described if kind in ("random", "trees") else higher)(
                    f"{measure}, {_SETS[kind]} kept",
                    f"{measured} when only {_SETS[kind]} at this threshold of the attribution graph are kept",
                    x="threshold",
                )
            for name, better, kind in (("kept", higher, "the best edges"), ("kept_random", described, "random edges")):
                metrics[f"{name}_{measure}"] = better(
                    f"{measure}, share of {kind} kept",
                    f"{measured} when only this share of the edges is kept, {kind}",
                    x="share of edges kept",
                )
        number, at = "number of edges in the attribution graph", "threshold"
        metrics["edges_kept"] = described("edges in the graph", number, bounds=UNBOUNDED, x=at)
        metrics["edges_kept_share"] = described("share of edges in the graph", f"{number} over that of all edges", x=at)
        return metrics

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Curves and areas of each example; NotApplicable where the method scores no edges."""
        edge_scores(batch, attribution)
        frames = []
        for rows in _parts(batch, model.n_layers):
            frames.append(self._part(model, batch.select(rows), attribution.select(rows)))
        return pd.concat(frames, ignore_index=True)

    def _part(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        cells = attended(model, batch)
        counted = cells & ~diagonal(cells) if self.keep_self else cells
        ties = random_keys(counted, batch.uids, self.seed, "kept edges")
        best = Ordered.over_layers(edge_scores(batch, attribution), counted, ties)
        measure = _Measure(model, batch, attribution.target.to(model.device), cells, self)
        rows = Rows(batch.uids)
        self._add_by_threshold(rows, measure, attribution, best)
        self._add_by_share(rows, measure, counted, best)
        return rows.frame()

    def _add_by_threshold(self, rows: Rows, measure: "_Measure", attribution: Attribution, best: Ordered) -> None:
        """The graph's edges beside the best and random ones."""
        batch, cells = measure.batch, measure.cells
        ends = terminals(measure.model, batch)
        scores = list(unpadded(batch, attribution))
        allowed = same_kind(cells, ends, self.construction)
        random_orders = [
            Ordered.within_layers(random_keys(allowed, batch.uids, self.seed, f"random graph {draw}"), allowed)
            for draw in range(self.draws)
        ]
        counts = torch.zeros(len(batch), len(self.thresholds), dtype=torch.long, device=cells.device)
        exists = [c[:, : s.shape[-1], : s.shape[-1]] for c, s in zip(cells.cpu().numpy(), scores, strict=True)]
        forests = Forests(exists, ends, batch.uids, self.construction, self.seed)

        def masks() -> Iterator[Keep]:
            for t, threshold in enumerate(self.thresholds):
                graphs = [
                    attribution_graph(scores_of_example, threshold, construction=self.construction, terminal=end)
                    for scores_of_example, end in zip(scores, ends, strict=True)
                ]
                keep = graph_masks(graphs, cells.shape, cells.device) & cells
                per_layer = keep.sum((2, 3))
                counts[:, t] = per_layer.sum(1)
                yield keep
                yield best.first(counts[:, t])
                yield from (order.first(per_layer) for order in random_orders)
                for draw in range(self.draws):
                    yield forests.masks(graphs, keep, f"{threshold:g}, {draw}") & cells

        values = measure.of(masks()).reshape(len(batch), len(self.thresholds), 2 + 2 * self.draws, 2)
        random, trees = values[:, :, 2 : 2 + self.draws].mean(2), values[:, :, 2 + self.draws :].mean(2)
        means = {"graph": values[:, :, 0], "top": values[:, :, 1], "random": random, "trees": trees}
        n_edges = (cells & ~diagonal(cells) if self.keep_self else cells).sum((1, 2, 3)).clamp(min=1)
        for kind in _SETS:
            measure.add(rows, kind, means[kind], self.thresholds)
        rows.add("edges_kept", counts, x=self.thresholds)
        rows.add("edges_kept_share", counts / n_edges[:, None], x=self.thresholds)

    def _add_by_share(self, rows: Rows, measure: "_Measure", counted: Keep, best: Ordered) -> None:
        """The best edges beside random ones."""
        uids = measure.batch.uids
        orders = [best]
        for draw in range(self.draws):
            keys = random_keys(counted, uids, self.seed, f"random edges {draw}")
            orders.append(Ordered.over_layers(keys, counted, -keys))
        counts = curves.counts(counted.sum((1, 2, 3)), self.fractions)
        masks = (order.first(count) for count in counts for order in orders)
        values = measure.of(masks).reshape(len(uids), len(self.fractions), 1 + self.draws, 2)
        best_curve, random = values[:, :, 0], values[:, :, 1:].mean(2)
        areas = [curves.area(curve[..., 0], self.fractions) for curve in (best_curve, random)]
        measure.add(rows, "kept", best_curve, self.fractions)
        measure.add(rows, "kept_random", random, self.fractions)
        rows.add("kept_auc", areas[0])
        rows.add("kept_auc_over_random", areas[0] - areas[1])


@dataclass(frozen=True)
class _Measure:
    """Runs masks on a batch and reads p_t and accuracy."""

    model: Classifier
    batch: Batch
    target: Target
    cells: Keep
    settings: KeptEdges

    def of(self, masks: Iterator[Keep]) -> Float[Tensor, "B K 2"]:
        """(p_t, whether the label is predicted) for each of K masks."""
        self_edges = self.cells & diagonal(self.cells)
        keeps = (mask | self_edges for mask in masks) if self.settings.keep_self else masks
        logits = kept_logits(self.model, self.batch, keeps, renormalise=self.settings.renormalise)
        exact = logits.double()
        probability = self.model.probability(exact, self.target)
        return torch.stack([probability, correctness(exact, self.batch.label)], dim=-1).transpose(0, 1).contiguous()

    def add(self, rows: Rows, name: str, values: Float[Tensor, "B X 2"], x: Sequence[float | int]) -> None:
        """Rows of a curve's probability and accuracy."""
        rows.add(f"{name}_probability", values[..., 0], x=x)
        rows.add(f"{name}_accuracy", values[..., 1], x=x, defined=self.batch.label >= 0)


def attended(model: Classifier, batch: Batch) -> Keep:
    """The edges that exist: query and key are no padding and some head's attention is not 0 (causal, local attention)."""
    of_parts = []
    for part, _ in model.parts(batch):
        trace = model.run(part, record=("attentions",))
        of_parts.append(torch.stack([(layer > 0).any(1) for layer in trace.attentions], dim=1))
    return torch.cat(of_parts) & batch.cells[:, None]


def diagonal(like: Keep) -> Bool[Tensor, "T T"]:
    """True on self edges."""
    return torch.eye(like.shape[-1], dtype=torch.bool, device=like.device)


def random_keys(cells: Keep, uids: Sequence[str], seed: int, purpose: str) -> Float[Tensor, "B L T T"]:
    """Independent uniform numbers on `cells` (0 elsewhere), from each example's own generator.

    The cells take them in order, so padding changes nothing.
    """
    keys = torch.zeros(cells.shape, dtype=torch.float64)
    for row, is_edge, uid in zip(keys, cells.cpu(), uids, strict=True):
        row[is_edge] = torch.from_numpy(generator(seed, purpose, uid).random(int(is_edge.sum())))
    return keys.to(cells.device)


def graph_masks(graphs: Sequence[AttributionGraph], shape: torch.Size, device: torch.device) -> Keep:
    """The edges of each example's graph, the terminal edge among them."""
    keep = torch.zeros(shape, dtype=torch.bool)
    for b, graph in enumerate(graphs):
        for edge in graph.edges:
            keep[b, edge.layer, edge.query, edge.key] = True
        if graph.terminal_edge is not None:
            query, key, layer = graph.terminal_edge
            keep[b, layer, query, key] = True
    return keep.to(device)


class Forests:
    """Random trees beside the graphs of B examples.

    Args:
        exists: the edges that exist of each example, without padding.
        terminals: the token that the classifier reads, or None.
        uids: of the examples.
        construction: of the graphs.
        seed: of the trees.
    """

    def __init__(
        self,
        exists: Sequence[Bool[NDArray, "L n n"]],
        terminals: Sequence[int | None],
        uids: Sequence[str],
        construction: Construction,
        seed: int,
    ) -> None:
        self._exists, self._terminals, self._uids = exists, terminals, uids
        self._construction, self._seed = construction, seed
        self._trees: dict[tuple[int, int], RandomTrees] = {}

    def masks(self, graphs: Sequence[AttributionGraph], keep: Keep, purpose: str) -> Keep:
        """A tree of as many edges below each graph's top node, and the graph's terminal edge.

        Args:
            graphs: of the examples.
            keep: their edges that exist (`graph_masks`).
            purpose: tells the draws apart.
        """
        found = torch.zeros(keep.shape, dtype=torch.bool)
        for b, graph in enumerate(graphs):
            if graph.top is None:
                continue
            n_edges = sum(bool(keep[b, edge.layer, edge.query, edge.key]) for edge in graph.edges)
            random = generator(self._seed, f"random trees {purpose}", self._uids[b])
            for layer, query, key in self._below(b, graph.top).draw(n_edges, random):
                found[b, layer, query, key] = True
            if graph.terminal_edge is not None:
                query, key, layer = graph.terminal_edge
                found[b, layer, query, key] = True
        return found.to(keep.device)

    def _below(self, b: int, top: int) -> RandomTrees:
        if (b, top) not in self._trees:
            self._trees[b, top] = RandomTrees(self._exists[b], self._construction, top, self._terminals[b])
        return self._trees[b, top]


def same_kind(cells: Keep, terminals: Sequence[int | None], construction: str) -> Keep:
    """Where random graphs are drawn: the edges that a graph of this construction could have.

    No self edges; in the last layer the terminal's row alone; in the script's construction no row of the terminal below
    it. (That the top node alone is a query in the script's layer L − 2 is not imitated: a random graph has no top node.)
    """
    allowed = cells & ~diagonal(cells)
    for b, terminal in enumerate(terminals):
        last_layer = torch.zeros_like(allowed[b, -1])
        if terminal is not None:
            last_layer[terminal] = allowed[b, -1, terminal]
            if construction == "script":
                allowed[b, :-1, terminal] = False
        allowed[b, -1] = last_layer
    return allowed


def _groups(masks: Iterable[Keep]) -> Iterator[Bool[Tensor, "K B N"]]:
    """The masks flattened, as many at a time as MASK_CELLS allows."""
    waiting: list[Tensor] = []
    for mask in masks:
        waiting.append(mask.flatten(1))
        if (len(waiting) + 1) * mask.numel() > MASK_CELLS:
            yield torch.stack(waiting)
            waiting = []
    if waiting:
        yield torch.stack(waiting)


def kept_logits(
    model: Classifier,
    batch: Batch,
    masks: Iterable[Keep],
    *,
    renormalise: bool = False,
) -> Float[Tensor, "K B C"]:
    """Logits when only the edges of each of K masks are kept; equal masks of one example are run once.

    Args:
        model: the classifier.
        batch: the examples.
        masks: K of them, each for the whole batch; each is computed when it is needed.
        renormalise: rescale the rows of attention (`KeepEdges`).
    """
    n_layers, width = model.n_layers, batch.units.shape[1]

    def run(tensors: Mapping[str, Tensor], units: Tensor, mask: Tensor, example: Tensor) -> Tensor:
        keep = mask.reshape(-1, n_layers, width, width)[:, :, : units.shape[1], : units.shape[1]]
        return model.run(tensors, edits=[KeepEdges(keep, renormalise)]).logits

    return torch.cat([run_variants(model, batch, group, run) for group in _groups(masks)])


def _parts(batch: Batch, n_layers: int) -> Iterator[list[int]]:
    """Rows of the batch that are worked on together, so that a single mask stays within MASK_CELLS."""
    size = max(1, MASK_CELLS // (8 * n_layers * batch.units.shape[1] ** 2))  # 8: ranks are 64-bit numbers
    for start in range(0, len(batch), size):
        yield list(np.arange(len(batch))[start : start + size].tolist())
