"""Attribution graphs drawn: tokens along the sentence, layers as height, the token that the classifier reads on top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from benchmark.report.cells import NamedCell
from benchmark.report.figures import SCREEN, add_legend, add_text, rendered
from benchmark.report.naming import OURS, Names, method_title
from benchmark.report.run_folders import unreadable
from benchmark.results.graph import AttributionGraph
from benchmark.results.wording import shortened, slug, unique_stems
from benchmark.settings.report_settings import FigureSettings

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN_EXAMPLES = 2
"""How many examples of each method get files of their own."""

ALL_TOKENS = 60
"""Longer inputs show the tokens of the graph alone."""

_TERMINAL = "terminal"
_KINDS = {
    "top": ("#D55E00", "top: most flows into it"),
    "fixed": ("#0072B2", "passes on what others give"),
    "appeared": ("#ffffff", "leaf"),
    _TERMINAL: ("#1a1a1a", "read by the classifier"),
}
"""Fill of a node, and what it stands for."""
_LABEL = 16  # characters of a token that are shown
_TITLE = 160


@dataclass(frozen=True)
class DrawnGraph:
    """A graph of `graphs.json` with what is said of its example; `called`: its method's title, ours where it is empty."""

    method: str
    uid: str
    target: str
    graph: AttributionGraph
    called: str = ""

    @property
    def title(self) -> str:
        """What a figure's head says."""
        return f"{self.called or method_title(self.method)} · {self.uid} · class {self.target}"

    @property
    def note(self) -> str:
        """Size and settings in a line."""
        graph = self.graph
        what = "no token has a positive sum" if graph.top is None else f"{len(graph.nodes)} tokens, depth {graph.depth}"
        return f"{graph.construction}, τ = {graph.threshold:g}: {what}"


def drawn_graphs(cell: NamedCell) -> list[DrawnGraph]:
    """The graphs of a cell; UserError where its `graphs.json` does not have the documented form."""
    try:
        return [
            DrawnGraph(cell.method, str(entry["uid"]), str(entry["target"]), AttributionGraph.from_json(entry["graph"]))
            for entry in cell.graphs
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(cell.stored.folder / "graphs.json", repr(error)) from error


def columns(graph: AttributionGraph) -> list[int]:
    """The tokens that are shown, from left to right."""
    if len(graph.tokens) <= ALL_TOKENS:
        return list(range(len(graph.tokens)))
    return sorted({*graph.nodes, *([] if graph.terminal is None else [graph.terminal])})


def network(graph: AttributionGraph) -> tuple[nx.DiGraph[Any], dict[Any, tuple[float, float]]]:
    """Nodes and edges, drawn the way that information flows: from key to query, and to the terminal; and their places.

    A token stands at its place in the sentence and at the layer in which it is read; the top node one layer below the
    terminal. The terminal is a node of its own, also where it is somebody's key.
    """
    place = {token: float(x) for x, token in enumerate(columns(graph))}
    import networkx as nx

    drawn: nx.DiGraph[Any] = nx.DiGraph()
    position: dict[Any, tuple[float, float]] = {}
    if graph.top is not None:
        drawn.add_node(graph.top, kind="top")
        position[graph.top] = place[graph.top], graph.layers - 1.0
    for edge in graph.edges:
        drawn.add_node(edge.key, kind=graph.states[edge.key])
        position[edge.key] = place[edge.key], float(edge.layer)
        drawn.add_edge(edge.key, edge.query, share=edge.share)
    if graph.terminal is not None:
        drawn.add_node(_TERMINAL, kind=_TERMINAL)
        position[_TERMINAL] = place[graph.terminal], float(graph.layers)
        if graph.top is not None:
            drawn.add_edge(graph.top, _TERMINAL, share=1.0)
    return drawn, position


def draw(shown: DrawnGraph) -> Figure:
    """The figure of one graph: arrows point where information flows, their width is the edge's share of its layer."""
    from matplotlib.figure import Figure

    graph, tokens = shown.graph, columns(shown.graph)
    width = min(24.0, max(4.5, 1.1 + 0.3 * len(tokens)))
    height = min(12.0, 2.6 + 0.42 * graph.layers)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.75 / width, 1.35 / height, 1 - 0.9 / width, 1 - 1.95 / height))
    axes.grid(visible=False)
    _edges_and_nodes(axes, graph)
    axes.set_xlim(-0.7, len(tokens) - 0.3)
    axes.set_ylim(-0.6, graph.layers + 0.5)
    axes.set_xticks(range(len(tokens)))
    labels = axes.set_xticklabels(
        [shortened(graph.tokens[token], _LABEL) for token in tokens], rotation=90, fontsize=7.5
    )
    for token, label in zip(tokens, labels, strict=True):
        label.set_color("#1a1a1a" if token in graph.nodes or token == graph.terminal else "#999999")
    names = [str(layer) for layer in range(graph.layers)]
    names += [] if graph.terminal is None else [shortened(graph.tokens[graph.terminal], _LABEL)]
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    axes.set_ylabel("layer")
    axes.tick_params(length=0)
    add_text(figure, 0.12, 0.1, shortened(shown.title, _TITLE), 9.5)
    add_text(figure, 0.12, 0.32, shown.note, 7.5)
    add_legend(figure, list(_KINDS.values()))
    return figure


def _edges_and_nodes(axes: Axes, graph: AttributionGraph) -> None:
    import networkx as nx

    drawn, position = network(graph)
    for node, (x, y) in position.items():
        if node != _TERMINAL:
            axes.plot([x, x], [-0.6, y], color="#dddddd", linewidth=0.6, zorder=0)
    bent: dict[float, list[tuple[Any, Any, float]]] = {}
    for source, goal, share in drawn.edges(data="share"):
        (x, y), (to_x, to_y) = position[source], position[goal]
        bend = 0.0 if y != to_y else -0.35 if x < to_x else 0.35  # upwards: edges of a layer would hide each other
        bent.setdefault(bend, []).append((source, goal, share))
    for bend, edges in bent.items():
        nx.draw_networkx_edges(
            drawn, position, ax=axes, edgelist=[edge[:2] for edge in edges], edge_color="#555555", arrowsize=8,
            width=[0.4 + 1.4 * min(1.0, edge[2]) for edge in edges], node_size=60, arrows=True, hide_ticks=False,
            connectionstyle=f"arc3,rad={bend}",
        )  # fmt: skip
    kinds = nx.get_node_attributes(drawn, "kind")
    nx.draw_networkx_nodes(
        drawn, position, ax=axes, nodelist=list(kinds), node_size=60, linewidths=0.9, edgecolors="#1a1a1a", hide_ticks=False,
        node_color=[_KINDS[kind][0] for kind in kinds.values()],
    )  # fmt: skip


@lru_cache(maxsize=256)
def pictures(shown: DrawnGraph, settings: FigureSettings = SCREEN) -> dict[str, bytes]:
    """The bytes of a graph's file in each format; equal graphs give equal bytes."""
    return rendered(partial(draw, shown), settings=FigureSettings(format=settings.format))


def graph_files(
    cells: Sequence[NamedCell], names: Names = OURS, settings: FigureSettings = SCREEN
) -> Iterator[tuple[str, bytes]]:
    """File name and content of the first graphs of every method in each format."""
    drawn = [
        replace(shown, called=names.method(shown.method))
        for cell in cells
        for shown in drawn_graphs(cell)[:DRAWN_EXAMPLES]
    ]
    stems = unique_stems(f"graph-{slug(shown.method)}-{slug(shown.uid)}" for shown in drawn)
    for shown, stem in zip(drawn, stems, strict=True):
        yield from ((f"{stem}.{kind}", content) for kind, content in pictures(shown, settings).items())
