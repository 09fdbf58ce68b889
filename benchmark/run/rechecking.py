"""Rows of finished cells computed a second time, from nothing, and held against those that are stored."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmark.results.store import read_cell
from benchmark.run.cell import Cell
from benchmark.run.encoded import Chosen
from benchmark.run.steps import finish
from benchmark.types import Batch, Evaluation

_PLACE = ["uid", "x", "draw"]
ROUNDING = 1e-5
"""Largest difference that is rounding: tables show three decimals, and float32 has seven digits."""


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


def drawn(cells: Mapping[str, Cell], share: float, seed: int = 0) -> list[tuple[str, int]]:
    """A share of the pairs of a cell and a batch, at least one, drawn by the seed, in order."""
    pairs = [(name, batch) for name, cell in cells.items() for batch in range(len(cell.data.batches))]
    return sorted(Random(seed).sample(pairs, max(1, round(share * len(pairs)))), key=pairs.index)


def recheck(
    cells: Mapping[str, Cell], evaluations: Mapping[str, Evaluation], pairs: Sequence[tuple[str, int]]
) -> Iterator[Rechecked]:
    """Explain and test some batches again, with nothing of what is stored, and compare every row.

    A batch is read as a whole, so that equal code on an equal machine gives equal digits. What a test is calibrated on is
    read in full, as it was.

    Args:
        cells: finished ones.
        evaluations: their tests.
        pairs: name of a cell and number of a batch (`drawn`).
    """
    for name, batch in pairs:
        cell = cells[name]
        data = replace(cell.data.excerpt(_Alone(batch)), calibration=cell.data.calibration)
        with TemporaryDirectory(prefix="recheck-") as place:
            empty = replace(
                cell, folder=Path(place) / "whole" / cell.folder.name
            )  # tests that look over all examples do
            again = empty.excerpt(Path(place) / cell.folder.name, data)
            finish(again, evaluations)
            yield _compared(name, batch, cell.folder, again.folder)


@dataclass(frozen=True)
class _Alone:
    """Chooses one batch."""

    batch: int

    def __call__(self, batches: Sequence[Batch]) -> Chosen:
        return Chosen(batches, [self.batch])


def _compared(name: str, batch: int, stored: Path, again: Path) -> Rechecked:
    """The rows of the second folder against those of the first."""
    (_, old), (_, new) = read_cell(stored), read_cell(again)
    differences, count, largest = [], 0, 0.0
    for test, metrics in new.tests.items():
        for metric in metrics:
            rows, known = new.read(test, metric), old.read(test, metric)
            both = rows.merge(known, on=_PLACE, how="left", suffixes=("", "_stored"), validate="one_to_one")
            count += len(both)
            off = (both["value"] - both["value_stored"]).abs()
            off = off.where(both["value"].notna() & both["value_stored"].notna(), math.inf)
            off[both["value"].isna() & both["value_stored"].isna()] = 0.0
            largest = max(largest, float(off.max()) if len(off) else 0.0)
            for row in both[off > ROUNDING].to_dict("records"):
                x = "" if math.isnan(row["x"]) else f" at {row['x']:g}"
                differences.append(
                    f"{test}.{metric} of {row['uid']}{x}: {row['value_stored']} stored, {row['value']} now"
                )
    return Rechecked(name, batch, count, tuple(differences), largest)
