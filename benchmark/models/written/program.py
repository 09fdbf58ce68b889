"""What is written into a transformer: words with features, heads that look and move, neurons, and what the answer reads.

A *feature* is a number at each position, held apart from all others in the residual stream. Weights that are made of a
program (`benchmark.models.written.families`) do exactly what it says, up to 10⁻⁶.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

READ, REST, MARK = "read", "rest", "mark"
"""Features of tokens that stand in every input: that which the answer is read from, that on which a head rests which finds
nothing, and the last word, "?"."""

ONE = "one"
"""The feature that is 1 everywhere."""

RESTING = 30.0
"""Score of the token on which heads rest; of what a head does not look for it is 0, so that e⁻³⁰ of attention is left."""

AWAY = 1e4
"""Weight with which a head that looks back rests all the same."""

Features = Mapping[str, float]


@dataclass(frozen=True)
class Head:
    """A head: at each position it looks for something, and moves features from there.

    The score of query i and key j is the sum of `weight · f_i · g_j` over what it `looks` for, plus `RESTING · rest_j`, so
    that a position that looks for nothing attends to the token with the feature `rest` and to no other; but a head that
    `back` is given for looks, whatever the words, at the position so many places before its own.

    Attributes:
        looks: (feature f of the query, feature g of the key, weight). `share_to_weight` gives the weight for a share of the
            attention.
        moves: (feature that is read where it looks, feature that is written where it stands, gain).
        rests: whether it rests; without, it attends to all positions alike where it finds nothing.
        back: how many places before its own it looks; None for a head that looks for features.
    """

    looks: tuple[tuple[str, str, float], ...] = ()
    moves: tuple[tuple[str, str, float], ...] = ()
    rests: bool = True
    back: int | None = None


@dataclass(frozen=True)
class Neuron:
    """A neuron of the feed-forward network: `Σ writes · max(0, Σ reads)`, at each position.

    Attributes:
        reads: weight of each feature; that of `one` is the bias.
        writes: what a unit of activation adds to each feature.
    """

    reads: Features
    writes: Features


@dataclass(frozen=True)
class Layer:
    """A layer: heads, then neurons."""

    heads: tuple[Head, ...]
    neurons: tuple[Neuron, ...] = ()


@dataclass(frozen=True)
class Program:
    """A whole model.

    Attributes:
        words: features of each word. One that begins with "##" is a piece: a text's word that is none of these is cut into
            the longest that it is made of.
        layers: from below; all have as many heads (`Program.heads`), idle ones where a layer names fewer.
        answer: weight of each feature, where the answer is read; their sum is the logit of `yes` less that of `no`.
        labels: what the two classes are called; a language model has them as words.
        length: words of an input before the last one, "?", where a head looks `back` from where the answer is read.
    """

    words: Mapping[str, Features]
    layers: tuple[Layer, ...]
    answer: Features
    labels: tuple[str, str] = ("no", "yes")
    length: int = 6

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        return max(len(layer.heads) for layer in self.layers)

    @property
    def neurons(self) -> int:
        """Neurons of a layer."""
        return max(1, *(len(layer.neurons) for layer in self.layers))

    @property
    def looks_back(self) -> bool:
        """Whether a head knows positions, so that all inputs have to be of one length."""
        return any(head.back is not None for layer in self.layers for head in layer.heads)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """All features but `one`, those of every input first."""
        found = dict.fromkeys((READ, REST, MARK))
        found |= dict.fromkeys(name for name in self._named() if name != ONE)
        return tuple(found)

    def _named(self) -> Iterator[str]:
        yield from _names(self.words.values())
        for layer in self.layers:
            for head in layer.heads:
                for query, key, _ in head.looks:
                    yield from (query, key)
                for source, to, _ in head.moves:
                    yield from (source, to)
            yield from _names(part for neuron in layer.neurons for part in (neuron.reads, neuron.writes))
        yield from self.answer


def _names(parts: Iterable[Features]) -> Iterator[str]:
    for part in parts:
        yield from part
