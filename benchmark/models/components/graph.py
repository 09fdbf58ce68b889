"""The computation graph of a transformer: what writes to the residual stream, and what reads it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Reader = Literal["query", "key", "value", "feed_forward"]
"""What reads the stream within a block."""

READERS: tuple[Reader, ...] = get_args(Reader)
_LETTERS = {"query": "q", "key": "k", "value": "v"}
INPUT, LOGITS = "input", "logits"


@dataclass(frozen=True)
class Graph:
    """Nodes write to the residual stream, slots read it, and an edge joins each node with every slot behind it.

    Nodes, in their order: `input`, what the first block reads; then for each layer l its heads `a{l}.h{h}`, after the
    output projection and without its bias; and its feed-forward network `m{l}`. Slots: for each layer the queries, then the
    keys, then the values of its heads, `a{l}.h{h}<q>`, and `m{l}`; at the end `logits`. Heads of one layer do not see each
    other; a feed-forward network sees the heads of its layer. The names are those of MIB's importance files.

    S nodes and D slots: `S = 1 + L (H + 1)`, `D = L (3 H + 1) + 1`, and
    `Σ_l [3 H (1 + l (H + 1)) + 1 + l (H + 1) + H] + S` edges: 32,491 in GPT-2 small.

    Attributes:
        n_layers, n_heads: of the model; keys and values that several heads share count for each of them.
    """

    n_layers: int
    n_heads: int

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Names of the S nodes."""
        layers = range(self.n_layers)
        return (INPUT, *(name for layer in layers for name in (*self._heads(layer), f"m{layer}")))

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of the D slots."""
        names = [
            name
            for layer in range(self.n_layers)
            for name in (
                *(f"{head}<{letter}>" for letter in _LETTERS.values() for head in self._heads(layer)),
                f"m{layer}",
            )
        ]
        return (*names, LOGITS)

    def _heads(self, layer: int) -> list[str]:
        return [f"a{layer}.h{head}" for head in range(self.n_heads)]

    def heads(self, layer: int) -> slice:
        """Which nodes are the heads of a layer."""
        start = 1 + layer * (self.n_heads + 1)
        return slice(start, start + self.n_heads)

    def scores_of_heads(self, nodes: Float[Tensor, "*B S"]) -> Float[Tensor, "*B L H"]:
        """The scores of the nodes that are heads, by layer and head."""
        return torch.stack([nodes[..., self.heads(layer)] for layer in range(self.n_layers)], dim=-2)

    def feed_forward(self, layer: int) -> int:
        """Which node is the feed-forward network of a layer."""
        return (layer + 1) * (self.n_heads + 1)

    def reading(self, layer: int, reader: Reader) -> slice:
        """Which slots of a layer are its queries, keys or values, one for each head, or its feed-forward network."""
        start = layer * (3 * self.n_heads + 1) + READERS.index(reader) * self.n_heads
        return slice(start, start + (1 if reader == "feed_forward" else self.n_heads))

    @cached_property
    def behind(self) -> tuple[int, ...]:
        """By slot how many nodes stand before it: these are the ones that it reads."""
        counts: list[int] = []
        for layer in range(self.n_layers):
            counts += [self.heads(layer).start] * (3 * self.n_heads) + [self.heads(layer).stop]
        return (*counts, len(self.nodes))

    @cached_property
    def reader_of(self) -> tuple[int, ...]:
        """By slot the node that it is part of; −1 of the logits."""
        found: list[int] = []
        for layer in range(self.n_layers):
            heads = self.heads(layer)
            found += [*range(heads.start, heads.stop)] * 3 + [self.feed_forward(layer)]
        return (*found, -1)

    @cached_property
    def edges(self) -> Bool[Tensor, "S D"]:
        """True where a node and a slot are joined."""
        return torch.arange(len(self.nodes))[:, None] < torch.tensor(self.behind)

    def __repr__(self) -> str:
        return f"Graph({self.n_layers} layers of {self.n_heads} heads, {int(self.edges.sum()):,} edges)"
