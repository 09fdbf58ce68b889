"""What a run folder holds for people and other tools: heatmaps, attribution graphs, and predictions for ERASER."""

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from benchmark import units
from benchmark.evaluations.aopc import THRESHOLDS, Aopc, stored_erasure
from benchmark.evaluations.edges import terminals, unpadded
from benchmark.evaluations.rationale.export import Prediction, json_lines, predictions
from benchmark.evaluations.rationale.rationale import Rationale
from benchmark.models import Classifier, pictures
from benchmark.models.next_token import CONTINUATION
from benchmark.results.graph import attribution_graph
from benchmark.results.record import EvaluationRecord
from benchmark.results.rows import Share
from benchmark.results.store import Ragged
from benchmark.run.arrays import padded
from benchmark.run.cell import Cell
from benchmark.run.data import Data
from benchmark.run.explaining import class_order
from benchmark.run.stages import CLASSES, Explaining
from benchmark.targets import Target, TargetName
from benchmark.types import Attribution, Batch

HEATMAP_EXAMPLES = 1_000
HEATMAP_WORDS = 50_000
"""Words of all examples together after which no further one is taken: a few megabytes, eighty reviews of 600 words."""

HEATMAP_IMAGES = 32
"""The same of images, since every method's folder holds their pictures."""

GRAPH_EXAMPLES = 8

_WORD_MARKS = str.maketrans(
    "", "", "Ġ▁Ċ"
)  # how byte-level and SentencePiece vocabularies write the space before a word


def heatmaps(cell: Cell, stored: Ragged) -> list[dict[str, Any]]:
    """Words (patches) and their scores of the first examples, for pages and for tracking.

    There are at most `HEATMAP_EXAMPLES` with `HEATMAP_WORDS` words; of images `HEATMAP_IMAGES`, spread over all.
    """
    if "tokens" not in stored.arrays:
        return []
    pages: list[dict[str, Any]] = []
    room, shown = HEATMAP_WORDS, _shown(cell.data)
    classes = cell.classes() if cell.holds(CLASSES) else None
    for index, batch in enumerate(cell.data.batches):
        attribution = padded(stored, cell.data.start(index), batch)
        assert attribution.tokens is not None
        scores, present = units.pool(attribution.tokens, batch.units)
        logits, of_model = cell.data.logits(index), cell.data.target(index, "predicted")
        probabilities = cell.model.probability(logits, of_model)
        predicted, explained = of_model.names(cell.model.labels), attribution.target.names(cell.model.labels)
        said = _continuations(cell, batch, logits)
        several = None if classes is None else padded(classes, cell.data.start(index), batch)
        pair = None if several is None else _other_class(cell, batch, attribution.target, several, logits)
        for b in (b for b in range(len(batch)) if cell.data.start(index) + b in shown):
            if room <= 0:
                break
            words = batch.words[b]
            room -= len(words)
            scored = [u < present.shape[1] and bool(present[b, u]) for u in range(len(words))]
            label, rationale = int(batch.label[b]), batch.rationale[b]
            pages.append(
                {
                    "uid": batch.uids[b],
                    "words": list(words),
                    "scores": [float(scores[b, u]) if scored[u] else None for u in range(len(words))],
                    "label": cell.model.labels[label] if label >= 0 and said is None else None,
                    "predicted": predicted[b] if said is None else None,
                    "probability": float(probabilities[b]) if said is None else None,
                    "target": explained[b] if said is None else said[b],
                    "rationale": None if rationale is None else [bool(r) for r in rationale],
                }
            )
            if batch.grid is not None:
                pages[-1]["image"] = _picture(cell, batch, attribution, b) | {
                    "second": None if pair is None else pair[b]
                }
    return pages


def _continuations(cell: Cell, batch: Batch, logits: Float[Tensor, "B C"]) -> list[str] | None:
    """What is explained where it is a continuation: its text, and how probable it is; else None."""
    ids = batch.tensors.get(CONTINUATION)
    if ids is None:
        return None
    rows = [[token for token in row if token >= 0] for row in ids[..., 0].tolist()]
    tokenizer = cell.model.tokenizer
    texts = [str(row) if tokenizer is None else str(tokenizer.decode(row)).strip() for row in rows]
    return [f"“{text}”, ln p = {value:.2f}" for text, value in zip(texts, logits[:, 0].tolist(), strict=True)]


def _shown(data: Data) -> set[int]:
    """The places of the examples that are kept."""
    n = len(data.uids)
    if data.batches[0].grid is None:
        return set(range(min(n, HEATMAP_EXAMPLES)))
    return set(np.linspace(0, n - 1, min(n, HEATMAP_IMAGES)).round().astype(int).tolist())


def _picture(cell: Cell, batch: Batch, attribution: Attribution, b: int) -> dict[str, Any]:
    """What a page draws of an image: the picture at the model's size, its patches, its mask, scores of pixels."""
    assert batch.grid is not None
    assert batch.patch is not None
    assert batch.size is not None
    pixels = batch.tensors["pixel_values"][b].detach().float().cpu().numpy()
    mask = batch.masks[b] if batch.masks else None
    own = attribution.pixels
    return {
        "size": list(batch.size),
        "patch": list(batch.patch),
        "grid": list(batch.grid),
        "picture": pictures.data_url(pictures.visible(pixels, cell.model.encoder.processor)),
        "mask": None if mask is None else pictures.runs(mask),
        "map": None if own is None else pictures.small_map(own[b].detach().float().cpu().numpy()),
    }


def _other_class(
    cell: Cell, batch: Batch, explained: Target, several: Attribution, logits: Float[Tensor, "B C"]
) -> list[dict[str, Any]] | None:
    """Scores for the most probable class of each image but the explained one, of a method that looks at the class."""
    if batch.grid is None or several.classes is None or not cell.method.class_specific:
        return None
    order, probabilities = class_order(logits)[:, :2].tolist(), cell.model.probabilities(logits)
    found = []
    for b, target in enumerate(explained.classes.tolist()):
        rank = int(order[b][0] == target)
        scores, _ = units.pool(several.classes[b : b + 1, rank], batch.units[b : b + 1])
        other = order[b][rank]
        found.append(
            {
                "target": cell.model.labels[other],
                "probability": float(probabilities[b, other]),
                "scores": [float(score) for score in scores[0]],
            }
        )
    return found


def eraser_predictions(
    cell: Cell, tested: Mapping[str, EvaluationRecord], rows: Mapping[str, Share]
) -> dict[str, bytes]:
    """ERASER's predictions, by file name, of each agreement with rationales that was tested.

    There are none unless every example is an annotation of ERASER. The file is `eraser_predictions.jsonl` for the
    evaluation named `rationale`, `eraser_predictions-<name>.jsonl` for others. Its spans and soft scores are those that
    the evaluation scored: same target, pooling, clamping, seed and share. Where an AOPC at ERASER's five shares was
    tested too, it holds the probabilities that were compared.

    Args:
        cell: the run folder, with its attributions.
        tested: what `record.json` says of each evaluation.
        rows: of each of them.
    """
    if not all("annotation_id" in meta for batch in cell.data.batches for meta in batch.meta):
        return {}
    erased, files = _erasure_rows(tested, rows), {}
    for name, test in tested.items():
        if (settings := _settings_of(test, Rationale)) is not None:
            (share,) = (figure.value for figure in test.figures if figure.metric == "hard_share")
            file = "eraser_predictions.jsonl" if name == "rationale" else f"eraser_predictions-{name}.jsonl"
            files[file] = json_lines(_exported_rows(cell, settings, share, erased)).encode()
    return files


def _settings_of(test: EvaluationRecord, kind: type[Aopc | Rationale]) -> Mapping[str, Any] | None:
    """The settings of a test of this class and version that gave figures, else None."""
    name, version, settings = test.identity
    this_class = f"{kind.__module__}.{kind.__qualname__}", kind.version
    return settings if (name, version) == this_class and test.figures else None


def _erasure_rows(tested: Mapping[str, EvaluationRecord], rows: Mapping[str, Share]) -> pd.DataFrame | None:
    """Rows of the tested AOPC at ERASER's shares (of that named `aopc` where there are several), or None."""
    fractions = {name: (_settings_of(test, Aopc) or {}).get("fractions", ()) for name, test in tested.items()}
    names = [name for name, shares in fractions.items() if tuple(shares) == THRESHOLDS]
    chosen = "aopc" if "aopc" in names else next(iter(names), None)
    return None if chosen is None else rows[chosen].whole


def _exported_rows(
    cell: Cell, settings: Mapping[str, Any], share: float, erased: pd.DataFrame | None
) -> list[Prediction]:
    """The rows of the export, of an agreement with rationales that has these settings."""
    spelled = {label.casefold(): label for label in cell.data.labels}
    labels = [spelled.get(label.casefold(), label) for label in cell.model.labels]
    stored, exported = cell.explain(settings["target"]), []
    for index, batch in enumerate(cell.data.batches):
        exported += predictions(
            batch,
            padded(stored, cell.data.start(index), batch),
            labels=labels,
            hard_share=share,
            probabilities=cell.model.probabilities(cell.data.logits(index).double()),
            erasure=None if erased is None else stored_erasure(erased, batch.uids, THRESHOLDS, len(labels)),
            how=settings["pool"],
            clamp=settings["clamp"],
            seed=settings["seed"],
        )
    return exported


def stored_target(cell: Cell) -> TargetName | None:
    """What the cell keeps edge scores for, the predicted class where it keeps several; None without any."""
    return next((which for which in get_args(TargetName) if cell.holds(Explaining("edges", which))), None)


def graphs(cell: Cell, which: TargetName) -> list[dict[str, Any]]:
    """Graphs (`paper`, τ = 0.4) of the first few examples, from the edge scores that tests of edges left.

    Each with `uid`, `label`, `predicted` and `target` as in `heatmap.json`, and `graph` (`AttributionGraph.to_json`).
    """
    stored, labels = cell.edges(which), cell.model.labels
    pages: list[dict[str, Any]] = []
    for index, batch in enumerate(cell.data.batches):
        if len(pages) >= GRAPH_EXAMPLES:
            break
        rows = list(range(min(len(batch), GRAPH_EXAMPLES - len(pages))))
        attribution = padded(stored, cell.data.start(index), batch)
        predicted = cell.data.target(index, "predicted").names(labels)
        explained, ends = attribution.target.names(labels), terminals(cell.model, batch)
        for b, scores in zip(rows, unpadded(batch, attribution), strict=False):
            graph = attribution_graph(
                scores,
                terminal=ends[b],
                tokens=token_strings(cell.model, batch, b),
                units=batch.units[b, : scores.shape[1]].tolist(),
            )
            label = int(batch.label[b])
            pages.append(
                {
                    "uid": batch.uids[b],
                    "label": labels[label] if label >= 0 else None,
                    "predicted": predicted[b],
                    "target": explained[b],
                    "graph": graph.to_json(),
                }
            )
    return pages


def token_strings(model: Classifier, batch: Batch, row: int) -> list[str]:
    """Surface forms of an example's tokens, without padding.

    The word where a unit has one token; else the tokenizer's piece without its mark of a preceding space; else the
    unit's number (a patch of an image), or "special".
    """
    units = batch.units[row][batch.attention_mask[row]].tolist()
    pieces: list[str | None] = [None] * len(units)
    if "input_ids" in batch.tensors and model.tokenizer is not None:
        ids = batch.tensors["input_ids"][row][: len(units)].tolist()
        pieces = [None if piece is None else str(piece) for piece in model.tokenizer.convert_ids_to_tokens(ids)]
    numbers, counts = np.unique(units, return_counts=True)
    whole = {int(unit) for unit, count in zip(numbers, counts, strict=True) if unit >= 0 and count == 1}
    return [
        (batch.words[row][unit] if unit in whole else "")
        or (piece.translate(_WORD_MARKS) or piece if piece else "")
        or (str(unit) if unit >= 0 else "special")
        for unit, piece in zip(units, pieces, strict=True)
    ]
