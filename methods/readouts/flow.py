"""Attention flow from the read token to each token of the input (Abnar & Zuidema 2020; docs/protocols.md, section 3)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from benchmark.errors import UserError
from benchmark.settings.declared import Count, configurable
from methods.readouts.base import LayerwiseReadout
from methods.shared.properties import FOLLOWS_PLACES

UNIT = 1 << 30
"""Integers that stand for a capacity of 1; what leaves the source sums to 1, which a 32-bit integer holds."""


@configurable
class Flow(LayerwiseReadout):
    """Maximum flow through the layered graph whose edge (l, i) → (l−1, j) has capacity `Â_l[i,j]`.

    s_j is the exact maximum flow from the read token above the last layer to input token j, with
    `Â_l = I + (mean_h E_l)⁺`, rows normalised to 1; for attention that is (I + mean_h A_l)/2. The source reads one token.
    Where the classifier reads several, their last rows merge into `Σ_i read_i Â_L[i,j]`: the flow through a single layer is
    then the read row itself, as it is for one token. The published code divides the flows of a text by their sum, which
    changes no ranking within a text; here they stay flows.

    The algorithm takes integers: capacities are rounded to multiples of 2⁻³⁰. That moves a flow by at most 2⁻³¹ for each
    edge of a minimum cut. A cut has at most L T² edges (T where it is the read row or the token's column).

    Attributes:
        max_tokens: a text of more tokens, special ones included, is refused. With an encoder and a decoder the tokens of
            both count.

    Source: Abnar & Zuidema 2020, section 3.
    Cost: no pass (T maximum flows in a graph of L T² edges).

    Time grows with L T³ or faster: on one core an example takes about 0.1 s for 64 tokens and 6 layers, 1.3 s for 128
    tokens and 12 layers, 4 s for 256 tokens and 6 layers. It runs on the CPU, one example after the other.
    """

    max_tokens: Count = 256
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = FOLLOWS_PLACES

    def reduce(self, edges: Float[Tensor, "B H T T"], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T T"]:
        """The layer's capacities, but for the identity and the normalisation."""
        return edges.mean(1).clamp(min=0)

    def combine(self, layers: Sequence[Tensor], read: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Token scores in [0, 1]; 0 at tokens without any edge (padding).

        Raises:
            UserError: a text has more tokens than `max_tokens`.
        """
        stacked = torch.stack(list(layers), dim=1).double()
        present = (stacked.sum((1, 2)) + stacked.sum((1, 3)) > 0) | (read > 0)
        longest = int(present.sum(1).max())
        if longest > self.max_tokens:
            raise UserError(
                f"readout.max_tokens={self.max_tokens} is too small: a text has {longest} tokens. Raise it (time grows "
                "with the third power) or shorten the texts"
            )
        scores = torch.zeros(read.shape, dtype=torch.float64)
        for row, tokens in enumerate(present.cpu()):
            capacities = stacked[row].cpu()[:, tokens][:, :, tokens].numpy()
            scores[row, tokens] = torch.from_numpy(flows(capacities, read[row].cpu()[tokens].double().numpy()))
        return scores.to(read)


def flows(edges: NDArray[np.float64], read: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flow into each of the T tokens of one example; `edges` [L T T] and `read` [T] are 0 or more."""
    n_layers, n_tokens = edges.shape[:2]
    mixing = edges + np.eye(n_tokens)
    mixing /= mixing.sum(-1, keepdims=True)
    first: NDArray[np.float64] = read @ mixing[-1]
    if n_layers == 1:
        return first
    graph = _graph(first, mixing[-2::-1])
    sinks = range(graph.shape[0] - n_tokens, graph.shape[0])
    return np.array([maximum_flow(graph, 0, sink).flow_value for sink in sinks]) / UNIT


def _graph(first: NDArray[np.float64], mixing: NDArray[np.float64]) -> csr_matrix:
    """Node 0 is the source, then come T nodes for the input of each layer, from the last layer down to the first."""
    n_tokens = len(first)
    queries, keys = (index.ravel() for index in np.indices((n_tokens, n_tokens)))
    starts = [np.zeros(n_tokens, dtype=np.int64)]
    ends = [1 + np.arange(n_tokens)]
    for depth in range(len(mixing)):
        starts.append(1 + depth * n_tokens + queries)
        ends.append(1 + (depth + 1) * n_tokens + keys)
    capacities = np.rint(np.concatenate([first, mixing.ravel()]) * UNIT).astype(np.int32)
    nodes = 1 + (len(mixing) + 1) * n_tokens
    graph = csr_matrix((capacities, (np.concatenate(starts), np.concatenate(ends))), shape=(nodes, nodes))
    graph.eliminate_zeros()
    return graph
