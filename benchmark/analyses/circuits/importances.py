"""Importance files as they are written, in the form of MIB's evaluation code (JSON, or the matrices of a .pt)."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.models.components import Graph
from benchmark.models.components.importances import Scores
from benchmark.results.store import write_json


def importances(
    graph: Graph, edges: Scores, nodes: Float[NDArray[np.float64], "S"] | None, width: int
) -> dict[str, Any]:
    """The content of a file: `cfg`, `nodes` and `edges` ("input->a0.h0<q>"), each with its score.

    Args:
        graph: of the model.
        edges: one score per edge.
        nodes: one per node, or None.
        width: of the residual stream.
    """
    real = graph.edges.numpy()
    named = {
        f"{node}->{slot}": {"score": float(edges[s, d]), "in_graph": True}
        for s, node in enumerate(graph.nodes)
        for d, slot in enumerate(graph.slots)
        if real[s, d]
    }
    own = {
        node: {"in_graph": True} | ({} if nodes is None else {"score": float(nodes[s])})
        for s, node in enumerate(graph.nodes)
    }
    cfg = {"n_layers": graph.n_layers, "n_heads": graph.n_heads, "parallel_attn_mlp": False, "d_model": width}
    return {"cfg": cfg, "nodes": own | {graph.slots[-1]: {"in_graph": True}}, "edges": named}


def write_importances(
    path: Path, graph: Graph, edges: Scores, nodes: Float[NDArray[np.float64], "S"] | None = None, width: int = 0
) -> None:
    """Write a JSON file, or the matrices of a .pt, by the path's ending."""
    if path.suffix == ".json":
        write_json(path, importances(graph, edges, nodes, width))
        return
    real = graph.edges
    matrices = {
        "cfg": importances(graph, edges, nodes, width)["cfg"],
        "src_nodes": list(graph.nodes),
        "dst_nodes": list(graph.slots),
        "edges_scores": torch.from_numpy(np.where(real.numpy(), edges, 0.0)),
        "edges_in_graph": real.clone(),
        "nodes_in_graph": torch.ones(len(graph.nodes), dtype=torch.bool),
    }
    torch.save(matrices | ({} if nodes is None else {"nodes_scores": torch.from_numpy(nodes)}), path)
