"""Words, scores and spans of an annotated document (PROTOCOLS section 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import auc, precision_recall_curve

from benchmark.evaluations import ranks
from benchmark.evaluations.base import Column, rated_units, token_scores
from benchmark.types import Attribution, Batch
from benchmark.units import Pool, pool

OVERLAP = 0.5
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Document:
    """One example as the scorers see it, query left out: all words of the document, also those beyond the window.

    Attributes:
        scores: soft scores [W]: the method's, raised so that none is negative; 0 beyond the window.
        rank: rank of each word [W], 0 is the best; W or more beyond the window.
        n_ranked: words within the window.
        gold: the rationale [W]; all False where there is none.
        breaks: where a new document of the same example begins: no span crosses it.
    """

    scores: Column
    rank: NDArray[np.int64]
    n_ranked: int
    gold: Flags
    breaks: tuple[int, ...]

    def selected(self, count: int) -> Flags:
        """The `count` best words."""
        chosen: Flags = self.rank < min(count, self.n_ranked)
        return chosen


def documents(batch: Batch, attribution: Attribution, *, how: Pool, clamp: bool, seed: int) -> list[Document]:
    """What is scored of each example.

    Raising the scores (by their minimum, where it is negative) keeps the order and puts the words beyond the window,
    at 0, last: they count as missed.

    Args:
        batch: the examples.
        attribution: with token scores.
        how: from the scores of a word's tokens to its own.
        clamp: set negative scores to 0 first.
        seed: of the permutations that break ties.
    """
    scores, visible = pool(token_scores(batch, attribution), batch.units, how)
    scores = scores.clamp(min=0) if clamp else scores
    rated = rated_units(batch, visible)
    order = ranks.descending_ranks(scores, rated, ranks.tie_keys(batch.uids, scores.shape[1], seed))
    values, shown, rank = (tensor.cpu().numpy() for tensor in (scores.double(), rated, order))
    n_units = batch.n_units.tolist()
    return [_document(batch, b, n_units[b], values[b], shown[b], rank[b]) for b in range(len(batch))]


def _document(batch: Batch, b: int, n: int, values: Column, shown: Flags, rank: NDArray) -> Document:
    rationale, query = batch.rationale[b], batch.query_units[b]
    if rationale is not None and len(rationale) != n:
        raise ValueError(f"example '{batch.uids[b]}' has {n} units and a rationale of {len(rationale)}")
    gold = np.zeros(n - query, dtype=bool) if rationale is None else np.asarray(rationale, dtype=bool)[query:]
    width = min(n, len(values))
    here = shown[:width]
    soft, place = np.zeros(n), np.full(n, max(n, len(values)), dtype=np.int64)
    lowest = min(0.0, float(values[:width][here].min())) if here.any() else 0.0
    soft[:width] = np.where(here, values[:width] - lowest, 0.0)
    place[:width] = np.where(here, rank[:width], place[:width])
    return Document(soft[query:], place[query:], int(here.sum()), gold, _breaks(batch, b))


def _breaks(batch: Batch, b: int) -> tuple[int, ...]:
    lengths = batch.meta[b].get("document_lengths", ())
    return tuple(np.cumsum(lengths)[:-1].tolist()) if len(lengths) > 1 else ()


def spans(selected: Flags, breaks: Sequence[int] = ()) -> list[tuple[int, int]]:
    """Maximal runs [start, end) of selected words; a run is cut where a new document begins."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], selected.astype(np.int8), [0]])))
    found = []
    for start, end in edges.reshape(-1, 2).tolist():
        cuts = [start, *(cut for cut in breaks if start < cut < end), end]
        found += list(pairwise(cuts))
    return found


def matched_spans(predicted: Sequence[tuple[int, int]], gold: Sequence[tuple[int, int]]) -> int:
    """How many predicted spans have an intersection over union of at least 0.5 with some rationale span."""
    if not predicted or not gold:
        return 0
    p, g = np.asarray(predicted)[:, None], np.asarray(gold)[None]
    shared = np.minimum(p[..., 1], g[..., 1]) - np.maximum(p[..., 0], g[..., 0])
    shared = shared.clip(min=0)
    union = (p[..., 1] - p[..., 0]) + (g[..., 1] - g[..., 0]) - shared
    return int((shared / union >= OVERLAP).any(axis=1).sum())


def precision_recall_area(gold: Flags, scores: Column) -> float:
    """Area under the precision-recall curve by the trapezoid rule (ERASER's AUPRC of one document)."""
    precision, recall, _ = precision_recall_curve(gold, scores)
    return float(auc(recall, precision))
