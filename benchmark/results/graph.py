"""Attribution graphs: which tokens pass information to which, layer by layer (Hao 2021, "attribution tree").

Plain numpy: no model is needed to build, store, read or draw a graph (docs/protocols.md, section 4).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from benchmark.errors import UserError

Construction = Literal["paper", "script"]
State = Literal["not-appeared", "appeared", "fixed"]

THRESHOLD = 0.4
"""The paper's τ."""

_MOST_LAYERS = 10_000  # a graph that is read has to be drawn


@dataclass(frozen=True)
class Edge:
    """An attention edge of a graph: `query` reads `key` in `layer` (from 0).

    `score` is the edge's own, summed over heads; `share` is it divided by the layer's maximum, what τ is compared with.
    """

    query: int
    key: int
    layer: int
    score: float
    share: float


@dataclass(frozen=True)
class AttributionGraph:
    """The graph of one example; tokens are counted from 0, padding left out.

    Attributes:
        tokens: surface form of each token.
        units: unit of each token, -1 for special tokens.
        construction: `paper` or `script`.
        threshold: τ.
        layers: number L of layers of the model.
        top: the token in which the information of the sentence gathers; None where no token has a positive sum.
        edges: in the order in which they were added. Every token is a key at most once, so they are a tree below `top`.
        states: of each token after the walk: an appeared token is a leaf, a fixed one has children.
        terminal: the token that the classifier reads ([CLS]); None where it reads several.
    """

    tokens: tuple[str, ...]
    units: tuple[int, ...]
    construction: Construction
    threshold: float
    layers: int
    top: int | None
    edges: tuple[Edge, ...]
    states: tuple[State, ...]
    terminal: int | None

    @property
    def terminal_edge(self) -> tuple[int, int, int] | None:
        """(terminal, top, L − 1): the end of the flow, counted neither among `edges` nor by the statistics."""
        if self.top is None or self.terminal is None:
            return None
        return self.terminal, self.top, self.layers - 1

    @property
    def nodes(self) -> tuple[int, ...]:
        """The tokens that appeared, `top` among them."""
        return tuple(i for i, state in enumerate(self.states) if state != "not-appeared")

    @property
    def depth(self) -> int:
        """Edges between `top` and the deepest leaf; 0 where there is none."""
        level = {self.top: 0}
        for edge in self.edges:  # a parent appears before its children
            level[edge.key] = level[edge.query] + 1
        return max(level.values())

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads: plain lists, numbers and strings."""
        facts = asdict(self)
        facts["edges"] = [list(asdict(edge).values()) for edge in self.edges]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "AttributionGraph":
        """The graph that `to_json` wrote; KeyError, TypeError or ValueError where it has another form."""
        lists: dict[str, Any] = {name: tuple(content[name]) for name in ("tokens", "units", "states")}
        if len({len(value) for value in lists.values()}) != 1:
            raise ValueError("tokens, units and states differ in length")
        if not set(lists["states"]) <= set(get_args(State)):
            raise ValueError(f"states: allowed are {', '.join(get_args(State))}")
        others: dict[str, Any] = {
            key: content[key] for key in ("construction", "threshold", "layers", "top", "terminal")
        }
        edges = tuple(
            Edge(int(query), int(key), int(layer), float(score), float(share))
            for query, key, layer, score, share in content["edges"]
        )
        graph = AttributionGraph(**lists, **others, edges=edges)
        graph.check()
        return graph

    def check(self) -> None:
        """ValueError or TypeError where numbers name no token or layer, or the edges are no tree below `top`."""
        if not all(isinstance(token, str) for token in self.tokens):
            raise TypeError("tokens: found something else than texts")
        if self.construction not in get_args(Construction) or not 0 <= self.threshold <= 1:
            raise ValueError("construction or threshold: found an unknown one")
        if isinstance(self.layers, bool) or not isinstance(self.layers, int) or not 0 < self.layers <= _MOST_LAYERS:
            raise ValueError(f"layers: found {self.layers}, allowed are 1 to {_MOST_LAYERS}")
        for name, token in (("top", self.top), ("terminal", self.terminal)):
            if token is not None and token not in range(len(self.tokens)):
                raise ValueError(f"{name}: there is no token {token}")
        reached = {self.top}
        for edge in self.edges:
            if edge.query not in reached or edge.key in reached or edge.key not in range(len(self.tokens)):
                raise ValueError(f"edges: {edge.query} reads {edge.key}, but they are no tree below top")
            if edge.layer not in range(self.layers) or not np.isfinite([edge.score, edge.share]).all():
                raise ValueError(f"edges: {edge} has no such layer, or a score that is not finite")
            reached.add(edge.key)


@dataclass(frozen=True)
class RationaleAgreement:
    """How well a graph's units are the rationale's; all 0 where they share none."""

    recall: float
    precision: float
    f1: float


def check_threshold(threshold: Any, setting: str = "threshold") -> float:
    """τ as a float; UserError naming `setting` unless it lies within [0, 1]."""
    try:
        number = float(threshold)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 <= number <= 1:
        raise UserError(f"{setting}={threshold}: allowed are numbers from 0 to 1")
    return number


def check_construction(construction: str, setting: str = "construction") -> Construction:
    """The construction; UserError naming `setting` where it does not exist."""
    if construction not in get_args(Construction):
        raise UserError(f"{setting}={construction} is unknown; allowed: {', '.join(get_args(Construction))}")
    return cast(Construction, construction)


def layer_shares(scores: Float[NDArray, "L T T"], terminal: int | None) -> Float[NDArray, "L T T"]:
    """`s_l[i,j] = E_l[i,j] / |max_{i ≠ terminal, j} E_l[i,j]|`: what thresholds are compared with.

    The terminal's own row is left out of the maximum, and its shares may exceed 1. A layer without a positive score
    outside that row has no edge: its shares are 0.

    Args:
        scores: edge scores of one example, summed over heads; row i holds the edges of query i.
        terminal: the token that the classifier reads, or None.
    """
    others = scores if terminal is None else np.delete(scores, terminal, axis=1)
    largest = others.max(axis=(1, 2), initial=0.0)[:, None, None]
    shares = np.zeros(scores.shape, dtype=np.float64)
    np.divide(scores, largest, out=shares, where=largest > 0)
    return shares


def top_node(scores: Float[NDArray, "L T T"], terminal: int | None) -> int | None:
    """`argmax_{i ≠ terminal} Σ_{j ≠ i} (Σ_l E_l[i,j])⁺`, the first of equals; None where no sum is positive."""
    total = scores.sum(axis=0).clip(min=0)
    np.fill_diagonal(total, 0.0)
    sums = total.sum(axis=1)
    if terminal is not None:
        sums[terminal] = 0.0
    return int(sums.argmax()) if sums.max(initial=0.0) > 0 else None


def attribution_graph(
    scores: Float[NDArray, "L T T"],
    threshold: float = THRESHOLD,
    *,
    construction: str = "paper",
    terminal: int | None = 0,
    tokens: Sequence[str] | None = None,
    units: Sequence[int] | None = None,
) -> AttributionGraph:
    """The attribution graph of one example.

    With layers counted from 0, `E_l = {(i,j): i ≠ j, layer_shares(l)[i,j] > τ}` and the top node appeared, walk layers
    L − 2, …, 0 and the cells of each in row-major order: where i has appeared and j has not, add (i, j), j appears and
    i is fixed. Updates take effect at once. Layer L − 1 is never walked: the edge terminal → top stands for it.

    - `paper` (Algorithm 1): every appeared token is a query in every layer, the terminal too once it is somebody's key.
    - `script` (the published code): in layer L − 2 only the top node is a query, and the terminal never is one.

    The paper leaves open whose rows a layer's maximum covers and what negative sums do to the choice of the top node;
    both constructions do as the script does: the terminal's row is left out of the maximum and of the choice, and sums
    over layers are clipped at 0. Where a layer's maximum is not positive, none of its edges are kept.

    Args:
        scores: edge scores summed over heads, without padding.
        threshold: τ, from 0 to 1; comparison is strict, so nothing passes τ = 1.
        construction: `paper` or `script`.
        terminal: the token that the classifier reads, or None.
        tokens: surface forms, for people; indices where there are none.
        units: unit of each token, -1 for none; the token's own index where there are none.

    Raises:
        UserError: τ out of range, an unknown construction, or scores that are not finite or not [L, T, T].
    """
    threshold = check_threshold(threshold)
    walked = check_construction(construction)
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 3 or scores.shape[1] != scores.shape[2] or 0 in scores.shape:
        raise UserError(f"edge scores: found the shape {list(scores.shape)}, allowed is [layers, tokens, tokens]")
    if not np.isfinite(scores).all():
        raise UserError("edge scores: found NaN or infinity, allowed are finite numbers")
    n_layers, n_tokens = scores.shape[:2]
    shares = layer_shares(scores, terminal)
    top = top_node(scores, terminal)
    states: list[State] = ["not-appeared"] * n_tokens
    edges: list[Edge] = []
    if top is not None:
        states[top] = "appeared"
        for layer, query, keys in walk(shares > threshold, walked, top, terminal):
            fresh = [j for j in keys if states[j] == "not-appeared"] if states[query] != "not-appeared" else []
            for key in fresh:
                cell = layer, query, key
                edges.append(Edge(query, key, layer, float(scores[cell]), float(shares[cell])))
                states[query], states[key] = "fixed", "appeared"
    return AttributionGraph(
        tokens=tuple(map(str, range(n_tokens) if tokens is None else tokens)),
        units=tuple(range(n_tokens) if units is None else map(int, units)),
        construction=walked,
        threshold=threshold,
        layers=n_layers,
        top=top,
        edges=tuple(edges),
        states=tuple(states),
        terminal=terminal,
    )


def walk(
    above: Bool[NDArray, "L T T"], construction: Construction, top: int, terminal: int | None
) -> Iterable[tuple[int, int, list[int]]]:
    """(layer, query, its keys above τ) in the order of the walk: all cells that a construction may ever add."""
    second = len(above) - 2
    for layer in range(second, -1, -1):
        for query in np.flatnonzero(above[layer].any(axis=1)).tolist():
            if construction == "script" and (query == terminal or (layer == second and query != top)):
                continue
            yield layer, query, [j for j in np.flatnonzero(above[layer, query]).tolist() if j != query]


def agreement(graph: AttributionGraph, rationale: Bool[NDArray, "U"], query_units: int = 0) -> RationaleAgreement:
    """Recall, precision and F1 of the units that have a token among the graph's nodes.

    Args:
        graph: the graph.
        rationale: one boolean per unit of the whole example; units beyond the model's window count as missed.
        query_units: leading units that belong to a query and are left out.
    """
    graph_units = {graph.units[node] for node in graph.nodes if graph.units[node] >= query_units}
    rationale_units = {int(unit) for unit in np.flatnonzero(rationale) if unit >= query_units}
    hits = len(graph_units & rationale_units)
    recall, precision = hits / max(1, len(rationale_units)), hits / max(1, len(graph_units))
    return RationaleAgreement(recall, precision, 2 * hits / max(1, len(rationale_units) + len(graph_units)))
