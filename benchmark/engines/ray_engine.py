"""Workers of Ray, which hold the model once each; this process plans, and alone writes."""

import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from benchmark.engines.base import Series, ShardError
from benchmark.engines.cluster import Terms
from benchmark.engines.crew import Crew, Shard
from benchmark.engines.local import Here, peak_memory
from benchmark.engines.moving import moved, portable
from benchmark.engines.worker import Outcome
from benchmark.models import Classifier
from benchmark.settings.availability import needs
from benchmark.settings.declared import Above, Count, Form, Share, configurable

T = TypeVar("T")
_AHEAD = 2  # shards that a method may have handed in, for each that the workers take at once


@configurable
class Ray:
    """Compute in workers of Ray, on this machine or on a cluster. No setting of it changes a number.

    A shard is a range of batches for one stage of one method. What nodes need is this package and Ray, and neither the data
    nor the checkpoint: a worker gets the model once, and batches with the shards. Results come back to this process, which
    alone writes. A lost worker or node costs the shards that it was at, which others compute again.

    Attributes:
        address: None: workers on this machine, started for this comparison; `auto`: the cluster that this machine is part
            of; or HOST:PORT of one.
        workers: how many; None for as many as have room.
        threads_per_worker: of torch.
        cpus_per_worker: CPUs that Ray reserves for one; None for as many as threads.
        gpus_per_worker: share of a GPU that Ray reserves for one; above 0 the model lies on that GPU, whatever
            `model.device` says.
        batches_per_shard: batches that are handed to a worker at once.
        in_flight: shards that a worker has at once: the one that it is at, and those that wait for it there.
        methods_at_once: how many methods are worked on at the same time.
        attempts: how often a shard may fail, or lose its worker, before its method is given up.
    """

    address: Annotated[str, Form(r"auto|[^:/\s]+:\d+", "null, auto and HOST:PORT")] | None = None
    workers: Count | None = None
    threads_per_worker: Count = 1
    cpus_per_worker: Annotated[float | int, Above(0)] | None = None
    gpus_per_worker: Share = 0
    batches_per_shard: Count = 1
    in_flight: Count = 2
    methods_at_once: Count = 4
    attempts: Count = 3

    def __post_init__(self) -> None:
        needs("ray", "engine=ray")

    @contextmanager
    def opened(self, model: Classifier) -> Iterator["Workers"]:
        """Workers are started when the first batch is to be computed, and end with the block."""
        crew = Crew(self.terms, lambda: pickle.dumps(portable(model), protocol=5))
        try:
            yield Workers(self, crew, model)
        finally:
            crew.close()

    @property
    def terms(self) -> Terms:
        """What a cluster is asked for."""
        cpus = self.threads_per_worker if self.cpus_per_worker is None else self.cpus_per_worker
        return Terms(
            address=self.address,
            workers=self.workers,
            threads=self.threads_per_worker,
            cpus=cpus,
            gpus=self.gpus_per_worker,
            in_flight=self.in_flight,
            attempts=self.attempts,
        )


@dataclass(frozen=True)
class Workers:
    """Hands shards to workers, a bounded number ahead of what was asked for.

    Attributes:
        settings: how shards are cut.
        crew: the workers.
        model: the classifier that they hold; work with another is done here.
    """

    settings: Ray
    crew: Crew
    model: Classifier

    @property
    def at_once(self) -> int:
        """The setting `methods_at_once`."""
        return self.settings.methods_at_once

    def results(self, series: Series[T], numbers: Sequence[int] | None = None) -> Iterator[T]:
        """The results of the batches of these numbers, in their order; None: of all batches."""
        if series.model is not self.model:
            yield from Here().results(series, numbers)
            return
        numbers = range(len(series.batches)) if numbers is None else numbers
        ahead = _AHEAD * self.crew.size * self.settings.in_flight
        from ray.cloudpickle import dumps  # for classes of a notebook too

        work = dumps(series.work)
        key, size = sha256(work).hexdigest(), self.settings.batches_per_shard
        handed: deque[Shard] = deque()
        try:
            for first in range(0, len(numbers), size):
                items = moved(_items(series, numbers[first : first + size]), "cpu")
                handed.append(Shard(key, work, dumps(items), first // size))
                self.crew.submit(handed[-1])
                if len(handed) >= ahead:
                    yield from results_of(handed.popleft().answer.result())
            while handed:
                yield from results_of(handed.popleft().answer.result())
        finally:
            for shard in handed:
                shard.answer.cancel()

    def peak_memory(self) -> int:
        """That of the worker that held most; of this process where none has worked yet."""
        return self.crew.peak or peak_memory()

    def stop(self) -> None:
        """Whoever waits for a result gets an exception."""
        self.crew.stop()


def _items(series: Series[Any], numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    return [(series.batches[index], series.inputs(index)) for index in numbers]


def results_of(outcome: Outcome) -> list[Any]:
    """The results of a shard.

    Raises:
        UserError, NotApplicable: as the work raised it.
        ShardError: any other exception, which is its cause.
    """
    content = pickle.loads(outcome.content)
    if outcome.status == "done":
        return list(content)
    if outcome.status == "answer":
        raise content
    raise ShardError(f"it failed in every attempt, at last with\n{outcome.traceback}") from content
