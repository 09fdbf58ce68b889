"""Words, scores and spans of annotated documents (docs/protocols.md, section 9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.errors import UserError
from benchmark.evaluations import ranks
from benchmark.evaluations.base import Column, rated_units, token_scores
from benchmark.types import Attribution, Batch
from benchmark.units import Pool, pool

OVERLAP = 0.5
Flags = NDArray[np.bool_]
Span = tuple[int, int]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Document:
    """One document of an example as the scorers see it, query left out: all its words, also those beyond the window.

    Words are ranked and selected among those of the whole example, which may have several documents.

    Attributes:
        scores: soft scores [W], raised so that none of the example's is negative; 0 beyond the window.
        rank: rank of each word [W] in the example, 0 is the best; `n_ranked` or more beyond the window.
        n_ranked: the example's words within the window.
        gold: the rationale [W]; all False where there is none.
        spans: the annotated spans [start, end), each once, adjacent ones apart, empty ones included; the maximal runs of
            `gold` where the example does not name any.
        tokenless: words [W] that have no token, within the window or beyond it; None where each has one.
    """

    scores: Column
    rank: NDArray[np.int64]
    n_ranked: int
    gold: Flags
    spans: tuple[Span, ...]
    tokenless: Flags | None = None

    def selected(self, count: int) -> Flags:
        """Those of the example's `count` best words that stand in this document."""
        chosen: Flags = self.rank < min(count, self.n_ranked)
        return chosen

    def counted(self, counts: Counts) -> tuple[Counts, Counts]:
        """Of the example's `counts` [K] best words: how many of this document are in the rationale, and how many at all."""
        limits = np.minimum(counts, self.n_ranked)
        hits, chosen = (np.searchsorted(np.sort(rank), limits) for rank in (self.rank[self.gold], self.rank))
        return hits, chosen


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
        seed: of the permutations that break ties.

    Raises:
        UserError: the document lengths of an example do not add up to its words.
    """
    scores, visible = pool(token_scores(batch, attribution), batch.units, how)
    scores = scores.clamp(min=0) if clamp else scores
    rated = rated_units(batch, visible)
    order = ranks.descending_ranks(scores, rated, ranks.tie_keys(batch.uids, scores.shape[1], seed))
    values, is_rated, rank = (tensor.cpu().numpy() for tensor in (scores.double(), rated, order))
    n_units = batch.n_units.tolist()
    return [_documents_of_example(batch, b, n_units[b], values[b], is_rated[b], rank[b]) for b in range(len(batch))]


def rationale_of(batch: Batch, b: int, n: int) -> Flags:
    """The rationale of example `b` of `n` words, query left out; all False where there is none."""
    rationale, query = batch.rationale[b], batch.query_units[b]
    if rationale is not None and len(rationale) != n:
        raise ValueError(f"example '{batch.uids[b]}' has {n} units and a rationale of {len(rationale)}")
    return np.zeros(n - query, dtype=bool) if rationale is None else np.asarray(rationale, dtype=bool)[query:]


def rationales(batch: Batch) -> dict[str, Flags]:
    """The rationale of each annotated example that has a word, by uid, query left out."""
    sizes = batch.n_units.tolist()
    marked = {
        uid: rationale_of(batch, b, sizes[b]) for b, uid in enumerate(batch.uids) if batch.rationale[b] is not None
    }
    return {uid: gold for uid, gold in marked.items() if len(gold)}


def rationale_share(batches: Sequence[Batch]) -> float | None:
    """Mean over the annotated examples of the share of words in the rationale; None where there is no such example."""
    shares = [float(gold.mean()) for batch in batches for gold in rationales(batch).values()]
    return fsum(shares) / len(shares) if shares else None


def _documents_of_example(
    batch: Batch, b: int, n: int, values: Column, rated: Flags, rank: NDArray
) -> tuple[Document, ...]:
    gold, query = rationale_of(batch, b, n), batch.query_units[b]
    width = min(n, len(values))
    visible = rated[:width]
    scores, places = np.zeros(n), np.full(n, max(n, len(values)), dtype=np.int64)
    lowest = min(0.0, float(values[:width][visible].min())) if visible.any() else 0.0
    scores[:width] = np.where(visible, values[:width] - lowest, 0.0)
    places[:width] = np.where(visible, rank[:width], places[:width])
    scores, places, n_ranked, meta = scores[query:], places[query:], int(visible.sum()), batch.meta[b]
    lengths = [int(length) for length in meta.get("document_lengths", (len(gold),))]
    if sum(lengths) != len(gold):
        raise UserError(
            f"example '{batch.uids[b]}' has {len(gold)} words outside the query and documents of {lengths} words"
        )
    ends = np.cumsum([0, *lengths]).tolist()
    rows = [slice(start, end) for start, end in pairwise(ends)]
    without = list(batch.tokenless[b]) if batch.tokenless else []
    tokenless = np.isin(np.arange(query, n), without)
    return tuple(
        Document(scores[at], places[at], n_ranked, gold[at], _annotated_spans(meta, d, gold[at]), tokenless[at])
        for d, at in enumerate(rows)
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


def precision_recall_areas(gold: Flags, scores: Column) -> tuple[float, float]:
    """Area under the precision-recall curve of one document by the trapezoid rule (ERASER's AUPRC), and by steps.

    With precision p_i and recall r_i of the words that score at least the i-th highest score, and p_0 = 1, r_0 = 0, these
    are Σ (r_i − r_{i−1}) (p_i + p_{i−1}) / 2 and Σ (r_i − r_{i−1}) p_i (average precision).

    Without a rationale word recall counts as 1 at every threshold and precision is 0. The first area is then 1/2, whatever
    the scores, as ERASER's scorer gives it with a present scikit-learn. With the old one that it asks for (0.20.3), which
    divides by zero here, its average over documents is NaN. The second area is then 0; ERASER's scorer leaves it out.
    """
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    hits = np.cumsum(gold[order])[ends]
    precision = np.concatenate([[1.0], hits / (ends + 1)])
    recall = np.concatenate([[0.0], hits / hits[-1] if hits[-1] else np.ones(len(hits))])
    steps = np.diff(recall)
    return float(steps @ (precision[1:] + precision[:-1]) / 2), float(steps @ precision[1:])
