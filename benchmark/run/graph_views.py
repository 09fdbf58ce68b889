"""Attribution graphs of a cell's first examples, for the report and for other tools (`graphs.json`)."""

from typing import Any

import numpy as np

from benchmark.evaluations.edges import terminals, unpadded
from benchmark.models import Classifier
from benchmark.results.graph import attribution_graph
from benchmark.run.arrays import padded
from benchmark.run.cell import Cell
from benchmark.types import Batch, Target

GRAPH_EXAMPLES = 8

_WORD_MARKS = str.maketrans(
    "", "", "Ġ▁Ċ"
)  # how byte-level and SentencePiece vocabularies write the space before a word


def stored_target(cell: Cell) -> Target | None:
    """The class for which the cell keeps edge scores, the predicted one where it keeps both; None without any."""
    targets: tuple[Target, ...] = ("predicted", "label")
    return next((which for which in targets if (cell.folder / f"edges-{which}.safetensors").exists()), None)


def graphs(cell: Cell, which: Target) -> list[dict[str, Any]]:
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
        predicted, ends = cell.data.target(index, "predicted"), terminals(cell.model, batch)
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
                    "predicted": labels[int(predicted[b])],
                    "target": labels[int(attribution.target[b])],
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
