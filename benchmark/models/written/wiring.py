"""Which edges of the computation graph a written program uses, for inputs that differ in their words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from benchmark.models.components import Graph
from benchmark.models.components.graph import READERS, Reader
from benchmark.models.written.program import MARK, ONE, READ, REST, Head, Program

_FIXED = {ONE, READ, REST, MARK}
"""Features that are the same in every input."""


@dataclass(frozen=True)
class _Part:
    """A node: the features that each of its slots reads, and those that it writes and that hang on words."""

    node: int
    reads: tuple[tuple[int, frozenset[str]], ...]
    writes: frozenset[str]


def wiring(program: Program, graph: Graph) -> Bool[Tensor, "S D"]:
    """True for edges that carry a feature which hangs on the words, and on which the answer hangs.

    A node writes a feature that a slot reads; what is written differs between inputs, since the words do or since what the
    node reads does; and from the slot a way leads to what the answer is read from. Whether it makes a difference for one
    pair of inputs is another question.

    Args:
        program: what is written into the model.
        graph: of the model.
    """
    parts = _parts(program, graph)
    needed = frozenset(program.answer) - _FIXED
    edges = torch.zeros_like(graph.edges)
    _join(edges, len(graph.slots) - 1, needed, parts)
    live = {part.node for part in parts if part.writes & needed}
    for part in reversed(parts):
        if part.node not in live:
            continue
        for slot, features in part.reads:
            before = [other for other in parts if other.node < graph.behind[slot]]
            _join(edges, slot, features, before)
            live |= {other.node for other in before if other.writes & features}
    return edges


def _join(edges: Bool[Tensor, "S D"], slot: int, features: frozenset[str], parts: Sequence[_Part]) -> None:
    for part in parts:
        if part.writes & features:
            edges[part.node, slot] = True


def _parts(program: Program, graph: Graph) -> list[_Part]:
    """The nodes in order."""
    words = frozenset(name for features in program.words.values() for name in features) - _FIXED
    parts, varying = [_Part(0, (), words)], set(words)
    for layer, own in enumerate(program.layers):
        written: list[_Part] = []
        for place, head in enumerate(own.heads):
            reads = tuple(_slots(graph, layer, place, head))
            moves = {to for _, to, _ in head.moves} if any(features & varying for _, features in reads) else set()
            written.append(_Part(graph.heads(layer).start + place, reads, frozenset(moves - _FIXED)))
        parts += written
        varying |= {name for part in written for name in part.writes}
        slot = graph.reading(layer, "feed_forward").start
        active = [neuron for neuron in own.neurons if set(neuron.reads) & varying]
        writes = frozenset(name for neuron in active for name in neuron.writes) - _FIXED
        read = frozenset(name for neuron in active for name in neuron.reads) - _FIXED
        parts.append(_Part(graph.feed_forward(layer), ((slot, read),), writes))
        varying |= writes
    return parts


def _slots(graph: Graph, layer: int, place: int, head: Head) -> Iterator[tuple[int, frozenset[str]]]:
    """What queries, keys and values of a head read."""
    features: dict[Reader, set[str]] = {
        "query": {query for query, _, _ in head.looks},
        "key": {key for _, key, _ in head.looks},
        "value": {source for source, _, _ in head.moves},
    }
    for reader in READERS[:3]:
        yield graph.reading(layer, reader).start + place, frozenset(features[reader] - _FIXED)
