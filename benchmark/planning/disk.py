"""How much a run folder will hold."""

from collections.abc import Sequence
from pathlib import Path

from benchmark.planning.fitting import straight
from benchmark.planning.pilot import Pilot, Round
from benchmark.run.cell import Cell, stage_batches
from benchmark.types import Batch

_BY_TOKENS = ("attributions-", "classes")
_BY_PAIRS = ("edges-",)


def run_folder_bytes(pilot: Pilot, cell: Cell) -> int:
    """Bytes of a cell's run folder, of every file by its size in the pilot's rounds.

    Arrays grow with tokens, those of edges with pairs of tokens, the other files with examples. What the pilot did not
    write for the method, as it did not test it, is taken from the method that stands for it.
    """
    kin = pilot.like[cell.name]
    names = {name for each in pilot.rounds for owner in (kin, cell.name) for name in _files(each.cells[owner].folder)}
    return round(sum(_of_file(pilot, cell, kin, name) for name in names))


def _of_file(pilot: Pilot, cell: Cell, kin: str, name: str) -> float:
    own = name.endswith(".safetensors")
    sizes = [_size(each, cell.name if own else kin, name) for each in pilot.rounds]
    if not any(sizes):
        return 0.0
    stage = name.removesuffix(".safetensors")
    batches, whole = [each.batches(stage) for each in pilot.rounds], stage_batches(cell.data, stage)
    power = 2 if name.startswith(_BY_PAIRS) else 1 if name.startswith(_BY_TOKENS) else 0
    amounts = [_amount(some, power) for some in batches]
    return straight(amounts, sizes, _amount(whole, power))


def _amount(batches: Sequence[Batch], power: int) -> float:
    """Examples, tokens or pairs of tokens, without padding."""
    return float(sum(int((batch.attention_mask.sum(1) ** power).sum()) for batch in batches))


def _size(each: Round, method: str, name: str) -> float:
    path = each.cells[method].folder / name
    return float(path.stat().st_size) if path.is_file() else 0.0


def _files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
