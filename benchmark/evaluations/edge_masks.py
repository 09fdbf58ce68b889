"""Masks of the edges that are kept (those of a graph, the best ones, random ones), and the logits under them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.evaluations import ranks
from benchmark.models.classifier import Classifier
from benchmark.models.edits import KeepEdges
from benchmark.models.variants import run_variants
from benchmark.randomness import generator
from benchmark.results.graph import AttributionGraph, Construction
from benchmark.results.optimal_graph import RandomTrees
from benchmark.types import Batch

MASK_CELLS = 1 << 26
"""Cells [T T] of all layers that the masks of one expanded batch hold together: at 512 tokens and 12 layers, 21 masks."""

Keep = Bool[Tensor, "B L T T"]


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


def parts(batch: Batch, n_layers: int) -> Iterator[list[int]]:
    """Rows of the batch that are worked on together, so that a single mask stays within MASK_CELLS."""
    size = max(1, MASK_CELLS // (8 * n_layers * batch.units.shape[1] ** 2))  # 8: ranks are 64-bit numbers
    for start in range(0, len(batch), size):
        yield list(np.arange(len(batch))[start : start + size].tolist())
