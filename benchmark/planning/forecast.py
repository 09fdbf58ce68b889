"""What a cell will take, from what the rounds of a pilot took."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from benchmark.planning.fitting import Line, Shape, fit, straight
from benchmark.planning.pilot import Pilot, Round
from benchmark.progress.stopwatch import Lap
from benchmark.progress.stopwatch import Taken as Spent
from benchmark.run.cell import Cell
from benchmark.run.stages import PREDICTED, Explaining, Stage, Testing, asked
from benchmark.run.steps import pending
from benchmark.run.testing import twin_of
from benchmark.types import Batch, Evaluation

_ANOTHER = Explaining(which="label")
_SEARCH = "searching calibration examples"


@dataclass(frozen=True)
class Taken:
    """What one go of a cell over batches will take.

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
        stages: each with what it will take; none where the cell is finished.
        around: seconds outside of the batches: statistics, files, and what is searched for once.
        around_passes: passes there.
    """

    stages: Mapping[Stage, Taken]
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
        self.differing = _differing(self.rounds)

    def __call__(self, cell: Cell) -> Forecast:
        """What is left to do of a cell of the comparison."""
        kin = self.like[cell.name]
        stages = {}
        for stage in pending(cell, self.evaluations):
            owner = kin if isinstance(stage, Testing) else cell.name
            if (taken := self._stage(stage, owner, stage.batches(cell.data))) is not None:
                stages[stage] = taken
        rounds = [each.taken[kin] for each in self.rounds]
        sizes = [each.data.facts.n for each in self.rounds]
        searched = [one.steps.get(_SEARCH, 0.0) for one in rounds]
        around = straight(sizes, [one.around - s for one, s in zip(rounds, searched, strict=True)], cell.data.facts.n)
        scale = self._searched(cell) if any(searched) else 0.0
        passes = _outside(rounds[-1])
        return Forecast(stages, around + searched[-1] * scale, (passes[0] * scale, passes[1] * scale))

    def _stage(self, stage: Stage, method: str, batches: Sequence[Batch]) -> Taken | None:
        """What a stage takes; None where the pilot found that it is not asked for."""
        share = 1.0
        twin = twin_of(stage.evaluation) if isinstance(stage, Testing) else None
        if stage == _ANOTHER and self._laps(method, [stage]):
            stage, share = PREDICTED, self.differing
        elif twin is not None and self._laps(method, [Testing(twin)]):
            stage, share = Testing(twin), self.differing
        found = self._laps(method, [stage])
        if not found:
            return None
        if stage in (samples := self._samples()):  # explaining costs the same, whichever examples
            found = self._laps(method, samples)
        line: Line = fit([shape for shape, _ in found], [lap.seconds for _, lap in found])
        seconds = tuple(line(Shape(len(batch) * share, batch.units.shape[1])) for batch in batches)
        if not share:
            seconds = (0.0,) * len(batches)
        typical = self._laps(method, [stage], self.rounds[-1:]) or found
        examples, measured = sum(map(len, batches)) * share, sum(shape.examples for shape, _ in typical)
        per = [sum(lap.passes[kind] for _, lap in typical) / measured for kind in (0, 1)]
        return Taken(seconds, (per[0] * examples, per[1] * examples))

    def _laps(
        self, method: str, stages: Iterable[Stage], rounds: Sequence[Round] | None = None
    ) -> list[tuple[Shape, Lap]]:
        """What the batches of these stages took, in all rounds or in some."""
        return [
            (Shape(len(batch), batch.units.shape[1]), lap)
            for each in (self.rounds if rounds is None else rounds)
            for stage in stages
            if (laps := each.taken[method].laps.get(stage.name))
            for batch, lap in zip(stage.batches(each.data), laps, strict=True)
        ]

    def _samples(self) -> list[Stage]:
        """The stages that explain one class of the scored examples, or of others."""
        of_tests = [stage for test in self.evaluations.values() for stage in asked(test) if stage.sample is not None]
        return [PREDICTED, *dict.fromkeys(of_tests)]

    def _searched(self, cell: Cell) -> float:
        """How many times more calibration tokens than the last round had a search goes over."""
        shares = []
        for test in self.evaluations.values():
            if test.reads == "method":
                split, limit = test.calibration.split, test.calibration.limit
                whole, some = cell.data.calibration(split, limit), self.rounds[-1].data.calibration(split, limit)
                shares.append(_tokens(whole) / _tokens(some))
        return mean(shares) if shares else 0.0


def _outside(taken: Spent) -> tuple[float, float]:
    laps = [lap for laps in taken.laps.values() for lap in laps]
    return taken.passes[0] - sum(lap.passes[0] for lap in laps), taken.passes[1] - sum(lap.passes[1] for lap in laps)


def _tokens(batches: Sequence[Batch]) -> int:
    return sum(batch.units.numel() for batch in batches)


def _differing(rounds: Sequence[Round]) -> float:
    """The share of the pilot's examples whose label is not the predicted class."""
    pairs = [
        (each.data.target(index, "predicted").classes, batch.label)
        for each in rounds
        for index, batch in enumerate(each.data.batches)
    ]
    return sum(int((predicted != label).sum()) for predicted, label in pairs) / sum(len(label) for _, label in pairs)
