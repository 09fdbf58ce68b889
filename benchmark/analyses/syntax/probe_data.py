"""What probes over all heads read: for each word the attention of every head to each candidate for its syntactic head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.analyses.syntax.head_votes import single_sequence, visible_words
from benchmark.analyses.syntax.trees import PUNCTUATION
from benchmark.annotations import Parse, annotated
from benchmark.models.classifier import Classifier
from benchmark.models.embeddings import embedding_modules
from benchmark.models.words import membership, word_attention, word_states
from benchmark.randomness import generator
from benchmark.types import Batch

DISTANCES = 7
"""How far behind and how far before, as shares of the sentence, and whether the candidate is 0, 1 or 2 words away."""


@dataclass(frozen=True)
class ProbeData:
    """Pairs of a word and a candidate, one after the other; the words of a sentence stand together.

    A word's candidates are the root (first) and all words of its sentence, itself included.

    Attributes:
        maps: attention of the K = 2 · L · H maps (from the word to the candidate, then from the candidate to the word), 0
            for the root.
        first, last: for each word and map, attention to (from) the special token at the start and at the end; 0 without.
        distances: features of where the candidate stands, 0 for the root.
        word: of each pair, the number of the word.
        candidate: of each pair, the number of the candidate word; −1 for the root.
        start: for each word the number of its first pair.
        gold: for each word the pair of its syntactic head.
        scored: words that are no punctuation.
        sentence: of each word, the number of its sentence.
        embeddings: of each word, the mean over its pieces of the model's input embeddings.
        types: each word in lower case.
    """

    maps: Float[Tensor, "P K"]
    first: Float[Tensor, "W K"]
    last: Float[Tensor, "W K"]
    distances: Float[Tensor, "P F"]
    word: Int[Tensor, " P"]
    candidate: Int[Tensor, " P"]
    start: Int[Tensor, " W"]
    gold: Int[Tensor, " W"]
    scored: Bool[Tensor, " W"]
    sentence: Int[Tensor, " W"]
    embeddings: Float[Tensor, "W E"]
    types: tuple[str, ...]

    @property
    def lengths(self) -> Int[Tensor, " W"]:
        """Candidates of each word."""
        return torch.bincount(self.word, minlength=len(self.start))

    def parts(self, size: int, seed: int) -> "list[ProbeData]":
        """The same in parts of `size` sentences, which are in an order drawn by the seed."""
        order = generator(seed, "order of sentences").permutation(int(self.sentence.max()) + 1)
        return [self._of(torch.from_numpy(np.sort(order[i : i + size]))) for i in range(0, len(order), size)]

    def _of(self, sentences: Int[Tensor, " S"]) -> "ProbeData":
        words = torch.isin(self.sentence, sentences)
        pairs = words[self.word]
        new_word, new_pair = words.cumsum(0) - 1, pairs.cumsum(0) - 1
        candidate = self.candidate[pairs]
        return ProbeData(
            maps=self.maps[pairs],
            first=self.first[words],
            last=self.last[words],
            distances=self.distances[pairs],
            word=new_word[self.word[pairs]],
            candidate=torch.where(candidate < 0, -1, new_word[candidate.clamp(min=0)]),
            start=new_pair[self.start[words]],
            gold=new_pair[self.gold[words]],
            scored=self.scored[words],
            sentence=torch.searchsorted(sentences, self.sentence[words]),
            embeddings=self.embeddings[words],
            types=tuple(name for name, inside in zip(self.types, words.tolist(), strict=True) if inside),
        )

    def control(self, seed: int) -> "ProbeData":
        """The same with a control task in place of syntax: the head of a word hangs on its type alone, by a fixed draw.

        Each type draws one of three behaviours with equal probability: its head is the word itself, the first word of the
        sentence, or the last one.

        Source: Hewitt & Liang 2019a, section 2.3 (dependency edges); as their code (`CorruptedEdgePositionTask`).
        """
        behaviour = {name: int(generator(seed, "control task", name).integers(3)) for name in set(self.types)}
        drawn = torch.tensor([behaviour[name] for name in self.types])
        ends = self.start + self.lengths - 1
        sentence_start = torch.zeros(int(self.sentence.max()) + 1, dtype=torch.long)
        numbers = torch.arange(len(self.start))
        sentence_start.scatter_reduce_(0, self.sentence, numbers, "amin", include_self=False)
        itself = self.start + 1 + numbers - sentence_start[self.sentence]
        return replace(self, gold=torch.stack([itself, self.start + 1, ends]).gather(0, drawn[None])[0])


def probe_data(model: Classifier, batches: Sequence[Batch]) -> ProbeData:
    """Pairs of all sentences that lie within the model's window as a whole; float32, on the CPU."""
    single_sequence(model)
    parts: dict[str, list[Tensor]] = {}
    types = list[str]()
    counted = {"pairs": 0, "words": 0, "sentences": 0}
    for batch in batches:
        parses = iter(annotated(batch.meta, Parse))
        for part, _ in model.parts(batch):
            attentions = model.run(part, record=("attentions",)).attentions
            layers = [layer.to(torch.float32) for layer in attentions]
            between = torch.stack([word_attention(layer, part.units) for layer in layers], dim=1).flatten(1, 2)
            ends = [_special(layers, part, last=last) for last in (False, True)]
            embedded = _embeddings(model, part)
            visible = visible_words(part).sum(1).tolist()
            for row in range(len(part)):
                parse = next(parses)
                n = len(parse.heads)
                if visible[row] < n:
                    continue
                found = _of_sentence(between[row, :, :n, :n], parse, counted)
                found |= {"embeddings": embedded[row, :n].cpu()}
                found |= {name: end[row, :n].cpu() for name, end in zip(("first", "last"), ends, strict=True)}
                for name, tensor in found.items():
                    parts.setdefault(name, []).append(tensor)
                types += [word.lower() for word in part.words[row][:n]]
                counted["pairs"] += n * (n + 1)
                counted["words"] += n
                counted["sentences"] += 1
    return ProbeData(**{name: torch.cat(tensors) for name, tensors in parts.items()}, types=tuple(types))


def _of_sentence(between: Float[Tensor, "K n n"], parse: Parse, counted: dict[str, int]) -> dict[str, Tensor]:
    n = len(parse.heads)
    both = torch.cat([between, between.transpose(1, 2)]).permute(1, 2, 0).cpu()
    maps = torch.cat([both.new_zeros(n, 1, both.shape[-1]), both], dim=1).flatten(0, 1)
    words = torch.arange(n)
    candidates = torch.arange(-1, n).repeat(n)
    ahead = (candidates - words.repeat_interleave(n + 1)).float()
    ahead[candidates < 0] = torch.nan
    near = [ahead == steps for steps in (0, 1, -1, 2, -2)]
    distances = torch.stack([ahead.clamp(min=0) / n, (-ahead).clamp(min=0) / n, *map(Tensor.float, near)], dim=1)
    start = counted["pairs"] + words * (n + 1)
    return {
        "maps": maps,
        "distances": torch.nan_to_num(distances),
        "word": counted["words"] + words.repeat_interleave(n + 1),
        "candidate": torch.where(candidates < 0, -1, counted["words"] + candidates),
        "start": start,
        "gold": start + 1 + torch.tensor(parse.heads),
        "scored": torch.tensor([relation != PUNCTUATION for relation in parse.relations]),
        "sentence": torch.full((n,), counted["sentences"]),
    }


def _special(layers: Sequence[Float[Tensor, "B H T T"]], part: Batch, *, last: bool) -> Float[Tensor, "B W K"]:
    """Attention of words to (and from) the first or last token where that is special; 0 where it is not."""
    lengths = part.attention_mask.sum(1)
    at = lengths - 1 if last else torch.zeros_like(lengths)
    rows = torch.arange(len(part), device=at.device)
    special = (part.units[rows, at] < 0).to(layers[0].dtype)
    pieces = membership(part.units, int(part.units.max()) + 1, layers[0])
    means = pieces / pieces.sum(-1, keepdim=True).clamp(min=1)
    to = torch.stack([layer[rows, :, :, at] for layer in layers], dim=1).flatten(1, 2)
    back = torch.stack([layer[rows, :, at] for layer in layers], dim=1).flatten(1, 2)
    both = torch.cat([means[:, None] @ to[..., None], pieces[:, None] @ back[..., None]], dim=1).squeeze(-1)
    return (both * special[:, None, None]).transpose(1, 2)


def _embeddings(model: Classifier, part: Batch) -> Float[Tensor, "B W E"]:
    """The word embeddings alone, without positions."""
    (module, *_) = embedding_modules(model.model, model.family, model.name)
    with torch.no_grad():
        return word_states(module(part.tensors["input_ids"]).to(torch.float32), part.units)


def first_word_baseline(data: ProbeData, offset: int) -> Int[Tensor, " W"]:
    """The pair of the word `offset` after each word, the root before the first and the last word behind the last."""
    lengths = data.lengths
    numbers = torch.arange(len(data.start))
    sentence_start = torch.from_numpy(np.unique(data.sentence.numpy(), return_index=True)[1])[data.sentence]
    place = (numbers - sentence_start + 1 + offset).clamp(min=0)
    return data.start + torch.minimum(place, lengths - 1)
