"""What is left of a cell, and what it will take, from what one of its batches took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import pyarrow.parquet as pq

from benchmark.errors import NotApplicable
from benchmark.planning.measuring import Measured
from benchmark.progress.stopwatch import Passes
from benchmark.run.cell import Cell
from benchmark.run.data import Data
from benchmark.run.encoded import lengths_of
from benchmark.run.stages import PREDICTED, WITH_EDGES, Explaining, Searching, Stage, Testing, asked
from benchmark.run.steps import pending
from benchmark.run.testing import twin_of
from benchmark.types import Evaluation


@dataclass(frozen=True)
class Forecast:
    """What a cell will take.

    Attributes:
        stages: seconds of each batch that is left; none where the cell is finished.
        passes: forward and backward, of all that is left.
        around: seconds outside of the batches: statistics and files.
        disk_bytes: of the run folder when the cell is finished.
    """

    stages: Mapping[Stage, tuple[float, ...]]
    passes: Passes
    around: float
    disk_bytes: int

    @property
    def seconds(self) -> float:
        """Of one process."""
        return self.around + self.of_batches

    @property
    def of_batches(self) -> float:
        """Seconds that workers can share."""
        return sum(map(sum, self.stages.values()))

    @property
    def chain(self) -> float:
        """Seconds that no number of workers shortens: the stages follow one another, each at least its longest batch."""
        return self.around + sum(max(seconds, default=0.0) for seconds in self.stages.values())


def forecast(measured: Measured, cell: Cell, evaluations: Mapping[str, Evaluation]) -> Forecast:
    """What is left of a cell: what the measured batch took, seconds by the tokens of what is left, passes by its examples.

    Args:
        measured: one of its batches.
        cell: the whole cell.
        evaluations: the tests of the comparison.
    """
    stages: dict[Stage, tuple[float, ...]] = {}
    forward = backward = 0.0
    planned = pending(cell, evaluations)
    for place, stage in enumerate(planned):
        laps, twin = measured.taken.laps.get(stage.name), _twin(stage, cell, list(planned)[:place])
        if not laps and stage == WITH_EDGES:  # which the method did not give at once
            laps = measured.taken.laps.get(PREDICTED.name)
        if not laps:
            continue
        try:
            here, there = (_lengths(stage, data, others=twin is not None) for data in (measured.cell.data, cell.data))
        except NotApplicable:  # not all examples have labels: the comparison will have a dash
            continue
        if twin is not None and not any(here):  # the measured batch has no example of the kind
            laps, here = measured.taken.laps[twin.name], measured.cell.data.lengths
        done = cell.in_parts(stage)
        left = [lengths for number, lengths in enumerate(there) if number not in done]
        each = sum(lap.seconds for lap in laps) / sum(map(sum, here))
        seconds = tuple(each * sum(lengths) for lengths in left)
        stages[stage] = (sum(seconds),) if isinstance(stage, Searching) else seconds  # which no two workers share
        share = sum(map(len, left)) / sum(map(len, here))
        forward += share * sum(lap.passes[0] for lap in laps)
        backward += share * sum(lap.passes[1] for lap in laps)
    return Forecast(stages, (forward, backward), measured.taken.around, _disk_bytes(measured, cell, evaluations))


def _twin(stage: Stage, cell: Cell, before: Sequence[Stage]) -> Stage | None:
    """The stage of the predicted classes, where this one goes over those examples alone that have another label.

    Rows of a test are known where the same test of the predicted classes comes `before` it.
    """
    if isinstance(stage, Testing):
        test = twin_of(stage.evaluation)
        return Testing(test) if test is not None and Testing(test) in before else None
    if stage != Explaining(which="label") or not cell.method.class_specific:
        return None
    return WITH_EDGES if WITH_EDGES in before else PREDICTED


def _lengths(stage: Stage, data: Data, *, others: bool = False) -> list[list[int]]:
    """Tokens of each example that a stage goes over, by batch: of all, or of the `others`, whose label is not predicted."""
    batches = stage.batches(data)
    lengths = data.lengths if batches is data.batches else lengths_of(batches)
    if not others:
        return lengths
    differs = [data.target(index, "label").differs(data.target(index, "predicted")) for index in range(len(batches))]
    return [list(compress(batch, each.tolist())) for batch, each in zip(lengths, differs, strict=True)]


def _disk_bytes(measured: Measured, cell: Cell, evaluations: Mapping[str, Evaluation]) -> int:
    """Bytes of the whole cell's folder, of every file by its size in the measured one.

    Edge scores grow with pairs of tokens, other explanations with tokens, rows and what people read with examples. The
    record and the settings stay as they are, and so does what a file of rows says of its columns.
    """
    stages = {stage for test in evaluations.values() for stage in asked(test)} | {PREDICTED}
    explained = {measured.cell.path(stage): stage for stage in stages}
    more = cell.data.facts.n / measured.cell.data.facts.n

    def whole(path: Path) -> float:
        size, stage = path.stat().st_size, explained.get(path)
        if stage is not None:
            power = 2 if stage.gives == "edges" else 1
            here, there = (_lengths(stage, each.data) for each in (measured.cell, cell))
            amount_here, amount_there = (sum(n**power for batch in lengths for n in batch) for lengths in (here, there))
            return float(size * amount_there / amount_here)
        if path.suffix == ".parquet":
            of_columns = float(pq.ParquetFile(path).metadata.serialized_size)
            return of_columns + (size - of_columns) * more
        return size if path.name in ("record.json", "config.yaml") else size * more

    return round(sum(whole(path) for path in measured.cell.folder.iterdir() if path.is_file()))
