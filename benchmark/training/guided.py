"""Word classifiers that see no context, trained under weights of the words that are given and fixed.

They are batched: as many as there are guides and seeds, from equal starts, on the same batches. Defined in
docs/protocols.md, section 16.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from benchmark.randomness import generator
from benchmark.settings.declared import Above, Count, Natural, configurable
from benchmark.training.trainer import descend, with_threads

_UNKNOWN = 0
_AT_ONCE = 64  # texts that are classified at once
_COPIES = 4  # of the weights: themselves, their gradient and AdamW's two moments
_BYTES = 8


@dataclass(frozen=True)
class GuidedTexts:
    """Words of examples, and the weights that guides give them.

    Attributes:
        words: of each example, by place.
        mask: which places hold a word that counts.
        weights: of every guide, 0 where the mask is False; None: attention is learned.
    """

    words: Sequence[Sequence[str]]
    mask: Bool[Tensor, "N T"]
    weights: Float[Tensor, "G N T"] | None

    def guides(self, start: int, stop: int) -> "GuidedTexts":
        """The same texts under some of the guides."""
        return self if self.weights is None else replace(self, weights=self.weights[start:stop])

    def ids(self, known: Mapping[str, int]) -> Int[Tensor, "N T"]:
        """The word at each place as a number, that of unknown words where there is none."""
        ids = torch.full(self.mask.shape, _UNKNOWN)
        for row, words in zip(ids, self.words, strict=True):
            numbers = [known.get(word.lower(), _UNKNOWN) for word in words[: len(row)]]
            row[: len(numbers)] = torch.tensor(numbers, dtype=torch.long)
        return ids


class WordMlps(nn.Module):
    """`logits = Σ_j w_j (U tanh(W e_j + b) + c)` for S seeds and G guides at once, w_j fixed; each has weights of its own.

    With `learned`, w is instead `softmax_j(v · tanh(P e_j + q))`.
    """

    def __init__(self, vocabulary: int, classes: int, hidden: int, seeds: Sequence[int], guides: int) -> None:
        super().__init__()
        self.hidden, self.guides = hidden, guides
        self.embeddings = self._start("embeddings", (vocabulary, hidden), 0.1, seeds)
        self.inner = self._start("inner", (hidden, hidden), hidden**-0.5, seeds)
        self.inner_bias = self._start("inner bias", (1, hidden), 0.0, seeds)
        self.outer = self._start("outer", (hidden, classes), hidden**-0.5, seeds)
        self.outer_bias = self._start("outer bias", (1, classes), 0.0, seeds)
        self.query = self._start("query", (hidden, hidden), hidden**-0.5, seeds)
        self.query_bias = self._start("query bias", (1, hidden), 0.0, seeds)
        self.score = self._start("score", (hidden, 1), hidden**-0.5, seeds)

    def _start(self, name: str, shape: tuple[int, int], scale: float, seeds: Sequence[int]) -> nn.Parameter:
        """Normal, the same for all guides of a seed [S G *shape]."""
        drawn = np.stack([scale * generator(seed, "word classifier", name).standard_normal(shape) for seed in seeds])
        return nn.Parameter(torch.as_tensor(drawn)[:, None].repeat(1, self.guides, 1, 1))

    def forward(
        self, ids: Int[Tensor, "S B T"], mask: Bool[Tensor, "S B T"], weights: Float[Tensor, "S G B T"] | None
    ) -> Float[Tensor, "S G B C"]:
        """Logits; without weights, under attention that is learned.

        Each word of the batch is run once, wherever it stands: it has no context.
        """
        kinds, places = torch.unique(ids, return_inverse=True)
        states = self.embeddings.index_select(2, kinds)
        logits = torch.tanh(states @ self.inner + self.inner_bias) @ self.outer + self.outer_bias  # [S G K C]
        places = places[:, None].expand(-1, self.guides, -1, -1)
        if weights is None:
            scores = torch.tanh(states @ self.query + self.query_bias) @ self.score  # [S G K 1]
            of_words = scores[..., 0].gather(2, places.flatten(2)).reshape(places.shape)
            weights = of_words.masked_fill(~mask[:, None], -torch.inf).softmax(-1).nan_to_num()  # of no word: none
        of_kinds = weights.new_zeros(*places.shape[:3], len(kinds)).scatter_add(3, places, weights)
        return of_kinds @ logits


@configurable
class GuidedRecipe:
    """How the word classifiers are trained: AdamW on cross-entropy, linear warm-up and decay, in float64 on the CPU.

    Guides do not touch each other: one more changes no other's classes. The same settings give the same classes on the same
    machine.

    Attributes:
        hidden: size of embeddings and states.
        vocabulary: how many words are known, the most frequent ones of the training examples in lower case.
        least_count: how often a word must occur in them to be known; all others are one word.
        steps, batch_size, learning_rate: the training.
        seeds: how many trainings of each guide; they differ in their starts and in the order of the examples.
        seed: of the first.
    """

    hidden: Count = 16
    vocabulary: Count = 8000
    least_count: Count = 2
    steps: Count = 200
    batch_size: Count = 32
    learning_rate: Annotated[float, Above(0)] = 1e-2
    seeds: Count = 3
    seed: Natural = 0

    def classify(
        self, train: GuidedTexts, label: Int[Tensor, "N"], test: GuidedTexts, classes: int, memory_budget: int
    ) -> Int[Tensor, "S G M"]:
        """The classes of M examples under each guide, by classifiers trained under the same guide on N examples.

        Args:
            train, test: with weights of the same G guides, or of none: G is then 1.
            label: of the training examples.
            classes: how many there are.
            memory_budget: bytes; guides beyond it are trained after the first.
        """
        known = self._vocabulary(train)
        of_one = _BYTES * (_COPIES * self.seeds * (len(known) + 1) * self.hidden + train.mask.numel())
        at_once = max(1, memory_budget // of_one)
        guides = 1 if train.weights is None else len(train.weights)
        with with_threads(1):
            parts = [
                self._trained(train.guides(start, start + at_once), label, classes, known)(
                    test.guides(start, start + at_once)
                )
                for start in range(0, guides, at_once)
            ]
        return torch.cat(parts, dim=1)

    def _vocabulary(self, train: GuidedTexts) -> dict[str, int]:
        """The known words, by their numbers: 0 is every other word."""
        counts: Counter[str] = Counter()
        for words, row in zip(train.words, train.mask.tolist(), strict=True):
            counts.update(word.lower() for word, rated in zip(words, row, strict=False) if rated)
        frequent = sorted((w for w in counts if counts[w] >= self.least_count), key=lambda w: (-counts[w], w))
        return {word: number + 1 for number, word in enumerate(frequent[: self.vocabulary])}

    def _trained(
        self, train: GuidedTexts, label: Int[Tensor, "N"], classes: int, known: Mapping[str, int]
    ) -> Callable[[GuidedTexts], Int[Tensor, "S G M"]]:
        """What classifies texts under the same guides as those of training."""
        seeds = range(self.seed, self.seed + self.seeds)
        guides = 1 if train.weights is None else len(train.weights)
        network, ids = WordMlps(len(known) + 1, classes, self.hidden, seeds, guides), train.ids(known)
        optimizer = torch.optim.AdamW(network.parameters(), lr=self.learning_rate, fused=True)
        batches = self._batches(seeds, len(label))

        def learn(step: int) -> None:
            rows = batches[step]
            logits = network(*_inputs(train, ids, rows))
            of_classes = label[rows][:, None].expand(logits.shape[:-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 2), of_classes.flatten(), reduction="sum")
            torch.autograd.backward(loss / self.batch_size)

        with torch.enable_grad():
            descend(network, optimizer, self.steps, learn, f"training {guides} word classifiers", clip=None)

        def classify(texts: GuidedTexts) -> Int[Tensor, "S G M"]:
            numbers = texts.ids(known)
            with torch.no_grad():
                parts = [
                    network(*_inputs(texts, numbers, rows.expand(len(seeds), -1))).argmax(-1)
                    for rows in torch.split(torch.arange(len(numbers)), _AT_ONCE)
                ]
            return torch.cat(parts, dim=2)

        return classify

    def _batches(self, seeds: Sequence[int], n: int) -> Int[Tensor, "K S B"]:
        """The examples of each step, for every seed in an order of its own; passes follow one another without a gap."""
        drawn = self.steps * self.batch_size
        passes = range(-(-drawn // n))
        orders = [
            np.concatenate([generator(seed, "order of examples", str(i)).permutation(n) for i in passes])[:drawn]
            for seed in seeds
        ]
        return torch.as_tensor(np.stack(orders)).reshape(len(seeds), self.steps, -1).transpose(0, 1)


def _inputs(
    texts: GuidedTexts, ids: Int[Tensor, "N T"], rows: Int[Tensor, "S B"]
) -> tuple[Int[Tensor, "S B T"], Bool[Tensor, "S B T"], Float[Tensor, "S G B T"] | None]:
    """What the classifiers read of examples, cut behind the last place that counts."""
    mask = texts.mask[rows]
    end = max(1, int((mask.any(0).any(0).long() * torch.arange(1, mask.shape[2] + 1)).max()))
    weights = None if texts.weights is None else texts.weights[:, rows, :end].transpose(0, 1)
    return ids[rows][..., :end], mask[..., :end], weights
