"""Circuits from scores: the best edges, nodes or heads, and what hangs together of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.models.components.graph import Graph

Order = Literal["signed", "magnitude", "greedy"]
"""By which score components are taken: the largest first, the largest magnitude first, or the largest magnitude among the
edges that lead to what is taken already, from the logits on."""


Level = Literal["edges", "nodes", "heads"]
"""What a circuit is made of. Of heads alone: input and feed-forward networks are always of it."""

LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True)
class Circuits:
    """K circuits.

    Attributes:
        keep: what slots read of what is written now (`Components.run`); one column for all slots where these read the same.
        edges: of each circuit the edges that hang together.
    """

    keep: Bool[Tensor, "K S _"]
    edges: Bool[Tensor, "K S D"]


def size_of(graph: Graph, level: Level) -> int:
    """How many components there are."""
    sizes = {"edges": int(graph.edges.sum()), "nodes": len(graph.nodes), "heads": graph.n_layers * graph.n_heads}
    return sizes[level]


def orders_nothing(graph: Graph, level: Level, scores: Float[Tensor, "N ..."]) -> bool:
    """Whether all components have one score in each of N examples, so that the best of them are drawn by lot."""
    own = (scores[:, graph.edges.to(scores.device)] if level == "edges" else scores).flatten(1)
    return bool((own == own[:, :1]).all())


def best(
    graph: Graph, level: Level, scores: Float[Tensor, "..."], counts: Sequence[int], order: Order, seed: int = 0
) -> Circuits:
    """The circuits of the so many best components.

    Args:
        graph: of the model.
        level: what scores are of: [S, D], [S], or [L, H].
        scores: one for each component.
        counts: how many each circuit has.
        order: which are best.
        seed: of the permutation that breaks ties.
    """
    if level == "edges":
        edges = torch.stack([best_edges(graph, scores, count, order, seed) for count in counts])
        return Circuits(edges, edges)
    if level == "nodes":
        edges = torch.stack([best_nodes(graph, scores, count, order, seed) for count in counts])
        return Circuits(edges.any(2, keepdim=True), edges)
    chosen = torch.stack([_taken(scores.flatten(), count, order, seed) for count in counts])
    nodes = torch.stack([_with_heads(graph, own.reshape(scores.shape)) for own in chosen])
    return Circuits(nodes[..., None], torch.stack([among(graph, own) for own in nodes]))


def ends(graph: Graph, level: Level) -> Bool[Tensor, "2 S _"]:
    """All components, and none, as `Circuits.keep`."""
    if level == "edges":
        return torch.stack([graph.edges, torch.zeros_like(graph.edges)])
    everything = torch.ones(len(graph.nodes), 1, dtype=torch.bool)
    none = torch.zeros(graph.n_layers, graph.n_heads, dtype=torch.bool)
    nothing = _with_heads(graph, none)[:, None] if level == "heads" else torch.zeros_like(everything)
    return torch.stack([everything, nothing])


def _with_heads(graph: Graph, heads: Bool[Tensor, "L H"]) -> Bool[Tensor, "S"]:
    """Some heads, and all nodes that are none."""
    nodes = torch.ones(len(graph.nodes), dtype=torch.bool)
    for layer, own in enumerate(heads):
        nodes[graph.heads(layer)] = own
    return nodes


def _taken(scores: Float[Tensor, "N"], count: int, order: Order, seed: int) -> Bool[Tensor, "N"]:
    """The best of components that are taken one by one."""
    values = scores.detach().double().cpu().numpy()
    ties = np.random.default_rng(seed).permutation(len(values))
    taken = np.lexsort((ties, -(values if order == "signed" else np.abs(values))))[:count]
    marks = torch.zeros(len(values), dtype=torch.bool)
    marks[torch.as_tensor(taken)] = True
    return marks


def best_edges(
    graph: Graph, scores: Float[Tensor, "S D"], count: int, order: Order, seed: int = 0
) -> Bool[Tensor, "S D"]:
    """The `count` best edges, and of these what hangs together (`connected`). Ties fall by a seeded permutation.

    What falls away is not made up for, so that a circuit may have fewer edges.

    Args:
        graph: of the model.
        scores: one per edge; others are not looked at.
        count: how many.
        order: which are best.
        seed: of the permutation.
    """
    places, values = graph.edges.nonzero(), scores.detach().cpu()[graph.edges]
    taken = (
        _greedily(graph, places.numpy(), values, count, seed)
        if order == "greedy"
        else _taken(values, count, order, seed)
    )
    keep = torch.zeros_like(graph.edges)
    keep[places[taken, 0], places[taken, 1]] = True
    return connected(graph, keep)


def _greedily(
    graph: Graph, places: NDArray[np.int64], scores: Float[Tensor, "N"], count: int, seed: int
) -> Bool[Tensor, "N"]:
    """Which edges are taken, the best of those into a node that is taken already, one after the other."""
    reader = np.array(graph.reader_of)[places[:, 1]]
    values = scores.double().abs().numpy()
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.lexsort((np.random.default_rng(seed).permutation(len(values)), -values))] = np.arange(len(values))
    within, free = {-1}, np.ones(len(values), dtype=bool)
    for _ in range(min(count, len(values))):
        reachable = free & np.isin(reader, list(within))
        first = int(np.where(reachable, rank, len(rank)).argmin())
        free[first] = False
        within.add(int(places[first, 0]))
    return torch.from_numpy(~free)


def best_nodes(
    graph: Graph, scores: Float[Tensor, "S"], count: int, order: Order, seed: int = 0
) -> Bool[Tensor, "S D"]:
    """The edges among the `count` best nodes and from these to the logits, as far as they hang together.

    Of nodes `greedy` is no order of its own, since every node has an edge to the logits: it is `magnitude`.
    """
    return among(graph, _taken(scores, count, order, seed))


def among(graph: Graph, nodes: Bool[Tensor, "S"]) -> Bool[Tensor, "S D"]:
    """The edges among some nodes and from these to the logits, as far as they hang together."""
    readers = torch.tensor(graph.reader_of)
    return connected(graph, graph.edges & nodes[:, None] & (nodes[readers.clamp(min=0)] | (readers < 0)))


def connected(graph: Graph, keep: Bool[Tensor, "S D"]) -> Bool[Tensor, "S D"]:
    """The edges of nodes that have an edge in and one out, until no more fall away; the input needs none in."""
    readers = torch.tensor(graph.reader_of)
    found = keep.clone()
    while True:
        given = found.any(1)
        reads = torch.zeros(len(graph.nodes), dtype=torch.bool)
        reads[readers[found.any(0) & (readers >= 0)]] = True
        reads[0] = True
        whole = given & reads
        left = found & whole[:, None] & (whole[readers.clamp(min=0)] | (readers < 0))
        if torch.equal(left, found):
            return found
        found = left
