"""Test a cell: rows of a test, which it answers batch by batch from what a method gave.

What a test is asked for one batch (`Rows` and those that follow) is a value, so that another process can be told to ask it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from benchmark import progress
from benchmark.engines.base import Series, Work
from benchmark.errors import Corrupt, NotApplicable
from benchmark.models import Classifier
from benchmark.models.guard import Look, is_ours, watched
from benchmark.results import commits, store
from benchmark.results.digests import sealed
from benchmark.results.rows import CHUNK, NO_ROWS, Share, StoredRows, join_rows, write_rows
from benchmark.results.store import Ragged
from benchmark.run import origins
from benchmark.run.arrays import padded
from benchmark.run.cell import OTHERS, Cell
from benchmark.run.encoded import sizes_of
from benchmark.run.resumable import Resumable
from benchmark.run.stages import Searching, Testing
from benchmark.settings.identity import digest_of
from benchmark.types import Attribution, Batch, Compared, Evaluation, Method, Reads


@dataclass(frozen=True)
class Rows:
    """The rows of a test.

    Attributes:
        evaluation: the test.
    """

    evaluation: Evaluation

    def __call__(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """The rows of a batch with the number of the draw (0 where nothing is drawn); they are of its examples alone."""
        rows = self.evaluation.rows(model, batch, attribution)
        rows = rows if "draw" in rows else rows.assign(draw=0)
        if strange := set(rows["uid"]) - set(batch.uids):
            raise ValueError(f"rows of {min(strange)!r}, which is not among the examples that were given")
        return rows.astype({"draw": "int64"})


@dataclass(frozen=True)
class RowsOfOthers:
    """The rows of a test for some examples of each batch, where those of the others are known.

    Attributes:
        evaluation: the test.
    """

    evaluation: Evaluation

    def __call__(
        self, model: Classifier, batch: Batch, attribution: Attribution, others: Sequence[int]
    ) -> pd.DataFrame:
        """The rows of the examples of a batch with the numbers `others`."""
        if not others:
            return NO_ROWS.drop(columns="evaluation")
        return Rows(self.evaluation)(model, batch.select(others), attribution.select(others))


@dataclass(frozen=True)
class RowsApart:
    """The same rows where those of no example are known: to the last bit those that `RowsOfOthers` and a twin give.

    What is computed together changes last digits. So the others are tested by themselves here too, and what the whole batch
    says of them is left out.

    Attributes:
        evaluation: the test.
    """

    evaluation: Evaluation

    def __call__(
        self, model: Classifier, batch: Batch, attribution: Attribution, others: Sequence[int]
    ) -> pd.DataFrame:
        """The rows of a batch, of which the examples with the numbers `others` would not be known."""
        apart = RowsOfOthers(self.evaluation)(model, batch, attribution, others)
        if len(others) == len(batch):
            return apart
        together = Rows(self.evaluation)(model, batch, attribution)
        uids = {batch.uids[number] for number in others}
        return pd.concat([together[~together["uid"].isin(uids)], *([apart] if uids else [])], ignore_index=True)


@dataclass(frozen=True)
class Extract:
    """What a test takes from a method and from examples that are not scored.

    Attributes:
        evaluation: the test.
        method: what is compared.
        name: of what is compared.
    """

    evaluation: Evaluation
    method: Compared
    name: str

    def __call__(self, model: Classifier, batch: Batch, batches: Sequence[Batch]) -> Mapping[str, Any]:
        """What it takes from all of `batches`, whose first is `batch`."""
        before, who = Look(model), f"methods.{self.name}"
        with nullcontext() if is_ours(self.method) else watched(who, model, batches):
            found = self.evaluation.extract(model, self.method, batches)
        before.check(who)
        return found


def rows_path(cell: Cell, evaluation: Evaluation) -> Path:
    """Where the rows of a test lie until the cell is finished."""
    return cell.folder / "parts" / f"{Testing(evaluation).name}.parquet"


def rows_of_test(cell: Cell, evaluation: Evaluation) -> Share:
    """Rows of one test, which are kept among the parts until the whole cell is finished.

    Raises:
        NotApplicable: the test cannot serve, with the reason.
    """
    path, stage = rows_path(cell, evaluation), Testing(evaluation)
    if not path.exists():
        if (reason := cell.refused(stage)) is not None:
            raise NotApplicable(reason)
        cell.require("test", stage)
        try:
            _write_rows(cell, stage, path)
        except NotApplicable as reason:
            cell.refuse(stage, str(reason))
            raise
    return Share(StoredRows.read_from(path))


def _write_rows(cell: Cell, stage: Testing, path: Path) -> None:
    evaluation = stage.evaluation
    series = READERS[evaluation.reads](cell, evaluation)
    known = _known(cell, evaluation)
    resumable = Resumable[pd.DataFrame | StoredRows](
        folder=cell.parts(stage, "" if known is None else OTHERS),
        suffix=".parquet",
        write=lambda rows, part: write_rows(part, {"": Share(_stored(rows))}),
        read=StoredRows.read_from,
        merge=_table,
        seconds=cell.checkpoint_seconds,
        size=len,
        most=2 * CHUNK,
        excerpt=cell.numbers(stage),
    )
    results = partial(cell.data.runner.results, series)
    parts = resumable.parts(sizes_of(cell.data.batches), results, stage.name, stage.label)
    shares = [Share(_stored(part)) for part in _joined(parts)] + ([] if known is None else [known])
    origins.keep(cell.folder, digest_of(evaluation))
    try:
        join_rows(path, shares, cell.data.uids)
    except ValueError as error:
        raise Corrupt(resumable.folder, str(error)) from error


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


def _scoped(cell: Cell, evaluation: Evaluation) -> Evaluation:
    """The test with what its rows need of all scored examples, those that an excerpt leaves out included."""
    return evaluation.over((cell.whole or cell).data.batches)


def _rows_of_stored(cell: Cell, evaluation: Evaluation, stored: Ragged) -> Series[pd.DataFrame]:
    def inputs(index: int) -> tuple[object, ...]:
        return (padded(stored, cell.data.start(index), cell.data.batches[index]),)

    return _series(cell, Rows(_scoped(cell, evaluation)), inputs)


def _rows_of_tokens(cell: Cell, evaluation: Evaluation) -> Series[pd.DataFrame]:
    """Examples whose rows another test has (`_known`) are not tested again."""
    stored = cell.explain(evaluation.target)
    if twin_of(evaluation) is None:
        return _rows_of_stored(cell, evaluation, stored)

    def inputs(index: int) -> tuple[object, ...]:
        others = _alike(cell, index).logical_not().nonzero().flatten().tolist()
        return padded(stored, cell.data.start(index), cell.data.batches[index]), others

    work = RowsApart if _rows_of_twin(cell, evaluation) is None else RowsOfOthers
    return _series(cell, work(_scoped(cell, evaluation)), inputs)


def twin_of(evaluation: Evaluation) -> Evaluation | None:
    """The same test of the predicted classes, whose rows are those of this one where the annotated class is predicted."""
    return evaluation.for_predicted if evaluation.reads == "tokens" and evaluation.target == "label" else None


def _rows_of_twin(cell: Cell, evaluation: Evaluation) -> Path | None:
    """The rows of the same test for the predicted classes, where there are any and it is asked of the annotated ones."""
    if (twin := twin_of(evaluation)) is None:
        return None
    path = rows_path(cell, twin)
    return path if path.exists() else None


def _known(cell: Cell, evaluation: Evaluation) -> Share | None:
    """The rows of the examples whose annotated class is the predicted one, where they were tested for that."""
    if (path := _rows_of_twin(cell, evaluation)) is None:
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
    return cell.data.target(index, "label").differs(cell.data.target(index, "predicted")).logical_not()


def taken_path(cell: Cell, stage: Searching) -> Path:
    """Where what a test takes from a method lies."""
    return cell.folder / f"{stage.name}.json"


def taken_from_method(cell: Cell, evaluation: Evaluation) -> Mapping[str, Any]:
    """What a test takes from the method itself; it is made once, and kept beside the attributions.

    Raises:
        NotApplicable: there is nothing to take, with the reason.
    """
    stage = Searching(evaluation)
    path = taken_path(cell, stage)
    with cell.lock:
        if not path.exists():
            cell.require("explain", stage)
            batches = stage.batches(cell.data)
            extract = Extract(evaluation, cell.method, cell.name)
            series = Series(cell.model, extract, batches[:1], lambda _: (tuple(batches),))
            examples = sum(sizes_of(batches))
            with progress.step(stage.name, examples, label=stage.label) as advance:
                (artifact,) = cell.data.runner.results(series)
                advance(examples)
            origins.keep(cell.folder, path.name)
            store.write_json(path, sealed(artifact))
            commits.note(path)
    return {key: value for key, value in store.read_sealed(path).items() if key != "seal"}


def _rows_of_method(cell: Cell, evaluation: Evaluation) -> Series[pd.DataFrame]:
    prepared = _scoped(cell, evaluation).restored(taken_from_method(cell, evaluation))
    return _series(
        cell, Rows(prepared), lambda index: (Attribution(target=cell.data.target(index, evaluation.target)),)
    )


def _rows_of_components(cell: Cell, evaluation: Evaluation) -> Series[pd.DataFrame]:
    """With the mean scores over the calibration examples, or each example's own."""
    if evaluation.part == "heads":
        return _rows_of_heads(cell, evaluation)
    each = evaluation.calibration == "each"
    scores = cell.part_scores(evaluation.part, "same" if each else evaluation.calibration, evaluation.target)
    mean = scores.mean(0, keepdim=True)

    def inputs(index: int) -> tuple[object, ...]:
        batch = cell.data.batches[index]
        start = cell.data.start(index)
        own = scores[start : start + len(batch)] if each else mean.expand(len(batch), *mean.shape[1:])
        target = cell.data.target(index, evaluation.target)
        return (Attribution(target, **{evaluation.part: own.to(batch.units.device)}),)

    return _series(cell, Rows(_scoped(cell, evaluation)), inputs)


def _rows_of_heads(cell: Cell, evaluation: Evaluation) -> Series[pd.DataFrame]:
    each = evaluation.calibration == "each"
    scores = cell.head_scores("same" if each else evaluation.calibration, evaluation.target)
    importance = torch.stack([cell.aggregate(row[None]) for row in scores]) if each else cell.aggregate(scores)
    assert isinstance(cell.method, Method)
    drawn = cell.method.head_orders(cell.model.n_layers, cell.model.n_heads)
    orders = None if drawn is None else drawn[1:]
    resamples = evaluation.resampled(scores, cell.aggregate) if drawn is None and not each else None

    def inputs(index: int) -> tuple[object, ...]:
        batch = cell.data.batches[index]
        target = cell.data.target(index, evaluation.target)
        start = cell.data.start(index)
        heads: Tensor = importance[start : start + len(batch)] if each else importance.expand(len(batch), -1, -1)
        heads = heads.to(batch.units.device)
        return (Attribution(target=target, heads=heads, orders=orders, resamples=resamples),)

    return _series(cell, Rows(_scoped(cell, evaluation)), inputs)


READERS: Mapping[Reads, Callable[[Cell, Evaluation], Series[pd.DataFrame]]] = {
    "tokens": _rows_of_tokens,
    "classes": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.classes()),
    "edges": lambda cell, evaluation: _rows_of_stored(cell, evaluation, cell.edges(evaluation.target)),
    "heads": _rows_of_heads,
    "components": _rows_of_components,
    "method": _rows_of_method,
}
"""How the rows of a test come about, by what it reads."""
