"""The word pairs that an explanation puts first, and how often chance would."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from benchmark.analyses.resumed import Arrays, ByExample
from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.run.workbench import Setting
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from benchmark.units import pool

Pattern = tuple[str, str]
"""Two words, in alphabetical order, in small letters and without the punctuation around them."""

PairScores = Float[NDArray[np.float64], "W W"]


@dataclass(frozen=True)
class Marked:
    """An example and the patterns that its explanation puts first.

    Attributes:
        uid: the example's.
        label: the explained class.
        occurrences: how often each pattern stands in the text.
        pairs: how many pairs of words there are, those of like words left out.
        best: the patterns of the best pairs.
    """

    uid: str
    label: int
    occurrences: Mapping[Pattern, int]
    pairs: int
    best: frozenset[Pattern]


def plain(word: str) -> str:
    """A word as patterns have it; empty for one without a letter or digit."""
    kept = word.strip("".join(sorted({c for c in word if not c.isalnum()})))
    return kept.casefold()


def pair_scores(
    method: Method, model: Classifier, batch: Batch, target: Target, stored: Attribution | None = None
) -> Iterator[PairScores]:
    """Of each example the score of every two words, NaN where one is beyond the window.

    Of an explainer with edges `S_vw + S_wv`, S the positive part of the edge scores, summed over layers, heads and the
    tokens of both words; of others `s_v + s_w`, s the score of a word.

    Args:
        method: the explainer.
        model: the classifier.
        batch: the examples.
        target: what is explained of each.
        stored: what an explainer without edges says of them, where it is known already.

    Raises:
        NotApplicable: the method gives neither edge nor token scores.
    """
    if method.scores_edges:
        for part, rows in model.parts(batch, 2 * model.n_layers):
            edges = method.edge_scores(model, part, target[rows]).clamp(min=0).sum((1, 2)).detach().double().cpu()
            yield from _between_words(edges, part)
        return
    tokens = (method(model, batch, target) if stored is None else stored).tokens
    if tokens is None:
        raise NotApplicable("it gives no scores of edges or tokens")
    scores, visible = pool(tokens, batch.units)
    for row in scores.detach().double().masked_fill(~visible, torch.nan).cpu().numpy():
        yield row[:, None] + row[None, :]


def _between_words(edges: Float[torch.Tensor, "B T T"], batch: Batch) -> Iterator[PairScores]:
    for b, units in enumerate(batch.units.cpu()):
        n = int(units.max()) + 1
        members = torch.zeros(n, len(units), dtype=edges.dtype)
        at = (units >= 0).nonzero().flatten()
        members[units[at], at] = 1
        summed = members @ edges[b] @ members.T
        summed[members.sum(1) == 0] = torch.nan
        summed[:, members.sum(1) == 0] = torch.nan
        yield (summed + summed.T).numpy()


@dataclass(frozen=True)
class Ranked:
    """What an explanation says of the pairs of a text's words.

    Attributes:
        known: whether the pair of words v < w counts and has a score; words without a letter or digit, and pairs of the same
            word, do not count.
        best: places of the pairs with the largest scores, the largest first, of equal ones those that stand first; none
            where fewer have a score.
    """

    known: Bool[NDArray[np.bool_], "W W"]
    best: Int[NDArray[np.int64], "K 2"]


def ranked(words: Sequence[str], scores: PairScores, best: int) -> Ranked:
    """Which pairs of a text count, and which `best` of them have the largest scores."""
    names = np.array([plain(word) for word in words[: len(scores)]], dtype=object)
    scores, named = scores[: len(names), : len(names)], names != ""
    known = np.triu(named[:, None] & named[None, :] & (names[:, None] != names[None, :]) & np.isfinite(scores), 1)
    places = np.argwhere(known)
    order = np.argsort(-scores[known], kind="stable")[:best]
    return Ranked(known, places[order] if len(order) == best else places[:0])


def marked(words: Sequence[str], pairs: Ranked, uid: str, label: int) -> Marked | None:
    """The patterns of the best pairs of words; None where fewer pairs have a score."""
    if not len(pairs.best):
        return None
    names = [plain(word) for word in words]

    def patterns(places: Int[NDArray[np.int64], "N 2"]) -> list[Pattern]:
        return [(min(names[v], names[w]), max(names[v], names[w])) for v, w in places.tolist()]

    occurrences = Counter(patterns(np.argwhere(pairs.known)))
    return Marked(uid, label, occurrences, occurrences.total(), frozenset(patterns(pairs.best)))


def marked_texts(
    method: Method,
    setting: Setting,
    texts: Sequence[tuple[Batch, Target]],
    best: int,
    by_example: ByExample,
    name: str,
    stored: Sequence[Attribution] | None = None,
) -> list[Marked]:
    """What an explainer puts first in each text, words of a query left out.

    Args:
        method: the explainer.
        setting: whose model is explained.
        texts: batches, each with the classes that are explained.
        best: pairs of each text.
        by_example: computes the pairs, and keeps them, so that a killed run goes on behind them.
        name: the explainer's.
        stored: what an explainer without edges says of each batch, where it is known already.
    """
    targets = {batch.uids: target for batch, target in texts}
    known = {} if stored is None else {batch.uids: own for (batch, _), own in zip(texts, stored, strict=True)}

    def compute(batch: Batch) -> Arrays:
        target = targets[batch.uids].to(batch.units.device)
        scores = pair_scores(method, setting.model, batch, target, known.get(batch.uids))
        found = [ranked(words, own, best) for words, own in zip(_rated(batch), scores, strict=True)]
        return {
            "known": np.concatenate([np.packbits(one.known) for one in found]),
            "words": np.array([len(one.known) for one in found]),
            "best": np.concatenate([one.best for one in found]),
            "pairs": np.array([len(one.best) for one in found]),
        }

    batches = [batch for batch, _ in texts]
    arrays = by_example(replace(setting, data=replace(setting.data, batches=batches)), compute, f"explaining: {name}")
    parts = _unpacked(arrays)
    found = []
    for batch, target in texts:
        for words, uid, explained in zip(_rated(batch), batch.uids, target.classes.tolist(), strict=True):
            if (one := marked(words, next(parts), uid, explained)) is not None:
                found.append(one)
    return found


def _unpacked(arrays: Arrays) -> Iterator[Ranked]:
    """The pairs of one text after another."""
    bits = np.split(arrays["known"], np.cumsum(-(-(arrays["words"] ** 2) // 8))[:-1])
    best = np.split(arrays["best"], np.cumsum(arrays["pairs"])[:-1])
    for own, n, first in zip(bits, arrays["words"].tolist(), best, strict=True):
        yield Ranked(np.unpackbits(own, count=n * n).astype(bool).reshape(n, n), first)


def _rated(batch: Batch) -> list[tuple[str, ...]]:
    """The words of each text, those of a query empty."""
    return [("",) * n + words[n:] for words, n in zip(batch.words, batch.query_units, strict=True)]


def by_chance(example: Marked, pattern: Pattern, best: int) -> float:
    """The probability that a pattern is among `best` pairs drawn at random, by the hypergeometric distribution."""
    others = example.pairs - example.occurrences.get(pattern, 0)
    return 1 - math.comb(others, best) / math.comb(example.pairs, best)


@dataclass(frozen=True)
class Mined:
    """A pattern in the texts that are explained for one class.

    Attributes:
        pattern: its words.
        label: the class.
        first: of each text that holds the pattern whether it is among the best pairs.
        chance: of each of them the probability of that by chance.
        p: of as many or more by chance; a sum of independent draws with these probabilities (Poisson's binomial).
    """

    pattern: Pattern
    label: int
    first: NDArray[np.bool_]
    chance: Float[NDArray[np.float64], " N"]
    p: float

    @property
    def lift(self) -> float:
        """How often it is among the best over how often it would be by chance."""
        return float(self.first.sum() / self.chance.sum())


def mine(examples: Sequence[Marked], best: int, least: int) -> list[Mined]:
    """All patterns that stand in at least `least` texts of a class, whatever their scores: the family of hypotheses."""
    found = []
    for label in sorted({example.label for example in examples}):
        of_class = [example for example in examples if example.label == label]
        texts: dict[Pattern, list[Marked]] = {}
        for example in of_class:
            for pattern in example.occurrences:
                texts.setdefault(pattern, []).append(example)
        for pattern, holding in sorted(texts.items()):
            if len(holding) < least:
                continue
            first = np.array([pattern in example.best for example in holding])
            chance = np.array([by_chance(example, pattern, best) for example in holding])
            found.append(Mined(pattern, label, first, chance, at_least(int(first.sum()), chance)))
    return found


def at_least(count: int, chances: Float[NDArray[np.float64], " N"]) -> float:
    """P(X ≥ count) of a sum of independent draws with these probabilities (Poisson's binomial).

    All terms are positive, so that small values are exact; `scipy.stats.poisson_binom`, by a Fourier transform, is not below
    about 1e-15, which a family of a thousand hypotheses multiplies.
    """
    if count == 0:
        return 1.0
    fewer, reached = np.zeros(count), 0.0  # P(X = 0), ..., P(X = count - 1); P(X >= count)
    fewer[0] = 1.0
    for chance in chances.tolist():
        reached += chance * float(fewer[-1])
        fewer[1:] = (1 - chance) * fewer[1:] + chance * fewer[:-1]
        fewer[0] *= 1 - chance
    return min(reached, 1.0)
