"""Predictions in ERASER's JSON Lines, so that its own scorer can check ours (docs/protocols.md, section 9).

`predictions` makes the rows of one batch, one per annotation; `json_lines` writes down those of all batches of a split. A
row holds hard spans and soft scores for every document, and the probabilities of the classes. Where an `Erasure` is given,
it also holds the probabilities after removals at the thresholds .01 .05 .1 .2 .5 that ERASER's scorer expects, and at the
mean rationale share, without which the scorer refuses the others.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.evaluations.aopc import THRESHOLDS, Erasure
from benchmark.evaluations.rationale.documents import documents, spans
from benchmark.evaluations.rationale.scores import DocumentsOfExample, shares_to_counts
from benchmark.types import Attribution, Batch
from benchmark.units import Pool

Prediction = dict[str, Any]


def predictions(
    batch: Batch,
    attribution: Attribution,
    *,
    labels: Sequence[str],
    hard_share: float | int,
    probabilities: Float[Tensor, "B C"] | None = None,
    erasure: Erasure | None = None,
    how: Pool = "max",
    clamp: bool = False,
    seed: int = 0,
) -> list[Prediction]:
    """The rows of one batch.

    Soft scores have one value per document token, the tokens beyond the model's window included (0, the least); hard
    predictions are, document by document, the maximal runs of the example's best ⌈hard_share · n⌉ words. Equal settings
    give the numbers of `Rationale` and of `Aopc`.

    Args:
        batch: examples whose `meta` holds `annotation_id`, `docids` and `document_lengths` (whitespace tokens of
            each document, in the order of the units that follow the query's).
        attribution: with token scores.
        labels: class names as the annotations spell them, in the model's order.
        hard_share: share of the words that is selected.
        probabilities: of the unperturbed inputs; taken from `erasure` where that is given.
        erasure: `Aopc.erase` with the thresholds of ERASER and the mean rationale share (`Aopc.over`).
        how: from the scores of a word's tokens to its own.
        clamp: set negative scores to 0 first.
        seed: of the permutations that break ties.

    Raises:
        UserError: an example is no ERASER annotation, or its document lengths do not add up to its words.
    """
    if erasure is not None and len(erasure.without) != len(THRESHOLDS):
        raise UserError(f"the ERASER export needs evaluations.aopc.fractions={list(THRESHOLDS)}")
    if erasure is not None and erasure.hard is None:
        raise UserError("the ERASER export needs evaluations.aopc.hard_share, or `Aopc.over` of annotated examples")
    documents_of_batch = documents(batch, attribution, how=how, clamp=clamp, seed=seed)
    unperturbed = erasure.whole if erasure is not None else probabilities
    rows = []
    for b, parts in enumerate(documents_of_batch):
        row: Prediction = {
            "annotation_id": _meta(batch, b, "annotation_id"),
            "rationales": _rationales(batch, b, parts, float(hard_share)),
        }
        if unperturbed is not None:
            row["classification"] = labels[int(unperturbed[b].argmax())]
            row["classification_scores"] = _by_label(labels, unperturbed[b])
        if erasure is not None:
            assert erasure.hard is not None
            row |= _scores_after_removal(labels, erasure.hard[0, b], erasure.hard[1, b])
            row["thresholded_scores"] = [
                {"threshold": threshold} | _scores_after_removal(labels, erasure.without[q, b], erasure.only[q, b])
                for q, threshold in enumerate(THRESHOLDS)
            ]
        rows.append(row)
    return rows


def json_lines(rows: Sequence[Prediction]) -> str:
    """The rows of all annotations of a split as JSON Lines.

    A row with hard predictions comes first, and in it a document with hard predictions: ERASER's scorer looks there to see
    whether there are any.

    Raises:
        UserError: there is no row, or an annotation occurs twice.
    """
    occurrences = Counter(row["annotation_id"] for row in rows)
    if not rows:
        raise UserError("nothing to export: the split has no annotation")
    if repeated := [name for name, count in occurrences.items() if count > 1]:
        raise UserError(f"nothing exported: annotation {repeated[0]} occurs twice; ids must be unique")
    first_row, *others = sorted(rows, key=lambda row: not any(map(_has_hard_predictions, row["rationales"])))
    documents_of = sorted(first_row["rationales"], key=lambda document: not _has_hard_predictions(document))
    return "".join(json.dumps(row) + "\n" for row in [first_row | {"rationales": documents_of}, *others])


def _has_hard_predictions(document: Mapping[str, Any]) -> bool:
    return bool(document["hard_rationale_predictions"])


def _meta(batch: Batch, b: int, name: str) -> Any:
    if name not in batch.meta[b]:
        raise UserError(f"example '{batch.uids[b]}' is no ERASER annotation: its meta has no '{name}'")
    return batch.meta[b][name]


def _rationales(batch: Batch, b: int, parts: DocumentsOfExample, hard_share: float) -> list[dict[str, Any]]:
    """Hard and soft predictions of each document of an example, in the document's own token offsets."""
    docids = _meta(batch, b, "docids")
    if len(docids) != len(parts):
        raise UserError(f"example '{batch.uids[b]}' has {len(parts)} document lengths and the documents {list(docids)}")
    count = int(shares_to_counts(parts, [hard_share])[0])
    return [
        {
            "docid": docid,
            "hard_rationale_predictions": [
                {"start_token": start, "end_token": end} for start, end in spans(part.selected(count))
            ],
            "soft_rationale_predictions": part.scores.tolist(),
        }
        for docid, part in zip(docids, parts, strict=True)
    ]


def _scores_after_removal(labels: Sequence[str], without: Tensor, only: Tensor) -> Prediction:
    return {
        "comprehensiveness_classification_scores": _by_label(labels, without),
        "sufficiency_classification_scores": _by_label(labels, only),
    }


def _by_label(labels: Sequence[str], probabilities: Tensor) -> dict[str, float]:
    """Class probabilities by name, normalised in float64."""
    exact = probabilities.double()
    return dict(zip(labels, (exact / exact.sum()).tolist(), strict=True))
