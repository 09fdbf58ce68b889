"""What a comparison asks of whoever computes its batches."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Concatenate, Generic, Protocol, TypeVar, runtime_checkable

from benchmark.models import Classifier
from benchmark.types import Batch

T = TypeVar("T")

Work = Callable[Concatenate[Classifier, Batch, ...], T]
"""`(model, batch, *inputs) -> result`. It holds all else that it needs and can be pickled: a frozen dataclass, a module's
function. What it gives hangs on its arguments alone, so that it is the same in every process and may be computed again."""


@dataclass(frozen=True)
class Series(Generic[T]):
    """One piece of work for each of several batches.

    Attributes:
        model: the classifier that computes.
        work: what is done with a batch.
        batches: in the order of the results.
        inputs: what the work needs beside the batch of a number; asked for when it is about to be computed.
    """

    model: Classifier
    work: Work[T]
    batches: Sequence[Batch]
    inputs: Callable[[int], tuple[object, ...]]


def nothing(index: int) -> tuple[object, ...]:
    """The `inputs` of work that needs a batch alone."""
    return ()


@runtime_checkable
class Runner(Protocol):
    """Computes, for as long as a comparison takes."""

    @property
    def at_once(self) -> int:
        """How many methods it is worth to work on at the same time, each in a thread of its own."""

    def results(self, series: Series[T], numbers: Sequence[int] | None = None) -> Iterator[T]:
        """The results of the batches of these numbers, in their order; None: of all batches.

        Raises:
            UserError, NotApplicable: as the work raised it.
            ShardError: the work failed time and again, or lost its worker.
            LostError: what all workers live in is gone.
        """

    def peak_memory(self) -> int:
        """Bytes: the most that a process which computes has held so far."""

    def stop(self) -> None:
        """Whoever waits for a result gets an exception at once, in every thread."""


@runtime_checkable
class Engine(Protocol):
    """How batches are computed: the setting `engine`, which changes no number and enters no folder's name."""

    def opened(self, model: Classifier) -> AbstractContextManager[Runner]:
        """A runner for work with this model; what it started ends with the block."""


class ShardError(RuntimeError):
    """Work that failed in every attempt; the message holds the traceback of the last one."""


class StoppedError(RuntimeError):
    """The comparison ends, and what was still to be computed is not."""
