"""This process: one batch after another; work that runs out of memory is done again in smaller chunks."""

import gc
import logging
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch

from benchmark.engines.base import Series, Work
from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.recomputing import is_long
from benchmark.settings.declared import configurable
from benchmark.types import Batch

T = TypeVar("T")

logger = logging.getLogger(__name__)

# What PyTorch says of memory in a plain RuntimeError: its allocator on the CPU, and that of Apple's GPUs.
_REFUSALS = ("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory", "out of memory")


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

    def results(self, series: Series[T], numbers: Sequence[int] | None = None) -> Iterator[T]:
        """The results of the batches of these numbers; None: of all batches."""
        work = Fitted(series.work, series.model)
        for index in range(len(series.batches)) if numbers is None else numbers:
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


class Fitted(Generic[T]):
    """A piece of work whose chunks are halved when memory runs out, until they fit.

    The two budgets that every chunk is cut by, `Classifier.memory_budget` and `max_tokens`, are halved for the batch that
    did not fit and for those that follow, which is said once. The first also decides when one example is explained block by
    block (`recomputing.is_long`). Passes of the attempt that failed are not counted.

    Args:
        work: as `engines.base.Work`; it may be computed again.
        model: the classifier that it is given.

    Raises:
        UserError: (when called) one example at a time is too much.
    """

    def __init__(self, work: Work[T], model: Classifier) -> None:
        self.work, self._model = work, model
        self._said = False

    def __call__(self, batch: Batch, *inputs: object) -> T:
        """The result for a batch."""
        while True:
            before = replace(self._model.cost)
            try:
                return self.work(self._model, batch, *inputs)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                reason = next(iter(str(error).splitlines()), "MemoryError")
            # here the traceback is gone, and what its frames held
            self._model.cost.restore(before)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            self._halve(batch, reason)

    def _halve(self, batch: Batch, reason: str) -> None:
        model, tokens = self._model, batch.units.shape[1]
        one_at_a_time = model.rows_per_chunk(tokens, layers=1) == 1 and model.max_tokens <= tokens
        if one_at_a_time and is_long(model, tokens):
            raise UserError(
                f"out of memory, with one example of {tokens} tokens at a time ({reason}); choose a smaller model.window, a "
                "smaller batch_size or model.dtype=bfloat16"
            )
        tokens_at_once, budget = max(1, model.max_tokens // 2), max(1, model.memory_budget // 2)
        self._model = replace(model, max_tokens=tokens_at_once, memory_budget=budget)
        if not self._said:
            logger.warning(
                "out of memory (%s): chunks are halved until they fit; a smaller model.memory_budget (here %d) and "
                "model.max_tokens (%d) avoid this",
                reason,
                model.memory_budget,
                model.max_tokens,
            )
            self._said = True


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory was refused: of PyTorch on any device, of NumPy, or of Python."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _REFUSALS)
