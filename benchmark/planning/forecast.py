"""What a cell will take, from what the rounds of a pilot took."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from benchmark.planning.fitting import Line, Shape, fit, straight
from benchmark.planning.pilot import Pilot, Round
from benchmark.progress.stopwatch import Lap, Taken
from benchmark.run.cell import CALIBRATION, Cell, stage_batches
from benchmark.run.offers import TwinEvaluation
from benchmark.run.records import pending
from benchmark.run.tested_rows import rows_stage
from benchmark.types import Batch, Evaluation

_EXPLAINED = "attributions-predicted"
_ANOTHER = "attributions-label"
_SEARCH = "searching calibration examples"


@dataclass(frozen=True)
class Stage:
    """One go of a cell over batches.

    Attributes:
        seconds: of each batch.
        passes: forward and backward, of all.
    """

    seconds: tuple[float, ...]
    passes: tuple[float, float]


@dataclass(frozen=True)
class Forecast:
    """What a cell will take.

    Attributes:
        stages: by name; none where the cell is finished.
        around: seconds outside of the batches: statistics, files, and what is searched for once.
        around_passes: passes there.
    """

    stages: Mapping[str, Stage]
    around: float = 0.0
    around_passes: tuple[float, float] = (0.0, 0.0)

    @property
    def seconds(self) -> float:
        """Of one process."""
        return self.around + self.of_batches

    @property
    def of_batches(self) -> float:
        """Seconds that workers can share."""
        return sum(sum(stage.seconds) for stage in self.stages.values())

    @property
    def passes(self) -> tuple[float, float]:
        """Forward and backward."""
        forward, backward = self.around_passes
        return forward + sum(s.passes[0] for s in self.stages.values()), backward + sum(
            s.passes[1] for s in self.stages.values()
        )

    @property
    def chain(self) -> float:
        """Seconds that no number of workers shortens: the stages follow one another, each at least its longest batch."""
        return self.around + sum(max(stage.seconds, default=0.0) for stage in self.stages.values())


class Forecaster:
    """Makes forecasts.

    Args:
        pilot: that was run.
        evaluations: of the comparison.
    """

    def __init__(self, pilot: Pilot, evaluations: Mapping[str, Evaluation]) -> None:
        self.rounds, self.like, self.evaluations = pilot.rounds, pilot.like, evaluations
        self.twins = {
            rows_stage(test): rows_stage(test.for_predicted)
            for test in evaluations.values()
            if isinstance(test, TwinEvaluation) and test.target == "label"
        }
        self.differing = _differing(self.rounds)

    def __call__(self, cell: Cell) -> Forecast:
        """What is left to do of a cell of the comparison."""
        names, kin = pending(cell, self.evaluations), self.like[cell.name]
        stages = {}
        for name in names:
            owner = kin if name.startswith("rows-") else cell.name
            if (stage := self._stage(name, owner, stage_batches(cell.data, name))) is not None:
                stages[name] = stage
        taken = [each.taken[kin] for each in self.rounds]
        sizes = [each.data.facts.n for each in self.rounds]
        searched = [one.steps.get(_SEARCH, 0.0) for one in taken]
        around = straight(sizes, [one.around - s for one, s in zip(taken, searched, strict=True)], cell.data.facts.n)
        scale = self._searched(cell) if any(searched) else 0.0
        passes = _outside(taken[-1])
        return Forecast(stages, around + searched[-1] * scale, (passes[0] * scale, passes[1] * scale))

    def _stage(self, name: str, method: str, batches: Sequence[Batch]) -> Stage | None:
        """What a stage takes; None where the pilot found that it is not asked for."""
        share = 1.0
        if name == _ANOTHER and self._laps(method, [name]):
            name, share = _EXPLAINED, self.differing
        elif name in self.twins and self._laps(method, [self.twins[name]]):
            name, share = self.twins[name], self.differing
        explaining = name == _EXPLAINED or name.startswith(CALIBRATION)
        found = self._laps(method, [name])
        if not found:
            return None
        if explaining:  # explaining costs the same, whichever examples
            found = self._laps(method, [_EXPLAINED, *(n for n in self._names(method) if n.startswith(CALIBRATION))])
        line: Line = fit([shape for shape, _ in found], [lap.seconds for _, lap in found])
        seconds = tuple(line(Shape(len(batch) * share, batch.units.shape[1])) for batch in batches)
        if not share:
            seconds = (0.0,) * len(batches)
        typical = self._laps(method, [name], self.rounds[-1:]) or found
        examples, measured = sum(map(len, batches)) * share, sum(shape.examples for shape, _ in typical)
        per = [sum(lap.passes[kind] for _, lap in typical) / measured for kind in (0, 1)]
        return Stage(seconds, (per[0] * examples, per[1] * examples))

    def _laps(
        self, method: str, names: Iterable[str], rounds: Sequence[Round] | None = None
    ) -> list[tuple[Shape, Lap]]:
        """What the batches of these stages took, in all rounds or in some."""
        return [
            (Shape(len(batch), batch.units.shape[1]), lap)
            for each in (self.rounds if rounds is None else rounds)
            for name in names
            if (laps := each.taken[method].laps.get(name))
            for batch, lap in zip(each.batches(name), laps, strict=True)
        ]

    def _names(self, method: str) -> list[str]:
        return list(dict.fromkeys(name for each in self.rounds for name in each.taken[method].laps))

    def _searched(self, cell: Cell) -> float:
        """How many times more calibration tokens than the last round had a search goes over."""
        shares = []
        for test in self.evaluations.values():
            if test.reads == "method":
                split, limit = test.calibration.split, test.calibration.limit  # type: ignore[attr-defined]
                whole, some = cell.data.calibration(split, limit), self.rounds[-1].data.calibration(split, limit)
                shares.append(_tokens(whole) / _tokens(some))
        return mean(shares) if shares else 0.0


def _outside(taken: Taken) -> tuple[float, float]:
    laps = [lap for laps in taken.laps.values() for lap in laps]
    return taken.passes[0] - sum(lap.passes[0] for lap in laps), taken.passes[1] - sum(lap.passes[1] for lap in laps)


def _tokens(batches: Sequence[Batch]) -> int:
    return sum(batch.units.numel() for batch in batches)


def _differing(rounds: Sequence[Round]) -> float:
    """The share of the pilot's examples whose label is not the predicted class."""
    pairs = [
        (each.data.target(index, "predicted"), batch.label)
        for each in rounds
        for index, batch in enumerate(each.data.batches)
    ]
    return sum(int((predicted != label).sum()) for predicted, label in pairs) / sum(len(label) for _, label in pairs)
