"""The rows of an evaluation for all examples of a cell: what it reads of the explainer, batch by batch."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from benchmark.results import commits, store
from benchmark.results.digests import sealed
from benchmark.results.store import Ragged
from benchmark.run.arrays import padded
from benchmark.run.cell import Cell
from benchmark.run.stages import Stage
from benchmark.settings.identity import digest_of
from benchmark.types import Attribution, Evaluation, PreparedEvaluation, Reads, over

_ROW = ("uid", "metric", "x", "draw")  # what no two rows of a test have in common


def rows_of_test(cell: Cell, evaluation: Evaluation) -> pd.DataFrame:
    """Rows of one evaluation; raises NotApplicable where it cannot serve.

    They are kept among the parts until the whole cell is finished.
    """
    name = f"rows-{digest_of(evaluation)[:16]}"
    path = cell.folder / "parts" / f"{name}.parquet"
    columns = (*_ROW, "value")
    if path.exists():
        return store.read_table(path, columns)
    rows_of = _READERS[evaluation.reads](cell, over(evaluation, cell.data.batches))
    stage = Stage[pd.DataFrame](
        folder=cell.parts(name, cell.data.batches),
        suffix=".parquet",
        write=lambda rows, part: store.write_table(part, rows),
        read=lambda part: store.read_table(part, columns),
        merge=lambda parts: pd.concat(parts, ignore_index=True),
        seconds=cell.checkpoint_seconds,
    )
    described = f"{cell.name}: {type(evaluation).__name__}"
    rows = stage.run(len(cell.data.batches), lambda index: _checked(cell, rows_of(index), index), described)
    if rows.duplicated(list(_ROW)).any():
        raise store.corrupt(stage.folder, "an example was tested twice")
    store.write_table(path, rows)
    return rows


def _checked(cell: Cell, rows: pd.DataFrame, index: int) -> pd.DataFrame:
    """The rows of one batch with the number of the draw (0 where nothing is drawn); they are of its examples alone."""
    rows = rows if "draw" in rows else rows.assign(draw=0)
    if strange := set(rows["uid"]) - set(cell.data.batches[index].uids):
        raise ValueError(f"rows of {min(strange)!r}, which is not among the examples that were given")
    return rows.astype({"draw": "int64"})


def _rows_of_stored(cell: Cell, evaluation: Evaluation, stored: Ragged) -> Callable[[int], pd.DataFrame]:
    def compute(index: int) -> pd.DataFrame:
        batch = cell.data.batches[index]
        return evaluation.rows(cell.model, batch, padded(stored, cell.data.start(index), batch))

    return compute


def _rows_of_prepared(cell: Cell, evaluation: PreparedEvaluation) -> Callable[[int], pd.DataFrame]:
    """The artifact that the evaluation takes from the method is made once, and kept beside the attributions."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(evaluation).__name__).lower()
    path = cell.folder / f"{name}-{digest_of(evaluation)[:8]}.json"
    with cell.lock:
        if not path.exists():
            batches = cell.data.calibration(evaluation.calibration.split, evaluation.calibration.examples)
            store.write_json(path, sealed(evaluation.extract(cell.model, cell.method, batches)))
            commits.note(path)
    prepared = evaluation.restored({k: v for k, v in store.read_sealed(path).items() if k != "seal"})

    def compute(index: int) -> pd.DataFrame:
        target = cell.data.target(cell.model, index, evaluation.target)
        return prepared.rows(cell.model, cell.data.batches[index], Attribution(target=target))

    return compute


def _rows_of_heads(cell: Cell, evaluation: Evaluation) -> Callable[[int], pd.DataFrame]:
    calibration = getattr(evaluation, "calibration", "same")
    own = calibration == "each"
    orders, resamples = _other_heads(cell, evaluation)
    if own:
        importance = torch.stack([cell.aggregate(row[None]) for row in cell.head_scores("same", evaluation.target)])
    else:
        importance = cell.head_importance(calibration, evaluation.target)

    def compute(index: int) -> pd.DataFrame:
        batch = cell.data.batches[index]
        target = cell.data.target(cell.model, index, evaluation.target)
        start = cell.data.start(index)
        heads = importance[start : start + len(batch)] if own else importance.expand(len(batch), -1, -1)
        heads = heads.to(batch.units.device)
        attribution = Attribution(target=target, heads=heads, orders=orders, resamples=resamples)
        return evaluation.rows(cell.model, batch, attribution)

    return compute


def _other_heads(cell: Cell, evaluation: Any) -> tuple[Tensor | None, Tensor | None]:
    """Head scores under other draws: other random orders, or an order from resampled calibration examples.

    A method whose head scores are random says so with `head_orders(n_layers, n_heads) -> [K L H]`, the first being that
    of its explanations; an evaluation asks for resamples with `resampled([N L H], aggregate) -> [R L H]`.
    """
    calibration = getattr(evaluation, "calibration", "same")
    if draw := getattr(cell.method, "head_orders", None):
        return draw(cell.model.n_layers, cell.model.n_heads)[1:], None
    if calibration == "each" or not hasattr(evaluation, "resampled"):
        return None, None
    scores = cell.head_scores(calibration, evaluation.target)
    return None, evaluation.resampled(scores, cell.aggregate)


_READERS: Mapping[Reads, Callable[[Cell, Any], Callable[[int], pd.DataFrame]]] = {
    "tokens": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.explain(evaluation.target)),
    "classes": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.classes()),
    "edges": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.edges(evaluation.target)),
    "heads": _rows_of_heads,
    "method": _rows_of_prepared,
}
