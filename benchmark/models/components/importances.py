"""Importance files as they are read, in the form of MIB's evaluation code (JSON, or the matrices of a .pt)."""

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.errors import UserError, one_line
from benchmark.models.components.graph import Graph

Scores = Float[NDArray[np.float64], "S D"]


def read_importances(path: Path, graph: Graph) -> tuple[Scores, Float[NDArray[np.float64], "S"] | None]:
    """Scores of edges, and of nodes where the file has them, in the order of a graph.

    Raises:
        UserError: the file is no importance file, of another model, or a score is no finite number.
    """
    try:
        content = torch.load(path, weights_only=True) if path.suffix == ".pt" else json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise UserError(f"{path} is no importance file that can be read: {one_line(error)}") from error
    if not isinstance(content, Mapping):
        raise UserError(
            f"{path} is no importance file: it holds a {type(content).__name__}, and not cfg, nodes and edges"
        )
    edges, nodes = _of_matrices(content, graph, path) if path.suffix == ".pt" else _of_names(content, graph, path)
    if not np.isfinite(edges).all() or (nodes is not None and not np.isfinite(nodes).all()):
        raise UserError(f"{path} has a score that is not finite")
    return edges, nodes


def _of_names(
    content: Mapping[str, Any], graph: Graph, path: Path
) -> tuple[Scores, Float[NDArray[np.float64], "S"] | None]:
    edges, nodes = content.get("edges"), content.get("nodes", {})
    if not isinstance(edges, Mapping) or not isinstance(nodes, Mapping):
        raise UserError(f"{path} has no 'edges'; an importance file has cfg, nodes and edges, each by name")
    wanted = {
        f"{node}->{slot}": (s, d)
        for s, node in enumerate(graph.nodes)
        for d, slot in enumerate(graph.slots)
        if graph.edges[s, d]
    }
    if other := set(edges) ^ set(wanted):
        told = "has no score of" if min(other) in wanted else "has a score of"
        raise UserError(
            f"{path} {told} the edge {min(other)}: it is of another model ({len(edges)} edges, not {len(wanted)})"
        )
    found = np.zeros(graph.edges.shape)
    for name, place in wanted.items():
        found[place] = _number(edges[name], name, path)
    scored = all(isinstance(nodes.get(node), Mapping) and "score" in nodes[node] for node in graph.nodes)
    return found, np.array([_number(nodes[node], node, path) for node in graph.nodes]) if scored else None


def _number(entry: Any, name: str, path: Path) -> float:
    try:
        return float(entry["score"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} has no score of {name}") from error


def _of_matrices(
    content: Mapping[str, Any], graph: Graph, path: Path
) -> tuple[Scores, Float[NDArray[np.float64], "S"] | None]:
    scores, nodes = content.get("edges_scores"), content.get("nodes_scores")
    if not isinstance(scores, torch.Tensor) or scores.shape != graph.edges.shape:
        shape = list(scores.shape) if isinstance(scores, torch.Tensor) else "none"
        raise UserError(f"{path} has edges_scores of shape {shape}; the model has {list(graph.edges.shape)}")
    for name, expected in (("src_nodes", graph.nodes), ("dst_nodes", graph.slots)):
        if name in content and list(content[name]) != list(expected):
            raise UserError(f"{path} is of another model: its {name} are others")
    if not isinstance(nodes, torch.Tensor) or nodes.shape != (len(graph.nodes),):
        return scores.double().numpy(), None
    return scores.double().numpy(), nodes.double().numpy()
