"""What one batch of each method takes: it is run as a comparison runs it, and kept for the comparison to go on from."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import torch

from benchmark import progress
from benchmark.engines.local import peak_memory
from benchmark.models.guard import ModelChangedError
from benchmark.progress.stopwatch import Taken, timed
from benchmark.results import commits
from benchmark.run.cell import Cell
from benchmark.run.encoded import Chosen, lengths_of, uids_of
from benchmark.run.stages import Testing
from benchmark.run.steps import finish, pending
from benchmark.types import Batch, Evaluation


@dataclass(frozen=True)
class Measured:
    """What one batch of a method took.

    Attributes:
        cell: over that batch, finished in a folder that is thrown away.
        taken: seconds and passes.
        peak: the most memory that the process held meanwhile, in bytes.
        before: what it held at the beginning.
    """

    cell: Cell
    taken: Taken
    peak: int
    before: int


def measured(
    cells: Mapping[str, Cell], evaluations: Mapping[str, Evaluation], place: Path
) -> tuple[dict[str, Measured], dict[str, str]]:
    """Finish one batch of each cell, that whose examples are as long as all are in the mean.

    What an example costs is nearly a constant and a share that grows with its tokens, so that one of mean length costs what
    all cost in the mean. Two examples of the first method go before, which pay for what is imported and allocated once.

    Args:
        cells: those that are to be computed, in the order of the comparison.
        evaluations: its tests.
        place: a folder for what is not kept.

    Returns:
        What each method took, and of those that a comparison would give up, why.
    """
    first = next(iter(cells.values()))
    model, found, given_up = first.model, dict[str, Measured](), dict[str, str]()
    with progress.step("warming up"):
        try:
            warm = first.excerpt(place / "warm" / first.folder.name, first.data.excerpt(_two))
            finish(replace(warm, whole=None), evaluations)
        except ModelChangedError as error:
            if not error.restored:
                raise
    data = first.data.excerpt(_MeanBatch())  # of all methods, which share their examples and the logits of these
    with timed() as watch:
        watch.count = lambda: (model.cost.forward_passes, model.cost.backward_passes)
        for name, cell in cells.items():
            planned = pending(cell, evaluations)
            asked = {name: test for name, test in evaluations.items() if Testing(test) in planned}
            excerpt, before = cell.excerpt(place / cell.folder.name, data), forget_peak()
            try:
                with _kept(excerpt) as part, progress.scope("cell", name):
                    finish(part, asked)
            except ModelChangedError as error:
                if not error.restored:
                    raise
                given_up[name] = f"given up: {error}"
            else:
                found[name] = Measured(part, watch.parts["cell", name], peak_memory(), before)
    return found, given_up


@contextmanager
def _kept(excerpt: Cell) -> Iterator[Cell]:
    """An excerpt that holds the lock of its cell; where another process works on the cell, nothing is kept for it."""
    whole = excerpt.whole
    if whole is None or not whole.lock.acquire(wait=False):
        yield replace(excerpt, whole=None)
        return
    try:
        with commits.Held.of(whole.folder).back_after(ModelChangedError):
            yield excerpt
    finally:
        whole.lock.release()


def mean_batch(lengths: Sequence[Sequence[int]]) -> int:
    """The number of the batch whose examples are as long as those of all batches in the mean, or come nearest to that."""
    overall = sum(map(sum, lengths)) / sum(map(len, lengths))
    off = [abs(mean(batch) - overall) for batch in lengths]
    return off.index(min(off))


class _MeanBatch:
    """Chooses the `mean_batch`; batches of the same examples are looked at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], int] = {}

    def __call__(self, batches: Sequence[Batch]) -> Chosen:
        uids = uids_of(batches)
        if uids not in self._known:
            self._known[uids] = mean_batch(lengths_of(batches))
        return Chosen(batches, [self._known[uids]])


def forget_peak() -> int:
    """Let the high-water mark of memory begin anew, where the system can (CUDA, Linux); the mark afterwards, in bytes."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def _two(batches: Sequence[Batch]) -> Sequence[Batch]:
    return [batches[0].select(range(min(2, len(batches[0]))))]
