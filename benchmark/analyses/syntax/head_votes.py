"""Which word does each head attend to most? The word that a head votes for as a word's syntactic head."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.annotations import Parse, annotated
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.words import word_attention
from benchmark.types import Batch

DIRECTIONS = ("dependent → head", "head → dependent")
"""Which way attention goes: from the word to the head that it votes for, or from that head to the word."""

NO_VOTE = -2


@dataclass(frozen=True)
class Votes:
    """What the heads of a model say of sentences, word after word.

    Attributes:
        voted: the word that each head votes for, `NO_VOTE` where there is no other word.
        head: the annotated head of each word, −1 for the root.
        relation: the name of its relation.
        place: the number of each word in its sentence.
        sentence: the number of its sentence.
        length: how many words its sentence has.
        lost: words beyond the model's window, or whose head is, which are left out.
    """

    voted: Int[NDArray[np.int16], "W 2 L H"]
    head: Int[NDArray[np.int64], " W"]
    relation: NDArray[np.str_]
    place: Int[NDArray[np.int64], " W"]
    sentence: Int[NDArray[np.int64], " W"]
    length: Int[NDArray[np.int64], " W"]
    lost: int

    @property
    def n_sentences(self) -> int:
        """Sentences that have a word left."""
        return len(np.unique(self.sentence))


def single_sequence(model: Classifier) -> None:
    """NotApplicable for an encoder–decoder, whose calls attend to two sequences."""
    if model.streams.count > 1:
        raise NotApplicable("the model has an encoder and a decoder, whose attention has no single sequence of words")


def voted_words(attention: Float[Tensor, "B H W W"], visible: Bool[Tensor, "B W"]) -> Int[Tensor, "B W 2 H"]:
    """argmax_w A[v, w] and argmax_w A[w, v] over the other visible words w; `NO_VOTE` where there is none.

    Special tokens are no words, and a word is not its own head. Of equal words the first is taken.

    Args:
        attention: between words.
        visible: words that the model sees.
    """
    words = visible.shape[1]
    itself = torch.eye(words, dtype=torch.bool, device=visible.device)
    pairs = visible[:, :, None] & visible[:, None, :] & ~itself
    votes = []
    for scores in (attention, attention.transpose(-1, -2)):
        best = scores.masked_fill(~pairs[:, None], -torch.inf).argmax(-1)
        votes.append(best.masked_fill(~pairs.any(-1)[:, None], NO_VOTE))
    return torch.stack(votes, dim=-1).permute(0, 2, 3, 1)


def votes_of(model: Classifier, batches: Sequence[Batch]) -> Votes:
    """The votes of all heads on the sentences of these batches.

    Raises:
        NotApplicable: the examples have no parse, or the model has two sequences.
    """
    single_sequence(model)
    voted, facts, lost, number = [], list[tuple[int, str, int, int, int]](), 0, 0
    for batch in batches:
        parses = annotated(batch.meta, Parse)
        by_part = [_of_part(model, part) for part, _ in model.parts(batch)]
        for row, (votes, visible) in enumerate((v, s) for vs, ss in by_part for v, s in zip(vs, ss, strict=True)):
            parse = parses[row]
            n = len(parse.heads)
            seen = [word < len(visible) and bool(visible[word]) for word in range(n)]
            kept = [word for word in range(n) if seen[word] and (parse.heads[word] < 0 or seen[parse.heads[word]])]
            lost += n - len(kept)
            voted.append(votes[kept])
            facts += [(parse.heads[word], parse.relations[word], word, number, n) for word in kept]
            number += 1
    head, relation, place, sentence, length = zip(*facts, strict=True) if facts else ((), (), (), (), ())
    return Votes(
        np.concatenate(voted).astype(np.int16),
        np.array(head, dtype=np.int64),
        np.array(relation, dtype=np.str_),
        np.array(place, dtype=np.int64),
        np.array(sentence, dtype=np.int64),
        np.array(length, dtype=np.int64),
        lost,
    )


def _of_part(model: Classifier, part: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Votes [B W 2 L H] and visible words of a part."""
    visible = visible_words(part)
    attentions = model.run(part, record=("attentions",)).attentions
    layers = [voted_words(word_attention(layer.to(model.scores_dtype), part.units), visible) for layer in attentions]
    return torch.stack(layers, dim=3).cpu().numpy(), visible.cpu().numpy()


def visible_words(batch: Batch) -> Bool[Tensor, "B W"]:
    """The words that have a token; W is one more than the largest unit index."""
    words = torch.arange(int(batch.units.max()) + 1, device=batch.units.device)
    return (batch.units[:, None, :] == words[None, :, None]).any(-1)


def offset_votes(votes: Votes, offset: int) -> Int[NDArray[np.int64], " W"]:
    """The word `offset` after each word: the last where there is none behind, −1 (the root) where none before."""
    return np.clip(votes.place + offset, -1, votes.length - 1)
