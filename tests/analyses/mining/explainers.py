"""Explainers that look at given words, and one that explains nothing."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from benchmark.analyses.mining.word_pairs import plain
from benchmark.errors import NotApplicable
from benchmark.types import Attribution, Method


@dataclass(frozen=True)
class Pays(Method):
    """Looks at some words only."""

    words: frozenset[str]
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model, batch, target):
        scores = torch.zeros(batch.units.shape)
        for b, words in enumerate(batch.words):
            for t, unit in enumerate(batch.units[b].tolist()):
                scores[b, t] = float(unit >= 0 and plain(words[unit]) in self.words)
        return Attribution(target, scores)


@dataclass(frozen=True)
class PaysEdges(Pays):
    """The same as edges from every word to those, and back from none."""

    def edge_scores(self, model, batch, target):
        tokens = self(model, batch, target).tokens
        edges = tokens[:, None, None, :, None] * tokens[:, None, None, None, :]
        return edges.expand(-1, 2, 2, -1, -1)


@dataclass(frozen=True)
class Refuses(Method):
    """Explains nothing."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model, batch, target):
        raise NotApplicable("it has nothing")
