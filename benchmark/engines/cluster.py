"""All that is asked of Ray."""

import errno
import logging
import math
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmark.engines.seclusion import environment_kept, read_again, secluded, signals_kept
from benchmark.engines.worker import Worker
from benchmark.errors import LostError, UserError, one_line
from benchmark.working_folder import importable_from

_VITAL = ("raylet", "gcs_server")


@dataclass(frozen=True)
class Terms:
    """What `benchmark.engines.ray_engine.Ray` says of workers, and what is lent to each."""

    address: str | None
    workers: int | None
    threads: int
    cpus: float
    gpus: float
    in_flight: int
    attempts: int


@dataclass(frozen=True)
class Cluster:
    """A cluster of Ray that this process has joined, or that was started for it.

    Attributes:
        ray: the package.
        terms: of the workers.
        size: how many workers there are to be.
    """

    ray: Any
    terms: Terms
    size: int

    @staticmethod
    @contextmanager
    def joined(terms: Terms) -> Iterator["Cluster"]:
        """Join a cluster, or start one on this machine, which ends with the block.

        A process that is connected already stays as it is. Nothing is printed, no dashboard is started and no statistics of
        use are sent.

        Raises:
            UserError: there is no cluster at the address, or no room for one worker.
        """
        import ray

        connected_before = ray.is_initialized()
        if not connected_before:
            _connect(ray, terms)
            _silence(ray)
        try:
            size = terms.workers or _places(ray, terms)
            if size < 1:
                raise UserError(
                    f"the cluster has no room for a worker of {terms.cpus:g} CPUs and {terms.gpus:g} GPUs; "
                    "set engine.cpus_per_worker or engine.gpus_per_worker"
                )
            yield Cluster(ray, terms, size)
        except LostError:
            if not connected_before:
                ray._private.worker._global_node.kill_all_processes(check_alive=False, allow_graceful=False)
            connected_before = True  # to take leave of a Ray that is gone would end this process before a word is said
            raise
        finally:
            if not connected_before:
                _disconnect(ray, terms)

    def put(self, value: Any) -> Any:
        """A value in the object store."""
        return self.ray.put(value)

    def hire(self, model: Any, paths: Sequence[str]) -> Any:
        """A worker, which is there once `ready` has a result; it waits for room on the cluster."""
        gpu = self.terms.gpus > 0
        actor = self.ray.remote(_actor_class(self.ray)).options(
            num_cpus=self.terms.cpus,
            num_gpus=self.terms.gpus,
            max_restarts=0,  # another one is hired, and told of the shards again
            scheduling_strategy="SPREAD",
        )
        return actor.remote(model, "cuda" if gpu else "cpu", self.terms.threads, list(paths), importable_from())

    def is_loss(self, error: BaseException) -> bool:
        """Whether an error says that the worker is gone, rather than what it did."""
        return isinstance(error, self.ray.exceptions.RayActorError | self.ray.exceptions.WorkerCrashedError)

    def is_alive(self, node: str) -> bool:
        """Whether a node of this identifier is up."""
        return any(known["NodeID"] == node and known["Alive"] for known in self.ray.nodes())

    def check(self, *, thoroughly: bool = False) -> None:
        """Raise where Ray itself has ended on this machine; it would end this process, too, some seconds later.

        Args:
            thoroughly: ask also processes of Ray that were not started for this one.

        Raises:
            LostError: it has.
        """
        node = self.ray._private.worker._global_node
        own = list(_own_processes(node))
        ended = next((kind for kind, process in own if process.poll() is not None), None)
        name = getattr(node, "raylet_socket_name", None)
        if ended is None and thoroughly and not own and name is not None and not _answers(name):
            ended = "raylet"
        if ended is not None:
            raise LostError(f"Ray has ended on this machine: its process {ended} was killed or has failed")

    def room(self) -> str:
        """What a worker needs, and what the cluster has free."""
        free = {name: count for name, count in self.ray.available_resources().items() if name in ("CPU", "GPU")}
        return f"each takes {self.terms.cpus:g} CPUs and {self.terms.gpus:g} GPUs, and the cluster has {free} free"


def _connect(ray: Any, terms: Terms) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": False}
    try:
        with environment_kept(), signals_kept():
            if terms.address is None:
                cpus = max(os.cpu_count() or 1, math.ceil((terms.workers or 1) * terms.cpus))
                with secluded():
                    ray.init(address="local", num_cpus=cpus, **quiet)
            else:
                ray.init(address=terms.address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"engine.address={terms.address}: {one_line(error)}; a cluster is started by: ray start --head"
        ) from error


def _disconnect(ray: Any, terms: Terms) -> None:
    ray.shutdown()
    if terms.address is None:
        read_again()


def _silence(ray: Any) -> None:
    """End the thread that prints what Ray says of itself, as leaving the cluster would: what matters is told by us."""
    worker = ray._private.worker.global_worker
    worker.threads_stopped.set()
    worker.gcs_error_subscriber.close()


def _own_processes(node: Any) -> Iterator[tuple[str, Any]]:
    """Name and process of what a cluster cannot do without, where this process has started it."""
    for kind in _VITAL:
        for started in getattr(node, "all_processes", {}).get(kind, ()):
            yield kind, started.process


def _answers(socket_name: str) -> bool:
    """Whether somebody listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(socket_name) not in (errno.ECONNREFUSED, errno.ENOENT)


def _places(ray: Any, terms: Terms) -> int:
    """How many workers have room on the nodes."""
    kind, each = ("GPU", terms.gpus) if terms.gpus > 0 else ("CPU", terms.cpus)
    return sum(int(node["Resources"].get(kind, 0) / each + 1e-9) for node in ray.nodes() if node["Alive"])


def _actor_class(ray: Any) -> type[Worker]:
    class RayWorker(Worker):
        """A worker that knows on which node it is."""

        def ready(self) -> str:
            return str(ray.get_runtime_context().get_node_id())

    return RayWorker
