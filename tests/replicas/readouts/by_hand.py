"""Random edge scores, and readouts of them one cell at a time (docs/protocols.md, section 3)."""

import networkx
import numpy as np
import torch

B, L, H, T = 2, 3, 4, 5


def random_edges(n_layers=L, n_heads=H, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(B, n_heads, T, T, generator=generator, dtype=torch.float64) for _ in range(n_layers))


def one_hot(position):
    return torch.nn.functional.one_hot(torch.full((B,), position), T).double()


def mean_over_heads(edges, b, layer, i, j):
    return sum(float(edges[layer][b, h, i, j]) for h in range(H)) / H


def by_token(score):
    return torch.tensor([[score(b, j) for j in range(T)] for b in range(B)], dtype=torch.float64)


def flow_by_hand(edges, read):
    """networkx on the graph of the paper: node (l, i) is token i's state after layer l, (0, j) the input token j.

    `edges` [L T T] are means over heads, `read` [T]. A source that reads several tokens takes the place of the last row.
    """
    n_layers, n_tokens = edges.shape[:2]
    graph = networkx.DiGraph()
    rows = {}
    for layer, i in np.ndindex(n_layers, n_tokens):
        row = [max(float(edges[layer, i, j]), 0.0) + (i == j) for j in range(n_tokens)]
        rows[layer, i] = [cell / sum(row) for cell in row]
    for layer, i in np.ndindex(n_layers, n_tokens):
        for j in range(n_tokens):
            if layer < n_layers - 1:
                graph.add_edge((layer + 1, i), (layer, j), capacity=rows[layer, i][j])
    for j in range(n_tokens):
        capacity = sum(float(read[i]) * rows[n_layers - 1, i][j] for i in range(n_tokens))
        graph.add_edge("read", (n_layers - 1, j), capacity=capacity)
    return torch.tensor(
        [networkx.maximum_flow_value(graph, "read", (0, j)) for j in range(n_tokens)], dtype=torch.float64
    )


def generic_by_hand(edges):
    """The whole matrix R of one example; `edges` [L H T T]."""
    n_tokens = edges.shape[-1]
    relevance = [[float(i == j) for j in range(n_tokens)] for i in range(n_tokens)]
    for layer in edges:
        mean = [[sum(max(float(head[i, j]), 0.0) for head in layer) / len(layer) for j in range(n_tokens)]
                for i in range(n_tokens)]  # fmt: skip
        added = [[sum(mean[i][k] * relevance[k][j] for k in range(n_tokens)) for j in range(n_tokens)]
                 for i in range(n_tokens)]  # fmt: skip
        relevance = [[relevance[i][j] + added[i][j] for j in range(n_tokens)] for i in range(n_tokens)]
    return torch.tensor(relevance, dtype=torch.float64)
