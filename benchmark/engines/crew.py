"""The workers of a comparison: who does which shard, and what happens when one is lost.

One thread of the driver talks to Ray, and sleeps until a shard is handed in or an answer is there; meanwhile it looks now
and then whether Ray is. It lives as long as the crew: the processes that Ray starts end with the thread that started them.
"""

import logging
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from benchmark.engines.base import ShardError, StoppedError
from benchmark.engines.cluster import Cluster, Terms
from benchmark.engines.worker import Outcome
from benchmark.errors import LostError

logger = logging.getLogger(__name__)

_PATIENCE = 60.0  # seconds without any worker, after which somebody is told
_LOOK = 0.5  # seconds without news, after which it is looked whether Ray is still there
_LOOKED_AT = 8  # shards per worker among which one is looked for whose batches the worker knows
_LOST_NODES = 10  # how many nodes a shard may lose: no fault of its own, but there is an end
_KEPT = 64  # pieces of work in the object store


@dataclass(eq=False)
class Shard:
    """Work for a range of batches.

    Attributes:
        key: of the work.
        work: pickled.
        items: pickled: the batches, each with its inputs.
        place: which range it is; shards of one place go to one worker where that costs no time, as some tests remember what
            they computed of a batch.
        answer: what became of it.
        failures: how often it raised an exception that is no answer.
        lost_workers: how often its worker's process ended under it.
        lost_nodes: how often the whole node did.
    """

    key: str
    work: bytes
    items: bytes
    place: int
    answer: Future[Outcome] = field(default_factory=Future)
    failures: int = 0
    lost_workers: int = 0
    lost_nodes: int = 0


@dataclass(eq=False)
class _Hired:
    """A worker, as the driver knows it; `shards` are those that it was given, the first of which it is at."""

    number: int
    actor: Any
    node: str = ""
    is_ready: bool = False
    shards: list[Shard] = field(default_factory=list)


class Crew:
    """Starts with the first shard, ends with `close`.

    Args:
        terms: how many workers, and of what kind.
        model: the pickled classifier; None for work that needs none.
    """

    def __init__(self, terms: Terms, model: Callable[[], bytes | None]) -> None:
        self.terms, self.model = terms, model
        self.peak = 0
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._open: set[Shard] = set()
        self._waiting: deque[Shard] = deque()
        self._works: OrderedDict[str, Any] = OrderedDict()
        self._hired: list[_Hired] = []
        self._failed_starts = 0
        self._size: Future[int] = Future()
        self._broken: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()

    @property
    def size(self) -> int:
        """How many workers there are to be; starts them where that has not been done.

        Raises:
            UserError: there is no cluster, or none that has room for a worker.
        """
        self._start()
        return self._size.result()

    def _start(self) -> None:
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="crew", daemon=True)
                self._thread.start()

    def submit(self, shard: Shard) -> None:
        """Have a shard computed; `shard.answer` tells when it is."""
        self._start()
        self._open.add(shard)
        shard.answer.add_done_callback(lambda _: self._open.discard(shard))
        if self._broken is not None:
            _fail(shard, self._broken)
        self._inbox.put(partial(self._take, shard))

    def stop(self) -> None:
        """Whoever waits gets an exception."""
        self._break(StoppedError("the comparison has ended"))

    def close(self) -> None:
        """End the workers, and Ray where it was started for them."""
        self.stop()
        if self._thread is not None:
            self._inbox.put(None)
            self._thread.join()

    def _break(self, error: BaseException) -> None:
        self._broken = self._broken or error
        for shard in list(self._open):
            _fail(shard, error)

    def _run(self) -> None:
        try:
            with Cluster.joined(self.terms) as self.cluster:
                size = self.cluster.size
                self._carried = self.cluster.put(self.model())
                for number in range(size):
                    self._hire(number)
                self._size.set_result(size)
                while (event := self._next()) is not None:
                    event()
        except BaseException as error:  # of the thread: who waits for it is told, an interruption too
            if not self._size.done():
                self._size.set_exception(error)
            self._break(error)

    def _next(self) -> Callable[[], None] | None:
        looks = 0
        while True:
            try:
                return self._inbox.get(timeout=_LOOK)
            except Empty:
                self._check()
                looks += 1
                if looks % round(_PATIENCE / _LOOK) == 0 and not any(worker.is_ready for worker in self._hired):
                    logger.warning("no worker has started yet: %s", self.cluster.room())

    def _check(self, *, thoroughly: bool = False) -> None:
        """Raise where Ray itself is gone, and tell whoever waits first: to leave it may take some time."""
        try:
            self.cluster.check(thoroughly=thoroughly)
        except LostError as error:
            self._break(error)
            raise

    def _hire(self, number: int) -> None:
        worker = _Hired(number, self.cluster.hire(self._carried, sys.path))
        self._hired.append(worker)
        self._when(worker.actor.ready.remote(), partial(self._started, worker))

    def _when(self, reference: Any, event: Callable[[Future[Any]], None]) -> None:
        """Call `event` in the crew's thread once there is a result."""
        reference.future().add_done_callback(lambda future: self._inbox.put(partial(event, future)))

    def _started(self, worker: _Hired, future: Future[Any]) -> None:
        error = future.exception()
        if error is None:
            worker.is_ready, worker.node, self._failed_starts = True, future.result(), 0
            self._dispatch()
            return
        self._check(thoroughly=True)
        self._hired.remove(worker)
        self._failed_starts += 1
        if self._failed_starts >= self.terms.attempts:
            said = str(error).strip().splitlines() or [type(error).__name__]
            reason = ShardError(f"workers cannot be started: {said[-1]}")
            reason.__cause__ = error  # all that the worker printed
            self._break(reason)
        else:
            self._hire(worker.number)

    def _take(self, shard: Shard) -> None:
        self._waiting.append(shard)
        self._dispatch()

    def _dispatch(self) -> None:
        while self._waiting and (worker := self._free()) is not None:
            shard = self._suited(worker)
            if shard.answer.done():  # nobody waits for it any more
                continue
            if shard.answer.running() or shard.answer.set_running_or_notify_cancel():
                worker.shards.append(shard)
                reference = worker.actor.run.remote(shard.key, self._work(shard), shard.items)
                self._when(reference, partial(self._returned, worker, shard))

    def _free(self) -> _Hired | None:
        """The worker that has least to do, where one may be given more."""
        bound = self.terms.in_flight
        free = [worker for worker in self._hired if worker.is_ready and len(worker.shards) < bound]
        return min(free, key=lambda worker: len(worker.shards), default=None)

    def _suited(self, worker: _Hired) -> Shard:
        """A shard whose batches the worker is likely to know, else the oldest."""
        size = self.cluster.size
        for index, shard in zip(range(_LOOKED_AT * size), self._waiting, strict=False):
            if shard.place % size == worker.number:
                del self._waiting[index]
                return shard
        return self._waiting.popleft()

    def _work(self, shard: Shard) -> Any:
        """The work in the object store, where each worker finds it."""
        if shard.key not in self._works:
            self._works[shard.key] = self.cluster.put(shard.work)
        self._works.move_to_end(shard.key)
        if len(self._works) > _KEPT:
            self._works.popitem(last=False)
        return self._works[shard.key]

    def _returned(self, worker: _Hired, shard: Shard, future: Future[Any]) -> None:
        if worker not in self._hired:  # its loss was noticed already
            return
        error = future.exception()
        if error is not None and self.cluster.is_loss(error):
            self._lost(worker, error)
        else:
            worker.shards.remove(shard)
            if error is not None:
                self._failed(shard, ShardError(str(error)))
            elif (outcome := future.result()).status == "failed":
                self._failed(shard, outcome)
            else:
                self.peak = max(self.peak, outcome.peak)
                _settle(shard, outcome)
        self._dispatch()

    def _failed(self, shard: Shard, why: Outcome | ShardError) -> None:
        shard.failures += 1
        if shard.failures < self.terms.attempts:
            logger.info("a shard failed; it is computed again (attempt %d)", shard.failures + 1)
            self._waiting.appendleft(shard)
        elif isinstance(why, Outcome):
            _settle(shard, why)
        else:
            _fail(shard, why)

    def _lost(self, worker: _Hired, error: BaseException) -> None:
        """Have another worker do what a lost one was given; only the shard that it was at may be to blame."""
        self._check(thoroughly=True)
        self._hired.remove(worker)
        node_lost = not self.cluster.is_alive(worker.node)
        logger.warning(
            "a %s was lost; %d shards are computed again", "node" if node_lost else "worker", len(worker.shards)
        )
        blamed, again = worker.shards[0], list(worker.shards)
        if node_lost:
            blamed.lost_nodes += 1
        else:
            blamed.lost_workers += 1
        if blamed.lost_workers >= self.terms.attempts or blamed.lost_nodes >= _LOST_NODES:
            _fail(blamed, ShardError(f"its worker was lost in every attempt (out of memory?): {error}"))
            again.remove(blamed)
        self._waiting.extendleft(reversed(again))
        self._hire(worker.number)


def _settle(shard: Shard, outcome: Outcome) -> None:
    with suppress(InvalidStateError, CancelledError):  # nobody waits for it any more
        shard.answer.set_result(outcome)


def _fail(shard: Shard, error: BaseException) -> None:
    with suppress(InvalidStateError, CancelledError):
        shard.answer.set_exception(error)
