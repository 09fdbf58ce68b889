"""Test a cell: what an evaluation reads of the explainer, its rows batch by batch, and what the record says of them."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from benchmark import progress
from benchmark.engines.base import Series, Work
from benchmark.errors import Corrupt, NotApplicable
from benchmark.evaluations.base import Averaged, Described
from benchmark.results import commits, statistics, store
from benchmark.results.checks import NO_ROWS, rows_digest
from benchmark.results.digests import sealed
from benchmark.results.record import WORDS, About, Derivation, EvaluationRecord, Figure
from benchmark.results.store import Ragged
from benchmark.run.arrays import padded
from benchmark.run.batch_rows import Extract, Rows, RowsOfOthers
from benchmark.run.cell import Cell, calibration_stage
from benchmark.run.offers import (
    CalibratedEvaluation,
    DerivedEvaluation,
    PreparedEvaluation,
    RandomHeadsMethod,
    ResamplingEvaluation,
    ScopedEvaluation,
    TwinEvaluation,
)
from benchmark.run.stages import Stage
from benchmark.settings.identity import digest_of, identity
from benchmark.types import Attribution, Evaluation, Reads

SAME_FOR_EVERY_CLASS = "1 by construction: the method does not look at the class"
_ROW = ("uid", "metric", "x", "draw")  # what no two rows of a test have in common


def evaluate(
    cell: Cell, name: str, evaluation: Evaluation, stored: pd.DataFrame | None
) -> tuple[EvaluationRecord, pd.DataFrame]:
    """What the record says of one evaluation, and its rows. Where it cannot serve, there are none, and `dash` is the reason.

    A `remark` says what must be known of its figures; tables show it as a footnote. With `stored` rows figures are only
    reduced again.

    Raises:
        ValueError: a figure is outside of the bounds of its metric, or counts more examples than there are.
    """
    start = time.perf_counter()
    all_alike = evaluation.reads == "classes" and not cell.method.class_specific
    derived: Mapping[str, Derivation] = {}
    figures: tuple[Figure, ...] = ()
    dash, remark, rows = None, SAME_FOR_EVERY_CLASS if all_alike else None, NO_ROWS
    scoped = evaluation
    try:
        scoped = evaluation.over(cell.data.batches) if isinstance(evaluation, ScopedEvaluation) else evaluation
        tested = rows_of_test(cell, evaluation, scoped) if stored is None else stored
        figures = tuple(scoped.reduce(tested))
        rows, derived = tested, scoped.parts if isinstance(scoped, DerivedEvaluation) else {}
    except NotApplicable as answer:
        dash, remark = str(answer), None
    record = EvaluationRecord(
        name=name,
        version=evaluation.version,
        digest=digest_of(evaluation),
        identity=identity(evaluation),
        statistics=statistics.VERSION,
        target=evaluation.target,
        metrics=dict(scoped.metrics),
        averaged=isinstance(evaluation, Averaged),
        figures=figures,
        dash=dash,
        remark=remark,
        seconds=time.perf_counter() - start,
        derived=derived,
        rows=rows_digest(rows),
        about=_about(evaluation),
    )
    record.check(name, cell.data.facts.n)
    return record, rows


def reworded(test: EvaluationRecord, evaluation: Evaluation) -> EvaluationRecord:
    """The record with the words that the test has for itself and its metrics today; what they say of figures stays."""
    today = evaluation.metrics
    metrics = {
        name: replace(metric, **{word: getattr(today[name], word) for word in WORDS}) if name in today else metric
        for name, metric in test.metrics.items()
    }
    return replace(test, metrics=metrics, about=_about(evaluation))


def _about(evaluation: Evaluation) -> About:
    return evaluation.about if isinstance(evaluation, Described) else About()


def rows_of_test(cell: Cell, evaluation: Evaluation, scoped: Evaluation) -> pd.DataFrame:
    """Rows of one evaluation, which are kept among the parts until the whole cell is finished.

    Args:
        cell: what is tested.
        evaluation: names the parts.
        scoped: the same for the scored examples; it gives the rows.

    Raises:
        NotApplicable: the evaluation cannot serve.
    """
    name = rows_stage(evaluation)
    path = _rows_path(cell, evaluation)
    columns = (*_ROW, "value")
    if path.exists():
        return store.read_table(path, columns)
    series = _READERS[evaluation.reads](cell, scoped)
    stage = Stage[pd.DataFrame](
        folder=cell.parts(name, cell.data.batches),
        suffix=".parquet",
        write=lambda rows, part: store.write_table(part, rows),
        read=lambda part: store.read_table(part, columns),
        merge=lambda parts: pd.concat(parts, ignore_index=True),
        seconds=cell.checkpoint_seconds,
    )
    sizes = [len(batch) for batch in cell.data.batches]
    rows = stage.follow(sizes, partial(cell.data.runner.results, series), name, "testing")
    if rows.duplicated(list(_ROW)).any():
        raise Corrupt(stage.folder, "an example was tested twice")
    store.write_table(path, rows)
    return rows


def explain_for(cell: Cell, evaluation: Evaluation) -> None:
    """Explain what the test would read, and test nothing.

    Raises:
        NotApplicable: the evaluation cannot serve.
    """
    scoped = evaluation.over(cell.data.batches) if isinstance(evaluation, ScopedEvaluation) else evaluation
    _READERS[evaluation.reads](cell, scoped)


def rows_stage(evaluation: Evaluation) -> str:
    """Name of the stage that tests the scored examples."""
    return f"rows-{digest_of(evaluation)[:16]}"


def _rows_path(cell: Cell, evaluation: Evaluation) -> Path:
    return cell.folder / "parts" / f"{rows_stage(evaluation)}.parquet"


def stages(cell: Cell, evaluation: Evaluation) -> dict[str, int]:
    """What a test asks of a cell, as far as it is not there: examples by the name of the stage that goes over them."""
    rows = rows_stage(evaluation)
    if _rows_path(cell, evaluation).exists():
        return {}
    asked = dict.fromkeys(_asked(evaluation), cell.data.facts.n)
    if evaluation.reads == "heads" and isinstance(evaluation, CalibratedEvaluation):
        calibration = evaluation.calibration
        asked = asked if calibration in ("same", "each") else {calibration_stage(calibration): calibration.limit}
    return {name: count for name, count in asked.items() if not cell.holds(name)} | {rows: cell.data.facts.n}


def _asked(evaluation: Evaluation) -> tuple[str, ...]:
    """The stages of explaining the scored examples that the reader of a test goes through."""
    if evaluation.reads == "method":
        return ()
    if evaluation.reads == "edges":
        return (f"edges-{evaluation.target}",)
    return (
        "attributions-predicted",
        "classes" if evaluation.reads == "classes" else f"attributions-{evaluation.target}",
    )


def _series(cell: Cell, work: Work[pd.DataFrame], inputs: Callable[[int], tuple[object, ...]]) -> Series[pd.DataFrame]:
    return Series(cell.model, work, cell.data.batches, inputs)


def _rows_of_stored(cell: Cell, evaluation: Evaluation, stored: Ragged) -> Series[pd.DataFrame]:
    def inputs(index: int) -> tuple[object, ...]:
        return (padded(stored, cell.data.start(index), cell.data.batches[index]),)

    return _series(cell, Rows(evaluation), inputs)


def _rows_of_tokens(cell: Cell, evaluation: Evaluation) -> Series[pd.DataFrame]:
    """Examples whose annotated class is the predicted one are not tested again where they were for the predicted class."""
    stored = cell.explain(evaluation.target)
    if evaluation.target != "label" or not isinstance(evaluation, TwinEvaluation):
        return _rows_of_stored(cell, evaluation, stored)
    path = _rows_path(cell, evaluation.for_predicted)
    if not path.exists():
        return _rows_of_stored(cell, evaluation, stored)
    tested = store.read_table(path, (*_ROW, "value"))

    def inputs(index: int) -> tuple[object, ...]:
        batch, start = cell.data.batches[index], cell.data.start(index)
        alike = cell.data.target(index, "label") == cell.data.target(index, "predicted")
        others = alike.logical_not().nonzero().flatten().tolist()
        same = tested[tested["uid"].isin([uid for uid, known in zip(batch.uids, alike.tolist(), strict=True) if known])]
        return padded(stored, start, batch), others, same

    return _series(cell, RowsOfOthers(evaluation), inputs)


def _rows_of_prepared(cell: Cell, evaluation: PreparedEvaluation) -> Series[pd.DataFrame]:
    """The artifact that the evaluation takes from the method is made once, and kept beside the attributions."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(evaluation).__name__).lower()
    path = cell.folder / f"{name}-{digest_of(evaluation)[:8]}.json"
    with cell.lock:
        if not path.exists():
            batches = cell.data.calibration(evaluation.calibration.split, evaluation.calibration.limit)
            series = Series(cell.model, Extract(evaluation, cell.method), batches[:1], lambda _: (batches,))
            with progress.step("searching calibration examples"):
                (artifact,) = cell.data.runner.results(series)
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


_READERS: Mapping[Reads, Callable[[Cell, Any], Series[pd.DataFrame]]] = {
    "tokens": _rows_of_tokens,
    "classes": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.classes()),
    "edges": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.edges(evaluation.target)),
    "heads": _rows_of_heads,
    "method": _rows_of_prepared,
}
