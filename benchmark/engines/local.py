"""This process: one batch after another."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from benchmark.engines.base import Series
from benchmark.engines.memory import Fitted
from benchmark.models import Classifier
from benchmark.settings.declared import configurable

T = TypeVar("T")


@configurable
class Local:
    """Compute in this process, one method and one batch after another."""

    @contextmanager
    def opened(self, model: Classifier) -> Iterator["Here"]:
        """Nothing has to be started."""
        yield Here()


@dataclass(frozen=True)
class Here:
    """Computes a result when it is asked for."""

    at_once: int = 1

    def results(self, series: Series[T], begin: int = 0) -> Iterator[T]:
        """The result of each batch from number `begin` on."""
        work = Fitted(series.work, series.model)
        for index in range(begin, len(series.batches)):
            yield work(series.batches[index], *series.inputs(index))

    def peak_memory(self) -> int:
        """That of this process."""
        return peak_memory()

    def stop(self) -> None:
        """Nobody waits."""


def peak_memory() -> int:
    """Bytes: the most that the GPU's allocator held, or, without a GPU, the process's high-water mark so far."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
