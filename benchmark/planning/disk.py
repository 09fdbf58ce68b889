"""How much a run folder will hold."""

from collections.abc import Sequence
from pathlib import Path

from benchmark.planning.fitting import straight
from benchmark.planning.pilot import Pilot, Round
from benchmark.run.cell import Cell
from benchmark.run.stages import PREDICTED, Explaining, asked
from benchmark.types import Batch


def run_folder_bytes(pilot: Pilot, cell: Cell) -> int:
    """Bytes of a cell's run folder, of every file by its size in the pilot's rounds.

    Arrays grow with tokens, those of edges with pairs of tokens, the other files with examples. What the pilot did not
    write for the method, as it did not test it, is taken from the method that stands for it.
    """
    kin = pilot.like[cell.name]
    stages = [PREDICTED, *(stage for test in pilot.evaluations.values() for stage in asked(test))]
    of_stages = {cell.path(stage).name: stage for stage in stages}
    names = {name for each in pilot.rounds for owner in (kin, cell.name) for name in _files(each.cells[owner].folder)}
    return round(sum(_of_file(pilot, cell, name, of_stages.get(name)) for name in names))


def _of_file(pilot: Pilot, cell: Cell, name: str, stage: Explaining | None) -> float:
    owner = pilot.like[cell.name] if stage is None else cell.name
    sizes = [_size(each, owner, name) for each in pilot.rounds]
    if not any(sizes):
        return 0.0
    if stage is None:
        return straight([float(each.data.facts.n) for each in pilot.rounds], sizes, float(cell.data.facts.n))
    power = 2 if stage.gives == "edges" else 1
    amounts = [_amount(stage.batches(each.data), power) for each in pilot.rounds]
    return straight(amounts, sizes, _amount(stage.batches(cell.data), power))


def _amount(batches: Sequence[Batch], power: int) -> float:
    """Tokens or pairs of tokens, without padding."""
    return float(sum(int((batch.attention_mask.sum(1) ** power).sum()) for batch in batches))


def _size(each: Round, method: str, name: str) -> float:
    path = each.cells[method].folder / name
    return float(path.stat().st_size) if path.is_file() else 0.0


def _files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
