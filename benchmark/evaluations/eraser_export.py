"""Predictions in ERASER's JSON Lines, so that its own scorer can check ours (PROTOCOLS section 6).

A prediction is made for one batch (`predictions`), those of all batches of a split are written at once (`export`):
one row per annotation, hard spans and soft scores for every document, probabilities of the classes, and, where an
`Erasure` is given, the probabilities after removals at the thresholds .01 .05 .1 .2 .5 that ERASER's scorer expects.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.cache import atomic_path
from benchmark.errors import UserError
from benchmark.evaluations import curves
from benchmark.evaluations.aopc import THRESHOLDS, Erasure
from benchmark.evaluations.documents import Document, documents, spans
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
    predictions are the spans of the best ⌈hard_share · n⌉ words. Equal settings give the numbers of `Rationale`.

    Args:
        batch: examples whose `meta` holds `annotation_id`, `docids` and `document_lengths` (whitespace tokens of
            each document, in the order of the units that follow the query's).
        attribution: with token scores.
        labels: class names as the annotations spell them, in the model's order.
        hard_share: share of the words that is selected.
        probabilities: of the unperturbed inputs; taken from `erasure` where that is given.
        erasure: `Aopc.erase` with the thresholds of ERASER.
        how: from the scores of a word's tokens to its own.
        clamp: set negative scores to 0 first.
        seed: of the permutations that break ties.

    Raises:
        UserError: an example is no ERASER annotation, or its document lengths do not add up to its words.
    """
    if erasure is not None and len(erasure.without) != len(THRESHOLDS):
        raise UserError(f"the ERASER export needs evaluations.aopc.fractions={list(THRESHOLDS)}")
    found = documents(batch, attribution, how=how, clamp=clamp, seed=seed)
    whole = erasure.whole if erasure is not None else probabilities
    rows = []
    for b, document in enumerate(found):
        row: Prediction = {
            "annotation_id": _meta(batch, b, "annotation_id"),
            "rationales": _rationales(batch, b, document, hard_share),
        }
        if whole is not None:
            row["classification"] = labels[int(whole[b].argmax())]
            row["classification_scores"] = _named(labels, whole[b])
        if erasure is not None:
            row["thresholded_scores"] = _thresholded(labels, erasure, b)
        rows.append(row)
    return rows


def export(path: Path, rows: Sequence[Prediction]) -> None:
    """Write the rows of all annotations of a split to `path`, at once or not at all.

    A row with hard predictions is put first: ERASER's scorer looks there for whether there are any.

    Raises:
        UserError: there is no row, or an annotation occurs twice.
    """
    times = Counter(row["annotation_id"] for row in rows)
    if not rows:
        raise UserError(f"nothing to export to {path}: the split has no annotation")
    if twice := [name for name, count in times.items() if count > 1]:
        raise UserError(f"nothing exported to {path}: annotation {twice[0]} occurs twice; ids must be unique")
    ordered = sorted(rows, key=lambda row: not _has_hard_predictions(row))
    with atomic_path(path) as temporary:
        temporary.write_text("".join(json.dumps(row) + "\n" for row in ordered), encoding="utf-8")


def _has_hard_predictions(row: Mapping[str, Any]) -> bool:
    return bool(row["rationales"]) and bool(row["rationales"][0]["hard_rationale_predictions"])


def _meta(batch: Batch, b: int, name: str) -> Any:
    if name not in batch.meta[b]:
        raise UserError(f"example '{batch.uids[b]}' is no ERASER annotation: its meta has no '{name}'")
    return batch.meta[b][name]


def _rationales(batch: Batch, b: int, document: Document, hard_share: float | int) -> list[dict[str, Any]]:
    """Hard and soft predictions of each document of an example, in the document's own token offsets."""
    docids, lengths = _meta(batch, b, "docids"), _meta(batch, b, "document_lengths")
    n = len(document.scores)
    if len(docids) != len(lengths) or sum(lengths) != n:
        raise UserError(f"example '{batch.uids[b]}' has {n} words outside the query and documents of {list(lengths)}")
    selected = document.selected(int(curves.counts(torch.tensor([n]), [hard_share], "up").item()))
    found, start = [], 0
    for docid, length in zip(docids, lengths, strict=True):
        here = slice(start, start + length)
        found.append(
            {
                "docid": docid,
                "hard_rationale_predictions": [
                    {"start_token": first, "end_token": end} for first, end in spans(selected[here])
                ],
                "soft_rationale_predictions": document.scores[here].tolist(),
            }
        )
        start += length
    return found


def _thresholded(labels: Sequence[str], erasure: Erasure, b: int) -> list[dict[str, Any]]:
    return [
        {
            "threshold": threshold,
            "comprehensiveness_classification_scores": _named(labels, erasure.without[q, b]),
            "sufficiency_classification_scores": _named(labels, erasure.only[q, b]),
        }
        for q, threshold in enumerate(THRESHOLDS)
    ]


def _named(labels: Sequence[str], probabilities: Tensor) -> dict[str, float]:
    """Class probabilities by name, normalised in float64."""
    exact = probabilities.double()
    return dict(zip(labels, (exact / exact.sum()).tolist(), strict=True))
