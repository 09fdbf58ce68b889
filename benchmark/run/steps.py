"""Explain, test, reduce: the three steps that bring a cell up to date, each of which leaves its work on disk.

- `explain`: attributions, edge scores and what tests take from a method, for every test that is not up to date;
- `test`: the rows of these tests, from what was explained;
- `reduce`: figures from rows, and the record that reports read.

A comparison takes them in this order, cell by cell (`finish_all`). A command can be for one of them alone (`stage=explain`
on one machine, `stage=test` on another): the next one goes on with what lies on disk.
"""

import logging
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

from benchmark import progress
from benchmark.engines.base import ShardError
from benchmark.errors import NotApplicable, UserError
from benchmark.models.guard import ModelChangedError
from benchmark.results import commits
from benchmark.results.rows import NOTHING
from benchmark.run.cell import Cell
from benchmark.run.records import State, keep
from benchmark.run.reducing import evaluate
from benchmark.run.stages import PREDICTED, PREDICTED_EDGES, WITH_EDGES, Searching, Stage, Testing, asked
from benchmark.run.testing import rows_of_test, rows_path, taken_from_method, taken_path
from benchmark.types import Evaluation, Method

logger = logging.getLogger(__name__)


def explain(cell: Cell, evaluations: Mapping[str, Evaluation]) -> None:
    """Leave on disk what these tests read of the method, and its attributions for the predicted classes.

    What the method does not give is let pass: the tests that read it have a dash.
    """
    stages = dict.fromkeys([PREDICTED, *(stage for test in evaluations.values() for stage in asked(test))])
    if PREDICTED_EDGES in stages:
        cell.explain_with_edges()
    for stage in stages:
        with suppress(NotApplicable):
            cell.explained(stage)
    for name, evaluation in evaluations.items():
        if evaluation.reads == "method":
            with progress.step(name), suppress(NotApplicable):
                taken_from_method(cell, evaluation)


def test(cell: Cell, evaluations: Mapping[str, Evaluation]) -> None:
    """Leave the rows of these tests on disk; one that cannot serve leaves none."""
    for name, evaluation in evaluations.items():
        with progress.step(name), suppress(NotApplicable):
            rows_of_test(cell, evaluation)


def reduce(cell: Cell, evaluations: Mapping[str, Evaluation], state: State) -> None:
    """Leave figures and the record on disk, which makes the cell finished.

    Args:
        cell: whose rows are reduced.
        evaluations: the tests whose figures are not in the record, or no longer hold.
        state: what the cell held before.
    """
    tested, rows = dict(state.tested), dict(state.rows)
    for name, evaluation in evaluations.items():
        key = state.keys[name]
        stored = rows.get(key, NOTHING) if state.has_rows(name) else None
        tested[key], rows[key] = evaluate(cell, name, evaluation, stored)
    keep(cell, state, tested, rows)


@dataclass(frozen=True)
class Finished:
    """What was done to bring a cell up to date.

    Attributes:
        computed: how many of its tests were computed, explanations included.
        reused: how many were there.
        written: whether anything in the folder changed.
        seconds: how long it took.
        step: the last step that was taken, where it was not `reduce`.
    """

    computed: int
    reused: int
    written: bool
    seconds: float = 0.0
    step: str = "reduce"

    def __str__(self) -> str:
        took = progress.duration(self.seconds)
        if self.step != "reduce":
            return f"{'explained' if self.step == 'explain' else 'tested'} in {took}"
        if not self.written:
            return "reused"
        if not self.computed:
            return f"tests reused, files made again in {took}"
        if not self.reused:
            return f"computed in {took}"
        return f"{self.computed} of {self.computed + self.reused} tests computed in {took}, the others reused"


def finish(cell: Cell, evaluations: Mapping[str, Evaluation]) -> Finished:
    """Take the steps of a cell under its lock: what is stored and still holds is reused; the record comes last.

    Rows are kept as long as the test's identity is the same; figures are reduced again from them where the statistics'
    version has changed, and the words of tests and metrics are today's. Figures whose rows are not there are computed
    again, and files that are missing are made again.

    Raises:
        UserError: the folder is damaged, or another cell's; or a step that the command is not for has still to be taken.
        ModelChangedError: the method left the model changed; the folder is what it was.
    """
    start = time.monotonic()
    with cell.lock, commits.Held.of(cell.folder).back_after(ModelChangedError):
        state = State.of(cell, evaluations)
        if state.is_current:
            state.keep_words(cell)
            commits.clean(cell.folder)
            return Finished(0, len(evaluations), written=False, seconds=time.monotonic() - start)
        stale = {name: evaluations[name] for name in state.stale}
        state.check_settings(cell, list(stale.values()))
        computed = {name: evaluation for name, evaluation in stale.items() if not state.has_rows(name)}
        if "explain" in cell.steps:
            explain(cell, computed)
        if "test" in cell.steps:
            test(cell, computed)
        if "reduce" in cell.steps:
            reduce(cell, stale, state)
            commits.clean(cell.folder)
        done = len(stale), len(evaluations) - len(stale)
        return Finished(*done, written=True, seconds=time.monotonic() - start, step=cell.steps[-1])


def pending(cell: Cell, evaluations: Mapping[str, Evaluation]) -> dict[Stage, int]:
    """What `finish` would compute, as far as the record tells: examples by the stage that goes over them."""
    try:
        state = State.recorded(cell, evaluations)
    except UserError:
        return {}  # `finish` says what is wrong
    steps: dict[Stage, int] = {}
    if state.old is None and not cell.holds(PREDICTED):
        steps[PREDICTED] = cell.data.facts.n
    for name in state.stale:
        if not state.has_rows(name) and not rows_path(cell, evaluations[name]).exists():
            if evaluations[name].reads == "method":
                search = Searching(evaluations[name])
                if not taken_path(cell, search).exists():
                    steps[search] = evaluations[name].calibration.limit
            steps |= {
                stage: cell.data.facts.n if stage.sample is None else stage.sample.limit
                for stage in asked(evaluations[name])
                if not cell.holds(stage)
            }
            steps[Testing(evaluations[name])] = cell.data.facts.n
    come_along = isinstance(cell.compared, Method) and cell.compared.edges_come_along
    if come_along and {PREDICTED, PREDICTED_EDGES} <= steps.keys():
        others = {stage: count for stage, count in steps.items() if stage not in (PREDICTED, PREDICTED_EDGES)}
        steps = {WITH_EDGES: cell.data.facts.n, **others}
    taken = {stage: "test" if isinstance(stage, Testing) else "explain" for stage in steps}
    return {stage: count for stage, count in steps.items() if taken[stage] in cell.steps}


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
        except BaseException:  # an interruption too stops the threads; raised again
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
