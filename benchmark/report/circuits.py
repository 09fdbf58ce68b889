"""Circuits drawn: layers upwards, heads and feed-forward networks as marks, edges by weight; and as GraphML and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from benchmark.report.figures import INCHES, SCREEN, add_text
from benchmark.results.tables import Drawing, Table
from benchmark.results.wording import shortened
from benchmark.settings.report_settings import FigureSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAME = re.compile(r"a(\d+)\.h(\d+)(?:<([qkv])>)?|m(\d+)|input|logits")
_READERS: dict[str, Literal[":", "--", "-"]] = {"q": ":", "k": "--", "v": "-", "": "-"}
"""How an edge to queries, keys, values, or to no head is drawn."""

_TOLD = {"q": "to queries", "k": "to keys", "v": "to values, or to no head"}
SPEAKS, AGAINST = "#0072B2", "#D55E00"
_TITLE = 110
_POINTS = 8.0


@dataclass(frozen=True)
class Edge:
    """An edge of a drawn circuit: from a node to another one, of a head to its queries, keys or values ("q", "k", "v")."""

    source: str
    goal: str
    reader: str
    value: float
    low: float
    high: float

    @property
    def told(self) -> str:
        """The edge in words."""
        reader = {"q": " (queries)", "k": " (keys)", "v": " (values)"}.get(self.reader, "")
        return f"{self.source} → {self.goal}{reader}: {self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class Circuit:
    """What is drawn of a table.

    Attributes:
        edges: those of the table, the weakest first, so that strong ones lie above.
        places: of each node, across in heads and upwards in sublayers.
    """

    edges: tuple[Edge, ...]
    places: dict[str, tuple[float, float]]

    @staticmethod
    def of(table: Table, drawing: Drawing) -> Circuit:
        """The circuit of a table; edges whose names are not those of a computation graph are left out."""
        rows = table.rows[table.rows["metric"] == drawing.y[0]].dropna(subset=["value"])
        edges = [edge for row in rows.to_dict("records") if (edge := _edge(row, drawing)) is not None]
        ordered = tuple(sorted(edges, key=lambda edge: abs(edge.value)))
        return Circuit(ordered, _places({name for edge in ordered for name in (edge.source, edge.goal)}))

    @property
    def strongest(self) -> float:
        """The largest magnitude of a score."""
        return max((abs(edge.value) for edge in self.edges), default=1.0) or 1.0

    @property
    def height(self) -> float:
        """Of the topmost node."""
        return max((y for _, y in self.places.values()), default=1.0)

    @property
    def span(self) -> tuple[float, float]:
        """From the leftmost node to the rightmost."""
        across = [x for x, _ in self.places.values()] or [0.0]
        return min(across), max(across)


def _edge(row: dict[Any, Any], drawing: Drawing) -> Edge | None:
    source, slot = str(row[drawing.x]), str(row[drawing.series])
    reader = match.group(3) or "" if (match := _NAME.fullmatch(slot)) else None
    if reader is None or not _NAME.fullmatch(source):
        return None
    goal = slot.partition("<")[0]
    return Edge(source, goal, reader, float(row["value"]), float(row["low"]), float(row["high"]))


def _places(names: set[str]) -> dict[str, tuple[float, float]]:
    """Heads side by side, feed-forward networks above them on the right, the input below and the logits above all."""
    found = {name: _NAME.fullmatch(name) for name in names}
    heads = {name: (int(m.group(1)), int(m.group(2))) for name, m in found.items() if m is not None and m.group(1)}
    networks = {name: int(m.group(4)) for name, m in found.items() if m is not None and m.group(4)}
    most = max((head for _, head in heads.values()), default=0)
    layers = 1 + max([layer for layer, _ in heads.values()] + [*networks.values()], default=0)
    places = {name: (float(head), 1.0 + 2 * layer) for name, (layer, head) in heads.items()}
    places |= {name: (most + 1.0, 2.0 + 2 * layer) for name, layer in networks.items()}
    ends = {"input": 0.0, "logits": 1.0 + 2 * layers}
    return places | {name: ((most + 1) / 2, height) for name, height in ends.items() if name in names}


def circuit_figure(table: Table, drawing: Drawing, title: str, settings: FigureSettings = SCREEN) -> Figure:
    """The figure of a circuit: blue edges speak for the answer, orange ones against it, the wider the more."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    circuit = Circuit.of(table, drawing)
    low, high = circuit.span
    wanted = max(4.5, 1.6 + 0.75 * (high - low + 1))
    width = wanted if settings.width == "screen" else INCHES[settings.width]
    height = min(9.0, 1.5 + 0.55 * circuit.height)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.1 / width, 0.55 / height, 1 - 0.2 / width, 1 - 1.0 / height))
    axes.grid(visible=False)
    axes.set_axis_off()
    _draw(axes, circuit)
    axes.set_xlim(low - 0.8, high + 0.8)
    axes.set_ylim(-0.6, circuit.height + 0.6)
    if settings.title:
        add_text(figure, 0.12, 0.1, shortened(title, _TITLE), 9.5)
    lines = [Line2D([], [], color="#555555", linestyle=_READERS[name], label=told) for name, told in _TOLD.items()]
    lines += [Line2D([], [], color=colour, label=told) for colour, told in ((SPEAKS, "for"), (AGAINST, "against"))]
    figure.legend(handles=lines, loc="lower center", ncols=3, fontsize=7.5, frameon=False)
    return figure


def _draw(axes: Axes, circuit: Circuit) -> None:
    for edge in circuit.edges:
        start, end = circuit.places[edge.source], circuit.places[edge.goal]
        share = abs(edge.value) / circuit.strongest
        axes.annotate(
            "", xy=end, xytext=start, zorder=1,
            arrowprops={
                "arrowstyle": "-", "color": SPEAKS if edge.value > 0 else AGAINST, "linewidth": 0.4 + 2.6 * share,
                "linestyle": _READERS[edge.reader], "alpha": 0.35 + 0.6 * share, "shrinkA": 0, "shrinkB": 0,
                "connectionstyle": f"arc3,rad={_BENDS[edge.reader]}",
            },
        )  # fmt: skip
    for name, (x, y) in circuit.places.items():
        axes.text(
            x, y, name, ha="center", va="center", fontsize=_POINTS, zorder=2,
            bbox={"boxstyle": "square" if name.startswith("m") else "round", "facecolor": "white", "edgecolor": "#1a1a1a"},
        )  # fmt: skip


_BENDS = {"q": 0.12, "k": -0.12, "v": 0.0, "": 0.0}
"""Edges between the same two nodes lie beside each other."""


def circuit_files(table: Table, drawing: Drawing, stem: str) -> Iterator[tuple[str, bytes]]:
    """The circuit as GraphML and as JSON: nodes, and edges with their scores and intervals."""
    import networkx as nx

    circuit = Circuit.of(table, drawing)
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for name, (x, y) in circuit.places.items():
        graph.add_node(name, x=x, y=y)
    for edge in circuit.edges:
        graph.add_edge(edge.source, edge.goal, reader=edge.reader, score=edge.value, low=edge.low, high=edge.high)
    written = BytesIO()
    nx.write_graphml(graph, written)
    yield f"{stem}.graphml", written.getvalue()
    told = {
        "nodes": list(circuit.places),
        "edges": [
            {"from": e.source, "to": e.goal, "reader": e.reader or None, "score": e.value, "low": e.low, "high": e.high}
            for e in reversed(circuit.edges)
        ],
    }
    yield f"{stem}.json", json.dumps(_finite(told), indent=1).encode()


def _finite(value: Any) -> Any:
    """The same with None in the place of NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and pd.isna(value) else value


def drawn(table: Table, drawing: Drawing) -> dict[str, Any]:
    """What a page draws: the nodes with their places, and the edges in words, with their widths."""
    circuit = Circuit.of(table, drawing)
    order = list(circuit.places)
    return {
        "kind": "circuit",
        "panels": [
            {
                "title": table.title,
                "nodes": [[name, *circuit.places[name]] for name in order],
                "edges": [
                    [
                        order.index(edge.source), order.index(edge.goal), edge.reader,
                        round(abs(edge.value) / circuit.strongest, 4), edge.value > 0, edge.told,
                    ]
                    for edge in circuit.edges
                ],
            }
        ],
    }  # fmt: skip
