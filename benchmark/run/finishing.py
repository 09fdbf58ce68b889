"""Finish the cells of a comparison: one after another, or several at a time where an engine can compute them."""

import logging
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from benchmark import progress
from benchmark.engines.base import ShardError
from benchmark.models.guard import ModelChangedError
from benchmark.run.cell import Cell
from benchmark.run.records import finish
from benchmark.types import Evaluation

logger = logging.getLogger(__name__)


Failure = ShardError | ModelChangedError
"""Why a method is given up while the others go on."""


class UnfinishedError(ExceptionGroup):
    """Methods that were given up while the others were finished."""


def finish_all(cells: Mapping[str, Cell], evaluations: Mapping[str, Evaluation]) -> Iterator[Cell]:
    """Finish every cell, and yield it when it is; those that other processes work on are left for later.

    Only where nothing else is left to do is another process waited for. A line per cell says what was done, and how long
    it took.

    Raises:
        UnfinishedError: after all others, where the work of some failed time and again in an engine's workers, or left the
            model changed.
    """
    places, failures = Places(len(cells)), dict[str, Failure]()
    at_once = min(len(cells), max((cell.data.runner.at_once for cell in cells.values()), default=1))
    waiting = list(cells)
    if at_once > 1:
        waiting = yield from _side_by_side(cells, evaluations, places, at_once, failures)
    while waiting:
        busy = []
        for name in waiting:
            if cells[name].lock.acquire(wait=False):
                if _is_finished(cells[name], evaluations, places, failures):
                    yield cells[name]
            else:
                busy.append(name)
                if len(waiting) == len(cells):
                    logger.info("%s: another process works on it; left for later", name)
        if len(busy) == len(waiting):
            first = cells[busy.pop(0)]
            with progress.step(f"{first.name}: waiting for another process"):
                first.lock.acquire(wait=True)
            if _is_finished(first, evaluations, places, failures):
                yield first
        waiting = busy
    if failures:
        given_up = f"{', '.join(failures)}: given up; the same command tries again"
        raise UnfinishedError(given_up, [_named(error, name) for name, error in failures.items()])


class Places:
    """Numbers the cells as they are finished."""

    def __init__(self, count: int) -> None:
        self.count, self._numbers = count, iter(range(1, count + 1))

    def __next__(self) -> str:
        return f"{next(self._numbers)} of {self.count}"


def _named(error: Failure, name: str) -> Failure:
    error.add_note(f"the method is {name}")
    return error


def _side_by_side(
    cells: Mapping[str, Cell],
    evaluations: Mapping[str, Evaluation],
    places: Places,
    at_once: int,
    failures: dict[str, Failure],
) -> Generator[Cell, None, list[str]]:
    """Finish the cells that no other process works on, each in a thread; gives the names of the others.

    Whatever ends it ends the threads: those that wait for a worker are told, and give their locks back.
    """

    def attempt(cell: Cell) -> bool | None:
        """Whether the cell is finished; None where another process works on it."""
        return _is_finished(cell, evaluations, places, failures) if cell.lock.acquire(wait=False) else None

    with ThreadPoolExecutor(at_once, thread_name_prefix="cell") as threads:
        attempts: dict[Future[bool | None], str] = {threads.submit(attempt, cell): name for name, cell in cells.items()}
        busy, running = list[str](), set(attempts)
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    name, finished = attempts[future], future.result()
                    if finished:
                        yield cells[name]
                    elif finished is None:
                        busy.append(name)
                        logger.info("%s: another process works on it; left for later", name)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            for cell in cells.values():
                cell.data.runner.stop()
            raise
    return [name for name in cells if name in busy]


def _is_finished(
    cell: Cell, evaluations: Mapping[str, Evaluation], places: Places, failures: dict[str, Failure]
) -> bool:
    """Finish a cell whose lock is held, and release it; false where its work failed in workers: see `failures`."""
    try:
        with progress.scope("cell", cell.name):
            finished = finish(cell, evaluations)
    except ShardError as error:
        failures[cell.name] = error
        logger.error("%s: given up, as its work failed in every attempt (%s)", cell.name, next(places))
        return False
    except ModelChangedError as error:
        if not error.restored:
            raise
        failures[cell.name] = error
        logger.error("%s: given up: %s (%s)", cell.name, error, next(places))
        return False
    finally:
        cell.lock.release()
    logger.info("%s: %s (%s)", cell.name, finished, next(places))
    return True
