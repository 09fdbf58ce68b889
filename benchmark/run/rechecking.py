"""Rows of finished cells computed a second time, from nothing, and held against those that are stored."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import cast

import pandas as pd

from benchmark.errors import UserError
from benchmark.results.rows import StoredRows
from benchmark.results.store import read_cell
from benchmark.run.cell import Cell
from benchmark.run.encoded import Chosen
from benchmark.run.steps import finish
from benchmark.types import Batch, Evaluation

PLACE = ["test", "metric", "uid", "x", "draw"]
"""Columns that say which row of a cell it is; `value` is its figure."""

ROUNDING = 1e-5
"""Largest difference that is rounding: tables show three decimals, and float32 has seven digits."""

Pair = tuple[str, int]
"""Name of a cell and number of one of its batches."""


@dataclass(frozen=True)
class Rechecked:
    """One batch of one cell, explained and tested again.

    Attributes:
        method: of the cell.
        batch: its number.
        rows: how many rows were computed again.
        differences: of the stored values from those, beyond rounding, by test, metric, example and x.
        largest: the largest absolute difference, rounding too; 0 where all digits are equal.
    """

    method: str
    batch: int
    rows: int
    differences: tuple[str, ...]
    largest: float


def drawn(cells: Mapping[str, Cell], share: float, seed: int = 0) -> list[Pair]:
    """A share of the pairs of a cell and a batch, at least one, drawn by the seed, in order."""
    pairs = [(name, batch) for name, cell in cells.items() for batch in range(len(cell.data.batches))]
    return sorted(Random(seed).sample(pairs, max(1, round(share * len(pairs)))), key=pairs.index)


def recheck(
    cells: Mapping[str, Cell], evaluations: Mapping[str, Evaluation], pairs: Sequence[Pair]
) -> Iterator[Rechecked]:
    """Explain and test some batches again, with nothing of what is stored, and compare every row with the run folders.

    Args:
        cells: finished ones.
        evaluations: their tests.
        pairs: which batches (`drawn`).
    """
    for name, batch in pairs:
        again = compute(cells[name], evaluations, batch)
        yield _compared(name, batch, again, stored(cells[name], batch))


def recheck_kept(
    cells: Mapping[str, Cell], evaluations: Mapping[str, Evaluation], kept: pd.DataFrame
) -> Iterator[Rechecked]:
    """The same against rows that were kept of batches, where the run folders are elsewhere.

    Args:
        cells: finished or not.
        evaluations: their tests.
        kept: `method`, `batch`, `PLACE` and `value`; of the rows that are computed again, those that it has are compared.
    """
    for place, known in kept.groupby(["method", "batch"], sort=False):
        name, batch = cast(Pair, place)
        if name not in cells:
            raise UserError(f"rows are kept of the method '{name}', which the comparison does not have any more")
        again = compute(cells[name], evaluations, batch)
        yield _compared(name, batch, known[PLACE].merge(again, on=PLACE, how="left"), known)


def compute(cell: Cell, evaluations: Mapping[str, Evaluation], batch: int) -> pd.DataFrame:
    """The rows (`PLACE`, `value`) of all tests of one batch, explained and tested with nothing of what is stored.

    The batch is read as a whole, so that equal code on an equal machine gives equal digits. What a test is calibrated on is
    read in full, as it was.
    """
    data = replace(cell.data.excerpt(_Alone(batch)), calibration=cell.data.calibration)
    with TemporaryDirectory(prefix="recheck-") as place:
        whole = replace(cell, folder=Path(place) / "whole" / cell.folder.name)  # tests that look over all examples do
        again = whole.excerpt(Path(place) / cell.folder.name, data)
        finish(again, evaluations)
        return stored(again, 0)


def stored(cell: Cell, batch: int) -> pd.DataFrame:
    """The same rows as a finished cell has them."""
    _, rows = read_cell(cell.folder)
    return _rows(rows, cell.data.batches[batch].uids)


@dataclass(frozen=True)
class _Alone:
    """Chooses one batch."""

    batch: int

    def __call__(self, batches: Sequence[Batch]) -> Chosen:
        return Chosen(batches, [self.batch])


def _rows(rows: StoredRows, uids: Sequence[str]) -> pd.DataFrame:
    """The rows that some examples have, of all tests and metrics, in one frame."""
    parts = [pd.DataFrame(columns=[*PLACE, "value"])]
    for test, metrics in rows.tests.items():
        for metric in metrics:
            part = rows.read(test, metric)
            parts.append(part[part["uid"].isin(uids)].assign(test=test, metric=metric)[[*PLACE, "value"]])
    return pd.concat(parts[1:] or parts, ignore_index=True)


def _compared(name: str, batch: int, again: pd.DataFrame, known: pd.DataFrame) -> Rechecked:
    """The rows of the second time against those of the first."""
    both = again.merge(known[[*PLACE, "value"]], on=PLACE, how="left", suffixes=("", "_stored"), validate="one_to_one")
    off = (both["value"] - both["value_stored"]).abs()
    off = off.where(both["value"].notna() & both["value_stored"].notna(), math.inf)
    off[both["value"].isna() & both["value_stored"].isna()] = 0.0
    differences = []
    for row in both[off > ROUNDING].to_dict("records"):
        x = "" if math.isnan(row["x"]) else f" at {row['x']:g}"
        differences.append(
            f"{row['test']}.{row['metric']} of {row['uid']}{x}: {row['value_stored']} stored, {row['value']} now"
        )
    return Rechecked(name, batch, len(both), tuple(differences), float(off.max()) if len(off) else 0.0)
