"""What is known of an input of a written model, as tensors, and the brute force that it is held to.

Notation: B inputs, T tokens, U words, L layers, H heads. F is the logit of the answer less that of the other class.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import factorial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.models.attention_interface import PruneHeads
from benchmark.models.classifier import Classifier
from benchmark.models.edits import KeepEdges
from benchmark.models.removal import OPERATORS, logits_without
from benchmark.models.written.mechanism import READER
from benchmark.targets import picked
from benchmark.types import Batch

HEADS, EDGES, AGAINST = "heads", "edges", "against"
"""What `Batch.meta` of a mechanism's input holds: heads that take part, edges that carry something, and words that speak for
the other answer."""

NOTHING, SOMETHING = 1e-5, 0.1
"""Of F, below which a part changes nothing, and above which it counts."""


def known_heads(model: Classifier, batch: Batch) -> Bool[Tensor, "B L H"]:
    """The heads that take part; NotApplicable where the task does not know them."""
    found = torch.zeros(len(batch), model.n_layers, model.n_heads, dtype=torch.bool)
    for b, meta in enumerate(batch.meta):
        for layer, head in _told(meta, HEADS):
            found[b, layer, head] = True
    return found


def known_edges(model: Classifier, batch: Batch) -> Bool[Tensor, "B L T T"]:
    """The attention edges that carry something, query by key; NotApplicable likewise."""
    width = batch.units.shape[1]
    found = torch.zeros(len(batch), model.n_layers, width, width, dtype=torch.bool)
    read = model.read_weights(batch).argmax(1).tolist()
    for b, meta in enumerate(batch.meta):
        units = batch.units[b].tolist()

        def token(place: Any, b: int = b, units: list[int] = units) -> int:
            if place == READER:
                return int(read[b])
            word, piece = place if isinstance(place, tuple | list) else (place, 0)
            tokens = [t for t, unit in enumerate(units) if unit == word]
            if piece >= len(tokens):
                raise UserError(
                    f"example '{batch.uids[b]}' has no token {place!r}, which an edge of its mechanism names"
                )
            return tokens[piece]

        for layer, query, key in _told(meta, EDGES):
            found[b, layer, token(query), token(key)] = True
    return found


def _told(meta: Any, name: str) -> Any:
    if name not in meta:
        raise NotApplicable("the task does not know which heads and edges cause an answer (task=mechanism does)")
    return meta[name]


def shapley(model: Classifier, batch: Batch) -> list[Float[NDArray, "U"]]:
    """Exact Shapley values of F of each input's rated words, NaN of the others; a word that is absent is blank.

    Cost: 2^U forward passes.
    """
    return [_shapley(values, words, len(batch.words[b])) for b, values, words in _games(model, batch)]


def _games(model: Classifier, batch: Batch) -> Iterator[tuple[int, dict[frozenset[int], float], list[int]]]:
    """F of every set of rated words that are left, of each input."""
    operator = OPERATORS["pad" if "input_ids" in batch.tensors else "black"]()
    for b in range(len(batch)):
        words = np.flatnonzero(batch.rated_units(b)).tolist()
        kept = list(product((True, False), repeat=len(words)))
        removed = torch.zeros(len(kept), 1, len(batch.words[b]), dtype=torch.bool, device=batch.units.device)
        removed[:, 0, words] = ~torch.tensor(kept, device=batch.units.device)
        one = batch.select([b])
        values = answer(logits_without(model, one, removed, operator), one)[:, 0].tolist()
        sets = [frozenset(word for word, stays in zip(words, row, strict=True) if stays) for row in kept]
        yield b, dict(zip(sets, values, strict=True)), words


def _shapley(values: dict[frozenset[int], float], words: list[int], count: int) -> Float[NDArray, "U"]:
    n = len(words)
    scores = np.full(count, np.nan)
    for word in words:
        scores[word] = sum(
            factorial(len(left)) * factorial(n - len(left) - 1) / factorial(n) * (values[left | {word}] - value)
            for left, value in values.items()
            if word not in left
        )
    return scores


def answer(logits: Float[Tensor, "*n B 2"], batch: Batch) -> Float[Tensor, "*n B"]:
    """F."""
    return picked(logits, batch.label) - picked(logits, 1 - batch.label)


@dataclass(frozen=True)
class Effects:
    """By how much the parts of one input change F, found by brute force.

    Attributes:
        shapley: of each word; NaN of words that are not rated.
        words: largest change without the word, whichever other words are there; NaN likewise.
        heads: (layer, head) and the largest change where the head carries nothing, with all words there or without one of
            those that count (of two that are each enough, one has to go before the other's edge can matter).
        edges: (layer, query, key) and the same of an attention edge that is cut in all heads.
    """

    shapley: Float[NDArray, "U"]
    words: Float[NDArray, "U"]
    heads: dict[tuple[int, ...], float]
    edges: dict[tuple[int, ...], float]


def effects(model: Classifier, batch: Batch) -> Iterator[Effects]:
    """Of each input, whichever model it is. Cost: 2^U forward passes, and one for each head, edge and word that counts."""
    for b, game, words in _games(model, batch):
        count = len(batch.words[b])
        moves = np.full(count, np.nan)
        for word in words:
            moves[word] = max(abs(game[left | {word}] - value) for left, value in game.items() if word not in left)
        contexts = [frozenset[int](), *(frozenset({word}) for word in sorted(_counting(batch, b)))]
        heads, edges = (dict(_largest(model, batch, b, contexts, cuts)) for cuts in (_each_head, _each_edge))
        yield Effects(_shapley(game, words, count), moves, heads, edges)


def _counting(batch: Batch, b: int) -> set[int]:
    """Words that speak for the answer, or against it."""
    return _speaking(batch, b) | set(batch.meta[b].get(AGAINST, ()))


def _speaking(batch: Batch, b: int) -> set[int]:
    rationale = batch.rationale[b]
    return set(np.flatnonzero(rationale).tolist()) if rationale is not None else set()


@dataclass(frozen=True)
class Proof:
    """What brute force finds of some inputs.

    Attributes:
        flaws: each difference from what is said, in a sentence; empty where there is none.
        shapley: of each input's words.
    """

    flaws: tuple[str, ...]
    shapley: tuple[Float[NDArray, "U"], ...]


def proof(model: Classifier, batch: Batch) -> Proof:
    """Holds what is said of inputs to brute force: every set of words, and every head and edge cut by itself.

    A part counts where `effects` is at least 0.1, and does not where it is below 10⁻⁵.
    """
    flaws: list[str] = []
    values = []
    heads, edges = known_heads(model, batch), known_edges(model, batch)
    wrong = answer(model.run(batch).logits, batch) <= 0
    flaws += [f"{batch.uids[b]}: the model does not answer so" for b in wrong.nonzero().flatten().tolist()]
    for b, found in enumerate(effects(model, batch)):
        name, scores = batch.uids[b], found.shapley
        speaks, counting = _speaking(batch, b), _counting(batch, b)
        against = counting - speaks
        values.append(scores)
        for word in np.flatnonzero(~np.isnan(scores)).tolist():
            flaws += _said(f"{name}: the word '{batch.words[b][word]}'", found.words[word], counts=word in counting)
            if (word in speaks and not scores[word] > 0) or (word in against and not scores[word] < 0):
                flaws.append(f"{name}: '{batch.words[b][word]}' has the Shapley value {scores[word]:.3g}")
        for (layer, head), moves in found.heads.items():
            flaws += _said(f"{name}: head {layer}.{head}", moves, counts=bool(heads[b, layer, head]))
        for (layer, query, key), moves in found.edges.items():
            counts = bool(edges[b, layer, query, key])
            flaws += _said(f"{name}: the edge {query} → {key} of layer {layer}", moves, counts=counts)
    return Proof(tuple(flaws), tuple(values))


def _said(what: str, moves: float, *, counts: bool) -> list[str]:
    if counts and moves < SOMETHING:
        return [f"{what} changes the answer by {moves:.1e}, and is said to count"]
    return [f"{what} changes the answer by {moves:.1e}, and is not said to"] if not counts and moves > NOTHING else []


Places = list[tuple[int, ...]]
Cuts = Callable[[Classifier, Batch], tuple[Places, Callable[[Places], dict[str, Any]]]]
"""Of one input: what can be cut, and the arguments of a pass in whose row k the k-th of some of them is."""


def _each_head(model: Classifier, one: Batch) -> tuple[Places, Callable[[Places], dict[str, Any]]]:
    places: Places = list(product(range(model.n_layers), range(model.n_heads)))

    def cut(some: Places) -> dict[str, Any]:
        kept = torch.ones(len(some), model.n_layers, model.n_heads, dtype=torch.bool)
        for row, (layer, head) in enumerate(some):
            kept[row, layer, head] = False
        return {"value_edits": [PruneHeads(kept.to(one.units.device))]}

    return places, cut


def _each_edge(model: Classifier, one: Batch) -> tuple[Places, Callable[[Places], dict[str, Any]]]:
    width = one.units.shape[1]
    seen = one.cells[0] & (torch.ones(width, width).tril().bool() if model.family.read == "last" else True)
    places: Places = [(layer, *pair) for layer in range(model.n_layers) for pair in seen.nonzero().tolist()]

    def cut(some: Places) -> dict[str, Any]:
        kept = torch.ones(len(some), model.n_layers, width, width, dtype=torch.bool)
        for row, (layer, query, key) in enumerate(some):
            kept[row, layer, query, key] = False
        return {"edits": [KeepEdges(kept.to(one.units.device))]}

    return places, cut


def _largest(
    model: Classifier, batch: Batch, b: int, contexts: list[frozenset[int]], cuts: Cuts
) -> Iterator[tuple[tuple[int, ...], float]]:
    """By what the largest change of F is, over the contexts, that a cut makes."""
    operator = OPERATORS["pad" if "input_ids" in batch.tensors else "black"]()
    one = batch.select([b])
    places, cut = cuts(model, one)
    most = torch.zeros(len(places))
    for absent in contexts:
        removed = torch.zeros(1, len(batch.words[b]), dtype=torch.bool, device=batch.units.device)
        removed[0, sorted(absent)] = True
        changed = operator(model, one.tensors, one.units, removed).tensors
        whole = answer(model.run(changed).logits, one)
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            rows = {name: tensor.expand(len(some), *tensor.shape[1:]) for name, tensor in changed.items()}
            values = answer(model.run(rows, **cut(some)).logits, one.select([0] * len(some)))
            part = most[start : start + len(some)]
            torch.maximum(part, (values - whole).abs().cpu().float(), out=part)
    yield from zip(places, most.tolist(), strict=True)


_AT_ONCE = 512


def check(model: Classifier, batch: Batch) -> None:
    """UserError for a mechanism that is not what it says of these inputs."""
    if found := proof(model, batch).flaws:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise UserError(f"the mechanism is not what it says: {found[0]}{more}")
