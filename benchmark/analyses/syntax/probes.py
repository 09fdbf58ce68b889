"""Probes over all heads at once: which of a word's candidates is its syntactic head? Trained, each in a few seeded steps."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from benchmark.analyses.syntax.probe_data import DISTANCES, ProbeData

HIDDEN = 256
_RATE = 0.01
_SENTENCES = 32


class AttentionOnly(nn.Module):
    """`score(i, j) = Σ_k w_k α^k_ij`, and for the root `Σ_k w_k (s α^k_i,first + e α^k_i,last) + b`.

    α^k are the 2 · L · H maps of attention, those of each head and their transposes.

    Source: Clark et al. 2019, section 5, "attention-only probe"; b, which decoders without special tokens need, is ours.
    """

    def __init__(self, maps: int, embedding: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(maps))
        self.start, self.end, self.root = (nn.Parameter(torch.tensor(value)) for value in (1.0, 1.0, 0.0))

    def forward(self, data: ProbeData) -> Float[Tensor, " P"]:
        """One score for each pair."""
        root = self.start * (data.first @ self.weights) + self.end * (data.last @ self.weights) + self.root
        return _with_root(data, data.maps @ self.weights, root)


class AttentionAndEmbeddings(nn.Module):
    """`score(i, j) = Σ_k W_k[v_i; v_j] α^k_ij` with W linear, and 0 in place of v_j for the root.

    v are the model's own input word embeddings, mean over pieces.

    Source: Clark et al. 2019, section 5, "attention-and-words probe", which has GloVe's embeddings in their place.
    """

    def __init__(self, maps: int, embedding: int) -> None:
        super().__init__()
        self.dependent = nn.Linear(embedding, maps)
        self.head = nn.Linear(embedding, maps, bias=False)
        self.start, self.end, self.root = (nn.Parameter(torch.tensor(value)) for value in (1.0, 1.0, 0.0))
        for layer in (self.dependent, self.head):
            nn.init.zeros_(layer.weight)
        nn.init.zeros_(self.dependent.bias)

    def forward(self, data: ProbeData) -> Float[Tensor, " P"]:
        """One score for each pair."""
        dependent, head = self.dependent(data.embeddings), self.head(data.embeddings)
        pairs = (data.maps * (dependent[data.word] + head[data.candidate.clamp(min=0)])).sum(1)
        root = ((self.start * data.first + self.end * data.last) * dependent).sum(1) + self.root
        return _with_root(data, pairs, root)


class WordsAndDistances(nn.Module):
    """A layer of 256 hidden units over [v_i; v_j; distance features], without attention.

    Source: Clark et al. 2019, section 5, "distances + words" baseline.
    """

    def __init__(self, maps: int, embedding: int) -> None:
        super().__init__()
        self.dependent = nn.Linear(embedding, HIDDEN)
        self.head = nn.Linear(embedding, HIDDEN, bias=False)
        self.distance = nn.Linear(DISTANCES, HIDDEN, bias=False)
        self.is_root = nn.Parameter(torch.zeros(HIDDEN))
        self.out = nn.Linear(HIDDEN, 1)

    def forward(self, data: ProbeData) -> Float[Tensor, " P"]:
        """One score for each pair."""
        dependent, head = self.dependent(data.embeddings), self.head(data.embeddings)
        is_root = (data.candidate < 0)[:, None]
        of_candidate = torch.where(is_root, self.is_root, head[data.candidate.clamp(min=0)])
        hidden = torch.tanh(dependent[data.word] + of_candidate + self.distance(data.distances))
        return self.out(hidden).squeeze(1)  # type: ignore[no-any-return]  # a module's call has no type


PROBES: Mapping[str, Callable[[int, int], nn.Module]] = {
    "attention only": AttentionOnly,
    "attention and embeddings": AttentionAndEmbeddings,
    "words and distances": WordsAndDistances,
}


def trained(kind: str, data: ProbeData, steps: int, seed: int) -> nn.Module:
    """A probe after `steps` steps of Adam, each on the next 32 sentences of an order drawn by the seed.

    The loss is the mean over words, punctuation included, of the cross-entropy over their candidates. The random state of
    the process stays as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        probe = PROBES[kind](data.maps.shape[1], data.embeddings.shape[1])
    optimizer = torch.optim.Adam(probe.parameters(), lr=_RATE)
    parts = data.parts(_SENTENCES, seed)
    with torch.enable_grad():
        for step in range(steps):
            part = parts[step % len(parts)]
            optimizer.zero_grad()
            scores = probe(part)
            loss = (_log_sums(part, scores) - scores[part.gold]).mean()
            loss.backward()
            optimizer.step()
    return probe


def predicted(probe: nn.Module, data: ProbeData) -> Int[Tensor, " W"]:
    """For each word the pair with the largest score, the first of equal ones."""
    with torch.no_grad():
        scores = probe(data)
    best = _over_words(data, scores, "amax")
    numbers = torch.arange(len(scores))
    none = len(scores)
    return _over_words(data, torch.where(scores >= best[data.word], numbers, none), "amin")


def _with_root(data: ProbeData, pairs: Float[Tensor, " P"], root: Float[Tensor, " W"]) -> Float[Tensor, " P"]:
    return torch.where(data.candidate < 0, root[data.word], pairs)


def _over_words(data: ProbeData, values: Tensor, how: str) -> Tensor:
    found = values.new_zeros(len(data.start))
    return found.scatter_reduce(0, data.word, values, how, include_self=False)


def _log_sums(data: ProbeData, scores: Float[Tensor, " P"]) -> Float[Tensor, " W"]:
    largest = _over_words(data, scores.detach(), "amax")
    sums = scores.new_zeros(len(data.start)).index_add(0, data.word, (scores - largest[data.word]).exp())
    return sums.log() + largest
