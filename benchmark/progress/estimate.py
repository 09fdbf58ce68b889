"""What is left of a comparison, and about how long it takes, from the events of `benchmark.progress`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from benchmark.progress import Advanced, Began, Ended, Event, Planned, Scope

KNOWN_SHARE = 0.5
"""An estimate is given once this share of the examples that are left belongs to steps whose pace was measured."""


@dataclass(frozen=True)
class View:
    """What is known at one moment; it does not change, so that another thread may draw it.

    Attributes:
        labels: what is worked on, from the outermost to the innermost.
        counted: done, total and unit of the innermost step that has a total.
        cells_left: cells that are to be computed, the current one included.
        cells: all cells; 0 where nothing was planned.
        done: examples of planned steps that are done, each counted once for every step that goes over it.
        left: those that are not.
        others: estimated seconds of all but the current step; None where there is no estimate.
        current: estimated seconds of the rest of the current step, when it last got on.
        since: when that was.
        began: when the first event came.
    """

    labels: tuple[str, ...]
    counted: tuple[int, int, str] | None
    cells_left: int
    cells: int
    done: int
    left: int
    others: float | None
    current: float
    since: float
    began: float

    def seconds_left(self, now: float) -> float | None:
        """Estimated seconds until the last cell is finished (without a plan: the step), None where nothing is known."""
        return None if self.others is None else self.others + max(0.0, self.current - (now - self.since))


@dataclass
class _Frame:
    """Something that began and is not over; `since` is when it began or last got on."""

    begin: Began
    start: float
    since: float
    done: int
    timed: float = 0.0  # seconds of the steps below it whose pace was measured


@dataclass
class _Pace:
    """Seconds and the examples, or the cells, that they went to."""

    seconds: float = 0.0
    count: int = 0

    def add(self, seconds: float, count: int) -> None:
        self.seconds, self.count = self.seconds + seconds, self.count + count

    @property
    def each(self) -> float:
        return self.seconds / self.count if self.count else 0.0


@dataclass
class Outlook:
    """Follows a comparison.

    A step's pace is that of all steps of its name, whichever the method; the others go at the mean pace. A cell that is
    reused has no steps in the plan and takes no part in any pace. What lies within what is told by thread; of several that
    work at the same time the one is shown that got on last, and what is left is taken to be divided among them.
    """

    began: float
    _parts: dict[Scope, dict[str, int]] = field(default_factory=dict)
    _threads: dict[int, list[_Frame]] = field(default_factory=dict)
    _frames: list[_Frame] = field(default_factory=list)  # of the thread that got on last
    _paces: dict[str, _Pace] = field(default_factory=dict)
    _around: _Pace = field(default_factory=_Pace)  # of a cell, outside of its steps
    _done: int = 0

    def take(self, event: Event, now: float, thread: int = 0) -> None:
        """Follow one event of a thread, which happened at `now` (seconds of any clock that does not go back)."""
        self._threads = {number: frames for number, frames in self._threads.items() if frames}
        self._frames = self._threads.setdefault(thread, [])
        if isinstance(event, Planned):
            self._parts = {part: dict(steps) for part, steps in event.parts.items()}
        elif isinstance(event, Began):
            self._frames.append(_Frame(event, now, now, event.done))
            self._count(event, event.done)
        elif isinstance(event, Advanced) and self._frames:
            self._advance(event.count, now)
        elif isinstance(event, Ended) and self._frames:
            self._end(self._frames.pop(), now)

    def _advance(self, count: int, now: float) -> None:
        frame = self._frames[-1]
        seconds = now - frame.since
        self._paces.setdefault(frame.begin.name, _Pace()).add(seconds, count)
        for outer in self._frames[:-1]:
            outer.timed += seconds
            outer.since = now  # what an inner step took is not counted once more
        frame.since, frame.done = now, frame.done + count
        self._count(frame.begin, count)

    def _count(self, begin: Began, count: int) -> None:
        """So many examples of a planned step are done."""
        steps = self._steps()
        if begin.kind is None and begin.name in steps:
            count = min(count, steps[begin.name])
            steps[begin.name] -= count
            self._done += count

    def _end(self, frame: _Frame, now: float) -> None:
        kind, name = frame.begin.kind, frame.begin.name
        if kind is None:
            if frame.begin.total is not None:
                self._steps().pop(name, None)
            return
        if self._frames:  # a cell of an analysis, which the plan does not know
            return
        if kind != "cell":  # which goes over no examples that were counted
            self._done += sum(self._parts.get((kind, name), {}).values())
        elif frame.timed:
            self._around.add(now - frame.start - frame.timed, 1)
        self._parts[kind, name] = {}

    def _steps(self) -> dict[str, int]:
        """What is left of the steps of the part that is worked on."""
        if not self._frames or (kind := self._frames[0].begin.kind) is None:
            return {}
        return self._parts.get((kind, self._frames[0].begin.name), {})

    def view(self) -> View:
        """What is known now."""
        counted = next((f for f in reversed(self._frames) if f.begin.total is not None), None)
        cells = [part for part in self._parts if part[0] == "cell"]
        others, current, since = self._estimate(counted)
        others = None if others is None else others / self._side_by_side()
        return View(
            labels=tuple(dict.fromkeys(frame.begin.label for frame in self._frames)),
            counted=None if counted is None else (counted.done, counted.begin.total or 0, counted.begin.unit),
            cells_left=sum(bool(self._parts[part]) for part in cells),
            cells=len(cells),
            done=self._done,
            left=sum(sum(steps.values()) for steps in self._parts.values()),
            others=others,
            current=current,
            since=since,
            began=self.began,
        )

    def _estimate(self, counted: _Frame | None) -> tuple[float | None, float, float]:
        """Seconds of all but the current step, seconds of the rest of that, and when it last got on."""
        left = self._left_in_cells() if self._parts else self._left_of(counted)
        known = sum(count for name, count in left if name in self._paces)
        everything = sum(count for _, count in left)
        since = self._frames[-1].since if self._frames else self.began
        if not everything or known < KNOWN_SHARE * everything:
            return None, 0.0, since
        mean = self._mean([name for name, _ in left if name in self._paces])
        seconds = {name: self._paces[name].each if name in self._paces else mean for name, _ in left}
        total = sum(count * seconds[name] for name, count in left)
        mine = 0.0
        if counted is not None and counted.begin.name in seconds:
            here = (
                self._steps().get(counted.begin.name, 0) if self._parts else (counted.begin.total or 0) - counted.done
            )
            mine, since = here * seconds[counted.begin.name], counted.since
        cells = sum(bool(steps) for (kind, _), steps in self._parts.items() if kind == "cell")
        return total - mine + cells * self._around.each, mine, since

    def _side_by_side(self) -> int:
        """How many cells are worked on."""
        return max(1, sum(bool(frames) and frames[0].begin.kind == "cell" for frames in self._threads.values()))

    def _mean(self, names: list[str]) -> float:
        paces = [self._paces[name] for name in dict.fromkeys(names)]
        return sum(pace.seconds for pace in paces) / sum(pace.count for pace in paces)

    def _left_in_cells(self) -> list[tuple[str, int]]:
        return [item for part, steps in self._parts.items() if part[0] == "cell" for item in _positive(steps)]

    def _left_of(self, counted: _Frame | None) -> list[tuple[str, int]]:
        return [] if counted is None else [(counted.begin.name, (counted.begin.total or 0) - counted.done)]


def _positive(steps: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    return ((name, count) for name, count in steps.items() if count > 0)
