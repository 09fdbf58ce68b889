"""Undirected trees over words: maximum spanning trees of attention, and how many edges they share with the annotated one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from benchmark.analyses.syntax.head_votes import single_sequence, visible_words
from benchmark.annotations import Parse, annotated
from benchmark.models.classifier import Classifier
from benchmark.models.words import word_attention
from benchmark.randomness import generator
from benchmark.types import Batch

PUNCTUATION = "punct"

Edges = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class TreeScores:
    """Edges that trees share with the annotated ones.

    Attributes:
        heads: for each sentence, layer and head.
        chain: of the tree that joins each word to the next.
        random: of the spanning tree of random weights.
        gold: annotated edges of each sentence.
    """

    heads: Float[NDArray[np.float64], "S L H"]
    chain: Float[NDArray[np.float64], " S"]
    random: Float[NDArray[np.float64], " S"]
    gold: Float[NDArray[np.float64], " S"]


def spanning_tree(weights: Float[NDArray[np.float64], "W W"]) -> Edges:
    """The edges {v < w} of the maximum spanning tree of A + Aᵀ.

    Weights are shifted so that the least stays above 0, since 0 is no edge to scipy; all trees have as many edges, so that
    the shift changes none.
    """
    symmetric = weights + weights.T
    costs = symmetric.max() - symmetric + 1.0
    np.fill_diagonal(costs, 0)
    tree = minimum_spanning_tree(costs).tocoo()
    return frozenset((int(min(v, w)), int(max(v, w))) for v, w in zip(tree.row, tree.col, strict=True))


def gold_edges(parse: Parse, words: Sequence[int]) -> Edges:
    """The annotated edges between these words, numbered by their places among them."""
    place = {word: number for number, word in enumerate(words)}
    pairs = ((place[word], place[parse.heads[word]]) for word in words if parse.heads[word] in place)
    return frozenset((min(pair), max(pair)) for pair in pairs)


def tree_scores(model: Classifier, batches: Sequence[Batch], seed: int) -> TreeScores:
    """Shared edges of the spanning tree of each head's attention between words, punctuation left out.

    Sentences with fewer than two words beside punctuation have no edge and are left out.
    """
    single_sequence(model)
    heads, chain, drawn, gold = [], list[float](), list[float](), list[float]()
    for uid, attention, parse, words in _sentences(model, batches):
        edges = gold_edges(parse, words)
        if not edges:
            continue
        inside = attention[..., np.ix_(words, words)[0], np.ix_(words, words)[1]]
        shared = [[len(spanning_tree(head) & edges) for head in layer] for layer in inside]
        heads.append(np.array(shared, dtype=np.float64))
        chain.append(len({(v, v + 1) for v in range(len(words) - 1)} & edges))
        weights = generator(seed, "random tree", uid).random((len(words), len(words)))
        drawn.append(len(spanning_tree(weights) & edges))
        gold.append(len(edges))
    shape = (0, model.n_layers, model.n_heads)
    return TreeScores(np.stack(heads) if heads else np.zeros(shape), np.array(chain), np.array(drawn), np.array(gold))


def _sentences(
    model: Classifier, batches: Sequence[Batch]
) -> Iterator[tuple[str, Float[NDArray[np.float64], "L H W W"], Parse, list[int]]]:
    """Of each sentence its attention between words, its parse, and the visible words that are no punctuation."""
    for batch in batches:
        parses = iter(annotated(batch.meta, Parse))
        for part, _ in model.parts(batch):
            visible = visible_words(part)
            attentions = model.run(part, record=("attentions",)).attentions
            layers = [word_attention(layer.to(model.scores_dtype), part.units).cpu().numpy() for layer in attentions]
            for row, uid in enumerate(part.uids):
                parse = next(parses)
                seen = [word for word in range(min(len(parse.heads), visible.shape[1])) if visible[row, word]]
                words = [word for word in seen if parse.relations[word] != PUNCTUATION]
                yield uid, np.stack([layer[row] for layer in layers]).astype(np.float64), parse, words
