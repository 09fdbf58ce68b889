"""What each part and each step of a comparison took, from the events of `benchmark.progress`."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmark.progress import Advanced, Began, Ended, Event, Scope, logger

Passes = tuple[float, float]
"""Forward and backward passes, counted in examples."""


@dataclass(frozen=True)
class Lap:
    """What one batch took.

    Attributes:
        seconds: of the clock.
        passes: forward and backward.
    """

    seconds: float
    passes: Passes


@dataclass
class Taken:
    """What a part of a comparison took.

    Attributes:
        seconds: of the clock, from its beginning to its end.
        passes: forward and backward.
        laps: of each step that goes over batches, in their order.
        steps: seconds of the steps that do not, by name.
    """

    seconds: float = 0.0
    passes: Passes = (0.0, 0.0)
    laps: dict[str, list[Lap]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def around(self) -> float:
        """Seconds outside of the laps."""
        return self.seconds - sum(lap.seconds for laps in self.laps.values() for lap in laps)


@dataclass
class _Frame:
    begin: Began
    start: float
    since: float
    passes: Passes
    before: Passes


class Stopwatch(logging.Handler):
    """Listens to events.

    Args:
        clock: gives seconds.

    Attributes:
        count: gives the passes so far; a comparison sets it when its model is loaded.
        parts: what is known of each part of the comparison.
        steps: seconds of the steps outside of all parts, by name.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(logging.DEBUG)
        self._clock = clock
        self.count: Callable[[], Passes] = lambda: (0.0, 0.0)
        self.parts: dict[Scope, Taken] = defaultdict(Taken)
        self.steps: dict[str, float] = defaultdict(float)
        self._threads: dict[int, list[_Frame]] = defaultdict(list)

    def emit(self, record: logging.LogRecord) -> None:
        """Follow one event."""
        event: Event | None = getattr(record, "progress", None)
        frames, now = self._threads[record.thread or 0], self._clock()
        if isinstance(event, Began):
            passes = self.count()
            frames.append(_Frame(event, now, now, passes, passes))
        elif isinstance(event, Advanced) and frames:
            self._lap(frames, now)
        elif isinstance(event, Ended) and frames:
            self._end(frames, now)

    def _lap(self, frames: list[_Frame], now: float) -> None:
        frame, passes = frames[-1], self.count()
        if (part := self._part(frames)) is not None:
            part.laps[frame.begin.name].append(Lap(now - frame.since, _less(passes, frame.passes)))
        frame.since, frame.passes = now, passes

    def _end(self, frames: list[_Frame], now: float) -> None:
        frame, part = frames[-1], self._part(frames)
        took = now - frame.start
        if part is None:
            self.steps[frame.begin.name] += took
        elif frame.begin.kind is not None and len(frames) == 1:
            part.seconds += took
            spent = _less(self.count(), frame.before)
            part.passes = (part.passes[0] + spent[0], part.passes[1] + spent[1])
        elif frame.begin.total is None:
            part.steps[frame.begin.name] += took
        frames.pop()

    def _part(self, frames: list[_Frame]) -> Taken | None:
        """The part that is worked on; None outside of all."""
        outer = frames[0].begin
        return None if outer.kind is None else self.parts[outer.kind, outer.name]


def _less(passes: Passes, before: Passes) -> Passes:
    return passes[0] - before[0], passes[1] - before[1]


@contextmanager
def timed(clock: Callable[[], float] = time.perf_counter) -> Iterator[Stopwatch]:
    """A stopwatch that listens while the block runs; afterwards the logger is as it was."""
    watch, level = Stopwatch(clock), logger.level
    propagates = logger.propagate
    logger.addHandler(watch)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield watch
    finally:
        logger.removeHandler(watch)
        logger.setLevel(level)
        logger.propagate = propagates
