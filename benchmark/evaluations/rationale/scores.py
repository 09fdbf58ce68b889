"""Scores of one annotated example, document by document, as ERASER's scorer counts them (docs/protocols.md, section 9).

Every function takes the documents of one example and returns sums and means over them, by column name. A mean is NaN
where no document counts; the column that counts documents says how many did, so that a mean over the documents of all
examples can be had from the examples' means.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from benchmark.evaluations import curves
from benchmark.evaluations.base import Column
from benchmark.evaluations.rationale.documents import (
    Counts,
    Document,
    Flags,
    average_precision,
    matched_spans,
    precision_recall_area,
    spans,
)

DocumentsOfExample = Sequence[Document]

OF_SPANS = frozenset(
    f"{part}iou_{name}" for part in ("", "hard_") for name in ("matched", "selected", "gold", "precision", "recall")
) | {"span_documents", "predicted_documents", "hard_predicted_documents"}
"""Columns that count or compare spans."""


def n_words(documents: DocumentsOfExample) -> int:
    """Rated words of an example."""
    return sum(int(document.rated.sum()) for document in documents)


def scalars(documents: DocumentsOfExample) -> dict[str, float]:
    """Scores of one example that need no selection, and what its annotation holds."""
    gold, seen, rated = (np.concatenate([getattr(d, name) for d in documents]) for name in ("gold", "seen", "rated"))
    areas = np.array([_of_rated(precision_recall_area, d, d.scores) for d in documents])
    precisions = np.array([_of_rated(average_precision, d, np.where(d.seen, d.scores, -1.0)) for d in documents])
    marked = np.array([d.gold.any() for d in documents])
    mixed = marked & np.array([not d.gold[d.rated].all() for d in documents])
    n_ranked = documents[0].n_ranked
    has_token = np.concatenate(
        [np.ones(len(d.gold), dtype=bool) if d.tokenless is None else ~d.tokenless for d in documents]
    )
    marked_tokens = gold & has_token
    return {
        "auprc": float(areas.mean()),
        "documents": float(len(documents)),
        "auprc_marked": _mean(areas[marked]),
        "marked_documents": float(marked.sum()),
        "average_precision": _mean(precisions[mixed]),
        "mixed_documents": float(mixed.sum()),
        "unmarked_documents": float((~marked).mean()),
        "rationale_share": float(gold[rated].mean()) if rated.any() else 0.0,
        "coverage": n_ranked / int(has_token.sum()) if has_token.any() else float("nan"),
        "truncated_rationale_share": _mean(~seen[marked_tokens]),
        "token_gold": float(gold.sum()),
        "iou_gold": float(sum(len(d.spans) for d in documents)),
        "span_documents": float(sum(bool(d.spans) for d in documents)),
    }


def _of_rated(measure: Callable[[Flags, Column], float], document: Document, scores: Column) -> float:
    """A measure over a document's rated words; over all, none of which the rationale marks, where it has none."""
    words = document.rated if document.rated.any() else np.ones_like(document.rated)
    return measure(document.gold[words], scores[words])


def by_words(documents: DocumentsOfExample, top: Sequence[int]) -> dict[str, Column]:
    """Token scores of the k best words, for each k in `top`."""
    return _token_scores(documents, np.asarray(top, dtype=np.int64))


def by_share(documents: DocumentsOfExample, shares: Sequence[float]) -> dict[str, Column]:
    """Span scores, and the token F1, of the ⌈s · n⌉ best of the example's n words, for each share s."""
    counts = shares_to_counts(documents, shares)
    tokens = _token_scores(documents, counts)
    records = [_span_scores(documents, count) for count in counts.tolist()]
    return {name: np.array([record[name] for record in records]) for name in records[0]} | {
        "hard_token_f1_at": tokens["token_f1"],
        "token_documents_at": tokens["token_documents"],
    }


def at_share(documents: DocumentsOfExample, share: float) -> dict[str, float]:
    """The same for the one share of the hard selection."""
    columns = {name: float(values[0]) for name, values in by_share(documents, [share]).items()}
    return {"hard_share": share} | {_hard_name(name): value for name, value in columns.items()}


def shares_to_counts(documents: DocumentsOfExample, shares: Sequence[float]) -> Counts:
    """⌈s · n⌉ for each share s of an example's n words."""
    counts: Counts = curves.counts(torch.tensor([n_words(documents)]), shares, "up")[:, 0].numpy()
    return counts


def _hard_name(name: str) -> str:
    return f"hard_{name.removeprefix('hard_').removesuffix('_at')}"


def _token_scores(documents: DocumentsOfExample, counts: Counts) -> dict[str, Column]:
    """Counts [K] of the example, and means of precision, recall and F1 over its documents (`Counted.expected`).

    Where it is by chance how many documents count, the means are expected sums over the expected number.
    """
    expected = np.array([[d.counted(count).expected() for count in counts.tolist()] for d in documents])
    hits, chosen, precision, recall, f1, present = expected.sum(axis=0).T
    return {
        "token_hits": hits,
        "token_selected": chosen,
        "token_documents": present,
        "token_precision": _ratio(precision, present),
        "token_recall": _ratio(recall, present),
        "token_f1": _ratio(f1, present),
    }


def _span_scores(documents: DocumentsOfExample, count: int) -> Mapping[str, float]:
    """Counts of the spans of the `count` best words, and sums of precision and recall over the documents.

    Where the count parts words of one score, these are means over drawn orders of them.
    """
    by_document = [np.mean([_spans_of(d, chosen) for chosen in d.selections(count)], axis=0) for d in documents]
    names = ("iou_matched", "iou_selected", "predicted_documents", "iou_precision", "iou_recall")
    return dict(zip(names, np.sum(by_document, axis=0).tolist(), strict=True))


def _spans_of(document: Document, chosen: Flags) -> tuple[float, float, float, float, float]:
    """Matched and predicted spans of one document, whether there is one, precision and recall."""
    predicted = spans(chosen)
    hits = matched_spans(predicted, document.spans)
    precision = hits / len(predicted) if predicted else 0.0
    recall = hits / len(document.spans) if document.spans else 0.0
    return float(hits), float(len(predicted)), float(bool(predicted)), precision, recall


def _mean(values: NDArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _ratio(over: NDArray, under: NDArray) -> Column:
    """NaN where nothing is below."""
    ratios: Column = np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0)
    return ratios
