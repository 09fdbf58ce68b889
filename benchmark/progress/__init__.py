"""What long work says of itself while it is done: log records that carry an event, for whoever shows them.

Every part of the benchmark may say what it does (`scope`, `step`), and none has to be handed an object for it: an event is
the attribute `progress` of a record of the logger `benchmark.progress`, at level DEBUG. `benchmark.progress.bar` listens on
a terminal; where nobody listens an event costs a comparison of two numbers. What belongs in a log as well (a finished cell,
say) is an ordinary line at level INFO of the part that says it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from benchmark.signals import raise_if_received

logger = logging.getLogger("benchmark.progress")

Kind = Literal["cell", "analysis", "report"]
Scope = tuple[Kind, str]
"""Kind and name of a part of a comparison."""


@dataclass(frozen=True)
class Planned:
    """What a comparison has before it: the steps of each part and the examples that each step goes over; none if reused."""

    parts: Mapping[Scope, Mapping[str, int]]


@dataclass(frozen=True)
class Began:
    """A part of a comparison (`kind` is given) or a step began; steps lie within parts and within each other.

    Attributes:
        name: what the plan calls it.
        label: what a person reads.
        total: how many things it goes over; None where that is not known.
        done: how many of them an earlier start did.
        unit: what the things are.
        kind: of a part of a comparison.
    """

    name: str
    label: str
    total: int | None = None
    done: int = 0
    unit: str = "examples"
    kind: Kind | None = None


@dataclass(frozen=True)
class Advanced:
    """The innermost step did so many things more."""

    count: int


@dataclass(frozen=True)
class Ended:
    """What began last is over, whether it came to its end or not."""


Event = Planned | Began | Advanced | Ended


def watched() -> bool:
    """Whether anybody listens: a plan that takes time to make need not be made for nobody."""
    return logger.isEnabledFor(logging.DEBUG)


def emit(event: Event) -> None:
    """Tell an event to whoever listens."""
    logger.debug("%s", event, extra={"progress": event})


@contextmanager
def scope(kind: Kind, name: str) -> Iterator[None]:
    """A part of a comparison, while it is worked on."""
    emit(Began(name, name, kind=kind))
    try:
        yield
    finally:
        emit(Ended())


@contextmanager
def step(
    name: str, total: int | None = None, *, label: str = "", done: int = 0, unit: str = "examples"
) -> Iterator[Callable[[int], None]]:
    """A step, while it is worked on; gives the function that is called with how many things were done since.

    Args:
        name: what it is, in a plan too.
        total: how many things it goes over, None where that is not known.
        label: what a person reads, where that is not the name.
        done: how many of them an earlier start did.
        unit: what the things are.

    Raises:
        KeyboardInterrupt: a signal came and what it raised was lost (`benchmark.signals`).
    """
    raise_if_received()

    def advance(count: int) -> None:
        raise_if_received()
        emit(Advanced(count))

    emit(Began(name, label or name, total, done, unit))
    try:
        yield advance
    finally:
        emit(Ended())


def duration(seconds: float) -> str:
    """A time as a person says it: 0.4 s, 42 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
