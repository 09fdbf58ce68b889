"""Words, scores and spans of annotated documents (docs/protocols.md, section 9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from math import fsum
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations import ranks
from benchmark.evaluations.base import Column, rated_units, token_scores
from benchmark.randomness import generator
from benchmark.types import Attribution, Batch
from benchmark.units import Pool, pool

OVERLAP = 0.5
ORDERS = 50
"""Orders of equal scores that are drawn for what has no closed expectation over them: spans of selected words."""

Flags = NDArray[np.bool_]
Span = tuple[int, int]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Document:
    """One document of an example as the scorers see it, query left out: all its words, also those beyond the window.

    Words are ranked and selected among those of the whole example, which may have several documents. Where several words
    share a score, every order of them is as good as another: what is counted is the expectation over all orders.

    Attributes:
        scores: soft scores [W], raised so that none of the example's is negative; 0 beyond the window.
        seen: which words [W] lie within the window.
        above: how many words [W] of the example score higher; `n_ranked` or more beyond the window.
        alike: how many words [W] of the example have this score, the word itself included; 1 beyond the window.
        orders: ranks [R, W] of the words in the example, 0 is the best, in R drawn orders of equal scores; one row where no
            two words share a score; `n_ranked` or more beyond the window.
        n_ranked: the example's words within the window.
        gold: the rationale [W]; all False where there is none.
        spans: the annotated spans [start, end), each once, adjacent ones apart, empty ones included; the maximal runs of
            `gold` where the example does not name any.
        rated: words [W] that something is asked of; the others count in no share and as no word outside the rationale.
        tokenless: words [W] that have no token, within the window or beyond it; None where each has one.
    """

    scores: Column
    seen: Flags
    above: Counts
    alike: Counts
    orders: Counts
    n_ranked: int
    gold: Flags
    spans: tuple[Span, ...]
    rated: Flags
    tokenless: Flags | None = None

    def selected(self, count: int, order: int = 0) -> Flags:
        """Those of the example's `count` best words that stand in this document, in one of the orders."""
        chosen: Flags = self.orders[order] < min(count, self.n_ranked)
        return chosen

    def selections(self, count: int) -> list[Flags]:
        """`selected` in each of the orders, or once where they agree: where the count parts no words of one score."""
        parted = bool((self._certain(count) != self._possible(count)).any())
        return [self.selected(count, order) for order in range(len(self.orders) if parted else 1)]

    def counted(self, count: int) -> "Counted":
        """What selecting the example's `count` best words selects here: surely, and by chance.

        The best words are all that score above some score, and some of those that have it, each set of them alike.
        """
        certain, parted = self._certain(count), self._possible(count) & ~self._certain(count)
        place = int(parted.argmax()) if parted.any() else 0
        drawn = (min(count, self.n_ranked) - int(self.above[place])) if parted.any() else 0
        return Counted(
            hits=int((certain & self.gold).sum()),
            chosen=int(certain.sum()),
            parted_hits=int((parted & self.gold).sum()),
            parted=int(parted.sum()),
            drawn=drawn,
            drawn_of=int(self.alike[place]) if parted.any() else 0,
            gold=int(self.gold.sum()),
        )

    def _certain(self, count: int) -> Flags:
        """Words that are among the best `count` in every order."""
        certain: Flags = self.seen & (self.above + self.alike <= min(count, self.n_ranked))
        return certain

    def _possible(self, count: int) -> Flags:
        """Words that are among them in some order."""
        possible: Flags = self.seen & (self.above < min(count, self.n_ranked))
        return possible


@dataclass(frozen=True)
class Counted:
    """Words of a document in a selection of the example's best, and expectations over the orders of equal scores.

    Attributes:
        hits: words of the rationale that are surely selected.
        chosen: words that are surely selected.
        parted_hits: words of the rationale among the parted ones.
        parted: words here whose score the selection parts: `drawn` of `drawn_of` in the whole example are selected.
        drawn: see `parted`.
        drawn_of: see `parted`.
        gold: words of the rationale.
    """

    hits: int
    chosen: int
    parted_hits: int
    parted: int
    drawn: int
    drawn_of: int
    gold: int

    def expected(self) -> tuple[float, float, float, float, float, float]:
        """Expected hits, selected words, precision, recall and F1, and the probability that the document counts.

        It counts where it has a rationale word or a selected one; precision and recall are 0 where it lacks the words that
        they are a share of. The number of its parted words that are selected is hypergeometric, and the hits among them are
        on average in proportion, so that each expectation is a sum over that number.
        """
        if self.parted in (0, self.drawn_of):
            more, chance = np.array([self.drawn if self.parted else 0]), np.ones(1)
        else:
            more = np.arange(max(0, self.drawn - self.drawn_of + self.parted), min(self.drawn, self.parted) + 1)
            chance = scipy.stats.hypergeom.pmf(more, self.drawn_of, self.parted, self.drawn)
        chosen = self.chosen + more
        hits = self.hits + more * (self.parted_hits / self.parted if self.parted else 0.0)
        measures = (
            hits,
            chosen,
            _share(hits, chosen),
            _share(hits, np.full(len(more), self.gold)),
            _share(2 * hits, self.gold + chosen),
            self.gold + chosen > 0,
        )
        hits_, chosen_, precision, recall, f1, counts = (float(chance @ measure) for measure in measures)
        return hits_, chosen_, precision, recall, f1, counts


def _share(part: NDArray, whole: NDArray) -> Column:
    shares: Column = np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
    return shares


def documents(
    batch: Batch, attribution: Attribution, *, how: Pool, clamp: bool, seed: int
) -> list[tuple[Document, ...]]:
    """The documents of each example in the order of its words.

    Where an example's lowest score is negative, all its scores are raised by its magnitude. This keeps the order and puts
    the words beyond the window, at 0, last: they count as missed.

    Args:
        batch: the examples. `document_lengths` in an example's `meta` says where its documents end (one document where
            it is absent), `evidence_spans` which spans of each are annotated.
        attribution: with token scores.
        how: from the scores of a word's tokens to its own.
        clamp: set negative scores to 0 first.
        seed: of the orders of equal scores.

    Raises:
        UserError: the document lengths of an example do not add up to its words.
    """
    scores, visible = pool(token_scores(batch, attribution), batch.units, how)
    scores = scores.clamp(min=0) if clamp else scores
    rated = rated_units(batch, visible)
    order = ranks.descending_ranks(scores, rated, ranks.tie_keys(batch.uids, scores.shape[1], seed))
    values, is_rated, rank = (tensor.cpu().numpy() for tensor in (scores.double(), rated, order))
    n_units = batch.n_units.tolist()
    examples = [_Ranked.of(values[b], is_rated[b], rank[b], n_units[b], batch.uids[b], seed) for b in range(len(batch))]
    return [_documents_of_example(batch, b, example) for b, example in enumerate(examples)]


@dataclass(frozen=True)
class _Ranked:
    """The words of an example, query included: see `Document`."""

    scores: Column
    seen: Flags
    above: Counts
    alike: Counts
    orders: Counts

    @staticmethod
    def of(values: Column, rated: Flags, rank: Counts, n: int, uid: str, seed: int) -> "_Ranked":
        """From the scores of the words up to the last one that any text of the batch shows."""
        width = min(n, len(values))
        seen = np.zeros(n, dtype=bool)
        seen[:width] = rated[:width]
        given = np.zeros(n)
        given[:width] = values[:width]
        lowest = min(0.0, float(given[seen].min())) if seen.any() else 0.0
        distinct, group, sizes = np.unique(-given[seen], return_inverse=True, return_counts=True)
        above, alike = np.full(n, n, dtype=np.int64), np.ones(n, dtype=np.int64)
        above[seen], alike[seen] = (np.cumsum(sizes) - sizes)[group], sizes[group]
        first = np.full(n, n, dtype=np.int64)
        first[:width] = np.where(seen[:width], rank[:width], n)
        orders = [first]
        if len(distinct) < len(group):
            keys = generator(seed, "orders of ties", uid).random((ORDERS - 1, n))
            orders += [_ranks(given, seen, row) for row in keys]
        return _Ranked(np.where(seen, given - lowest, 0.0), seen, above, alike, np.stack(orders))


def _ranks(scores: Column, seen: Flags, keys: Column) -> Counts:
    """Ranks of the words that are seen, equal scores in the order of their keys; the number of words elsewhere."""
    places = np.flatnonzero(seen)
    order = places[np.lexsort((keys[places], -scores[places]))]
    found = np.full(len(scores), len(scores), dtype=np.int64)
    found[order] = np.arange(len(order))
    return found


def rationale_of(batch: Batch, b: int, n: int) -> Flags:
    """Which of the `n` words of example `b` the rationale marks, query left out; none that is not rated."""
    rationale, query = batch.rationale[b], batch.query_units[b]
    if rationale is not None and len(rationale) != n:
        raise ValueError(f"example '{batch.uids[b]}' has {n} units and a rationale of {len(rationale)}")
    if rationale is None:
        return np.zeros(n - query, dtype=bool)
    marked: Flags = np.asarray(rationale, dtype=bool) & batch.rated_units(b)
    return marked[query:]


def rationales(batch: Batch, *, rated: bool = False) -> dict[str, Flags]:
    """The rationale of each annotated example that has a word, by uid, query left out, or of its `rated` words alone."""
    sizes = batch.n_units.tolist()
    marked = {}
    for b, uid in enumerate(batch.uids):
        if batch.rationale[b] is not None:
            gold = rationale_of(batch, b, sizes[b])
            marked[uid] = gold[batch.rated_units(b)[batch.query_units[b] :]] if rated else gold
    return {uid: gold for uid, gold in marked.items() if len(gold)}


def rationale_share(batches: Sequence[Batch]) -> float | None:
    """Mean over the annotated examples of the share of rated words in the rationale; None where there is none."""
    shares = [float(gold.mean()) for batch in batches for gold in rationales(batch, rated=True).values()]
    return fsum(shares) / len(shares) if shares else None


def _documents_of_example(batch: Batch, b: int, words: _Ranked) -> tuple[Document, ...]:
    gold, query = rationale_of(batch, b, len(words.scores)), batch.query_units[b]
    n_ranked, meta = int(words.seen.sum()), batch.meta[b]
    lengths = [int(length) for length in meta.get("document_lengths", (len(gold),))]
    if sum(lengths) != len(gold):
        raise UserError(
            f"example '{batch.uids[b]}' has {len(gold)} words outside the query and documents of {lengths} words"
        )
    ends = np.cumsum([0, *lengths]).tolist()
    without = list(batch.tokenless[b]) if batch.tokenless else []
    tokenless = np.isin(np.arange(len(words.scores)), without)
    rated = batch.rated_units(b)[query:]
    tokenless[query:] |= ~rated  # nothing is said of them, whatever the window
    return tuple(
        Document(
            **{part.name: getattr(words, part.name)[..., query + start : query + end] for part in fields(words)},
            n_ranked=n_ranked,
            gold=gold[start:end],
            spans=_annotated_spans(meta, d, gold[start:end]),
            rated=rated[start:end],
            tokenless=tokenless[query + start : query + end],
        )
        for d, (start, end) in enumerate(pairwise(ends))
    )


def _annotated_spans(meta: Mapping[str, Any], d: int, gold: Flags) -> tuple[Span, ...]:
    """The annotated spans of document `d`, each once."""
    if "evidence_spans" not in meta:
        return tuple(spans(gold))
    return tuple(dict.fromkeys((int(start), int(end)) for start, end in meta["evidence_spans"][d]))


def spans(selected: Flags) -> list[Span]:
    """Maximal runs [start, end) of selected words."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], selected.astype(np.int8), [0]])))
    return [(start, end) for start, end in edges.reshape(-1, 2).tolist()]


def matched_spans(predicted: Sequence[Span], gold: Sequence[Span]) -> int:
    """How many predicted spans have an intersection over union of at least 0.5 with some rationale span.

    An empty rationale span matches nothing.
    """
    if not predicted or not gold:
        return 0
    p, g = np.asarray(predicted)[:, None], np.asarray(gold)[None]
    shared = np.minimum(p[..., 1], g[..., 1]) - np.maximum(p[..., 0], g[..., 0])
    shared = shared.clip(min=0)
    union = (p[..., 1] - p[..., 0]) + (g[..., 1] - g[..., 0]) - shared
    return int((shared / union >= OVERLAP).any(axis=1).sum())


def precision_recall_area(gold: Flags, scores: Column) -> float:
    """Area under the precision-recall curve of one document by the trapezoid rule, ERASER's AUPRC.

    With precision p_i and recall r_i of the words that score at least the i-th highest score, and p_0 = 1, r_0 = 0, it is
    Σ (r_i − r_{i−1}) (p_i + p_{i−1}) / 2. Words of one score are one threshold, and the line that leads to it begins at the
    precision of those above: scores that are all equal have (1 + π) / 2, π the share of words in the rationale, far more
    than random scores. `average_precision` has no such flaw.

    Without a rationale word recall counts as 1 at every threshold and precision is 0. The area is then 1/2, whatever
    the scores, as ERASER's scorer gives it with a present scikit-learn. With the old one that it asks for (0.20.3), which
    divides by zero here, its average over documents is NaN.
    """
    ends, hits = _levels(gold, scores)
    precision = np.concatenate([[1.0], hits / ends])
    recall = np.concatenate([[0.0], hits / hits[-1] if hits[-1] else np.ones(len(hits))])
    return float(np.diff(recall) @ (precision[1:] + precision[:-1]) / 2)


def average_precision(gold: Flags, scores: Column) -> float:
    """Average precision, in expectation over the orders of equal scores: the mean of the precision at each rationale word.

    Of an order it is (1/G) Σ_{i ∈ gold} (rationale words up to place i) / i, G the number of rationale words. A group of M
    words of one score, m of them in the rationale, that follows a words with h in the rationale, contributes over all its
    orders on average

        (1/G) Σ_{j=1..M} (m/M) · (h + 1 + (j − 1) (m − 1) / (M − 1)) / (a + j).

    Without equal scores it is scikit-learn's average precision, which takes equal scores as one threshold: scores that are
    all equal have π there, where random ones have more on average, by (1 − π) (H_n − 1) / (n − 1) with H_n = Σ_{i ≤ n} 1/i.
    Here they have the same. 0 without a rationale word.

    Raises:
        NotApplicable: a score is NaN.
    """
    ends, hits = _levels(gold, scores)
    if not hits[-1]:
        return 0.0
    begin, before = np.concatenate([[0], ends[:-1]]), np.concatenate([[0], hits[:-1]])
    size, marked = np.diff(ends, prepend=0), np.diff(hits, prepend=0)
    place = np.arange(1, len(gold) + 1)
    group = np.repeat(np.arange(len(size)), size)
    slope = np.divide(marked - 1, size - 1, out=np.zeros(len(size)), where=size > 1)
    found = before[group] + 1 + (place - begin[group] - 1) * slope[group]
    return float((marked / size)[group] @ (found / place) / hits[-1])


def _levels(gold: Flags, scores: Column) -> tuple[Counts, Counts]:
    """Of each score, from the highest on: how many words have at least that, and how many of these are in the rationale."""
    if np.isnan(scores).any():
        raise NotApplicable(ranks.UNORDERED)
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends: Counts = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) + 1
    hits: Counts = np.cumsum(gold[order], dtype=np.int64)[ends - 1]
    return ends, hits
