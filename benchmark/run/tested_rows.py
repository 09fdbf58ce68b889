"""Rows of a test: what it reads of the explainer, and what it answers batch by batch."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from benchmark import progress
from benchmark.engines.base import Series, Work
from benchmark.errors import Corrupt
from benchmark.results import commits, store
from benchmark.results.digests import sealed
from benchmark.results.rows import CHUNK, NO_ROWS, Share, StoredRows, join_rows, write_rows
from benchmark.results.store import Ragged
from benchmark.run import origins
from benchmark.run.arrays import padded
from benchmark.run.batch_rows import Extract, Rows, RowsApart, RowsOfOthers
from benchmark.run.cell import Cell
from benchmark.run.encoded import sizes_of
from benchmark.run.offers import (
    CalibratedEvaluation,
    PreparedEvaluation,
    RandomHeadsMethod,
    ResamplingEvaluation,
    TwinEvaluation,
)
from benchmark.run.stages import Stage
from benchmark.settings.identity import digest_of
from benchmark.types import Attribution, Evaluation, Reads


def rows_stage(evaluation: Evaluation) -> str:
    """Name of the stage that tests the scored examples."""
    return f"rows-{digest_of(evaluation)[:16]}"


def rows_path(cell: Cell, evaluation: Evaluation) -> Path:
    """Where its rows lie until the cell is finished."""
    return cell.folder / "parts" / f"{rows_stage(evaluation)}.parquet"


def rows_of_test(cell: Cell, evaluation: Evaluation, scoped: Evaluation) -> Share:
    """Rows of one evaluation, which are kept among the parts until the whole cell is finished.

    Args:
        cell: what is tested.
        evaluation: names the parts.
        scoped: the same for the scored examples; it gives the rows.

    Raises:
        NotApplicable: the evaluation cannot serve.
    """
    name = rows_stage(evaluation)
    path = rows_path(cell, evaluation)
    if not path.exists():
        series, known = READERS[evaluation.reads](cell, scoped), _known(cell, evaluation)
        stage = Stage[pd.DataFrame | StoredRows](
            folder=cell.parts(name if known is None else f"{name}-others", cell.data.batches),
            suffix=".parquet",
            write=lambda rows, part: write_rows(part, {"": Share(_stored(rows))}),
            read=StoredRows.read_from,
            merge=_table,
            seconds=cell.checkpoint_seconds,
            size=len,
            most=2 * CHUNK,
        )
        sizes = sizes_of(cell.data.batches)
        parts = stage.parts(sizes, partial(cell.data.runner.results, series), name, "testing")
        shares = [Share(_stored(part)) for part in _joined(parts)] + ([] if known is None else [known])
        origins.keep(cell.folder, digest_of(evaluation))
        try:
            join_rows(path, shares, cell.data.uids)
        except ValueError as error:
            raise Corrupt(stage.folder, str(error)) from error
    return Share(StoredRows.read_from(path))


def _joined(parts: Sequence[pd.DataFrame | StoredRows]) -> list[pd.DataFrame | StoredRows]:
    """The parts that were read, and one table of all others."""
    read: list[pd.DataFrame | StoredRows] = [part for part in parts if isinstance(part, StoredRows)]
    return [*read, _table(parts)]


def _table(parts: Sequence[pd.DataFrame | StoredRows]) -> pd.DataFrame:
    """One table of those that are tables."""
    tables = [part for part in parts if isinstance(part, pd.DataFrame)]
    return pd.concat([NO_ROWS.drop(columns="evaluation"), *tables], ignore_index=True)


def _stored(rows: pd.DataFrame | StoredRows) -> StoredRows:
    return rows if isinstance(rows, StoredRows) else StoredRows.of(rows)


def _series(cell: Cell, work: Work[pd.DataFrame], inputs: Callable[[int], tuple[object, ...]]) -> Series[pd.DataFrame]:
    return Series(cell.model, work, cell.data.batches, inputs)


def _rows_of_stored(cell: Cell, evaluation: Evaluation, stored: Ragged) -> Series[pd.DataFrame]:
    def inputs(index: int) -> tuple[object, ...]:
        return (padded(stored, cell.data.start(index), cell.data.batches[index]),)

    return _series(cell, Rows(evaluation), inputs)


def _rows_of_tokens(cell: Cell, evaluation: Evaluation) -> Series[pd.DataFrame]:
    """Examples whose rows another test has (`_known`) are not tested again."""
    stored = cell.explain(evaluation.target)
    if not _has_twin(evaluation):
        return _rows_of_stored(cell, evaluation, stored)

    def inputs(index: int) -> tuple[object, ...]:
        others = _alike(cell, index).logical_not().nonzero().flatten().tolist()
        return padded(stored, cell.data.start(index), cell.data.batches[index]), others

    work = RowsApart(evaluation) if _twin(cell, evaluation) is None else RowsOfOthers(evaluation)
    return _series(cell, work, inputs)


def _has_twin(evaluation: Evaluation) -> TypeGuard[TwinEvaluation]:
    """Whether another test, of the predicted classes, has rows that are those of this one."""
    return evaluation.reads == "tokens" and evaluation.target == "label" and isinstance(evaluation, TwinEvaluation)


def _twin(cell: Cell, evaluation: Evaluation) -> Path | None:
    """The rows of the same test for the predicted classes, where there are any and it is asked of the annotated ones."""
    if not _has_twin(evaluation):
        return None
    path = rows_path(cell, evaluation.for_predicted)
    return path if path.exists() else None


def _known(cell: Cell, evaluation: Evaluation) -> Share | None:
    """The rows of the examples whose annotated class is the predicted one, where they were tested for that."""
    if (path := _twin(cell, evaluation)) is None:
        return None
    uids = [
        uid
        for index, batch in enumerate(cell.data.batches)
        for uid, alike in zip(batch.uids, _alike(cell, index).tolist(), strict=True)
        if alike
    ]
    return Share(StoredRows.read_from(path), uids=frozenset(uids))


def _alike(cell: Cell, index: int) -> Bool[Tensor, "B"]:
    """Which examples of a batch have the annotated class predicted."""
    return cell.data.target(index, "label") == cell.data.target(index, "predicted")


def _rows_of_prepared(cell: Cell, evaluation: PreparedEvaluation) -> Series[pd.DataFrame]:
    """The artifact that the evaluation takes from the method is made once, and kept beside the attributions."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(evaluation).__name__).lower()
    path = cell.folder / f"{name}-{digest_of(evaluation)[:8]}.json"
    with cell.lock:
        if not path.exists():
            batches = cell.data.calibration(evaluation.calibration.split, evaluation.calibration.limit)
            extract = Extract(evaluation, cell.method, cell.name)
            series = Series(cell.model, extract, batches[:1], lambda _: (tuple(batches),))
            with progress.step("searching calibration examples"):
                (artifact,) = cell.data.runner.results(series)
            origins.keep(cell.folder, path.name)
            store.write_json(path, sealed(artifact))
            commits.note(path)
    prepared = evaluation.restored({k: v for k, v in store.read_sealed(path).items() if k != "seal"})
    return _series(
        cell, Rows(prepared), lambda index: (Attribution(target=cell.data.target(index, evaluation.target)),)
    )


def _rows_of_heads(cell: Cell, evaluation: Evaluation) -> Series[pd.DataFrame]:
    calibration = evaluation.calibration if isinstance(evaluation, CalibratedEvaluation) else "same"
    each = calibration == "each"
    scores = cell.head_scores("same" if each else calibration, evaluation.target)
    importance = torch.stack([cell.aggregate(row[None]) for row in scores]) if each else cell.aggregate(scores)
    orders = resamples = None
    if isinstance(cell.method, RandomHeadsMethod):
        orders = cell.method.head_orders(cell.model.n_layers, cell.model.n_heads)[1:]
    elif isinstance(evaluation, ResamplingEvaluation) and not each:
        resamples = evaluation.resampled(scores, cell.aggregate)

    def inputs(index: int) -> tuple[object, ...]:
        batch = cell.data.batches[index]
        target = cell.data.target(index, evaluation.target)
        start = cell.data.start(index)
        heads: Tensor = importance[start : start + len(batch)] if each else importance.expand(len(batch), -1, -1)
        heads = heads.to(batch.units.device)
        return (Attribution(target=target, heads=heads, orders=orders, resamples=resamples),)

    return _series(cell, Rows(evaluation), inputs)


READERS: Mapping[Reads, Callable[[Cell, Any], Series[pd.DataFrame]]] = {
    "tokens": _rows_of_tokens,
    "classes": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.classes()),
    "edges": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.edges(evaluation.target)),
    "heads": _rows_of_heads,
    "method": _rows_of_prepared,
}
