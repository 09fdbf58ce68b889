"""What a comparison was planned to take, and what it took: `<out>/plans/<hash>.json`, and `spent.json` beside the report."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmark.errors import Corrupt, Missing
from benchmark.results import store
from benchmark.results.digests import sealed

T = TypeVar("T")

_log = logging.getLogger(__name__)

SHARD_SECONDS = 0.002
"""What handing a batch to a worker and taking its result back costs the first process (measured: 1.6 to 2.7 ms)."""


@dataclass(frozen=True)
class PlannedCell:
    """One method.

    Attributes:
        method: its name.
        forward_passes: of explaining and testing, counted in examples.
        backward_passes: likewise.
        seconds: in one process; 0 where the cell is finished.
        shared_seconds: those of them that batches take, which workers can share.
        chain_seconds: those that remain however many workers there are.
        shards: how many batches are handed over.
        memory_bytes: the process's high-water mark when the method is done.
        disk_bytes: of the run folder.
        note: what must be known, such as the dash of a method that cannot serve.
    """

    method: str
    forward_passes: float = 0.0
    backward_passes: float = 0.0
    seconds: float = 0.0
    shared_seconds: float = 0.0
    chain_seconds: float = 0.0
    shards: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """A comparison before it is run.

    Attributes:
        examples: how many are scored.
        pass_seconds: F+B, of one example of middling length by itself.
        opening_seconds: of task and model.
        report_seconds: of tables and figures.
        report_bytes: of their files.
        cells: in the order of the comparison.
        not_planned: what the seconds lack, a line each.
        measuring_seconds: what finding this out took.
        measured_examples: of each method, how many were run for it.
        analyses: name and seconds of those that know what they will take.
    """

    examples: int
    pass_seconds: float
    opening_seconds: float
    report_seconds: float
    report_bytes: int
    cells: tuple[PlannedCell, ...]
    not_planned: tuple[str, ...] = ()
    measuring_seconds: float = 0.0
    measured_examples: int = 0
    analyses: tuple[tuple[str, float], ...] = ()

    @property
    def analyses_seconds(self) -> float:
        """Of all analyses that know it."""
        return sum(seconds for _, seconds in self.analyses)

    @property
    def seconds(self) -> float:
        """All of it, in one process."""
        cells = sum(cell.seconds for cell in self.cells)
        return self.opening_seconds + cells + self.analyses_seconds + self.report_seconds

    def with_workers(self, count: int) -> float:
        """Seconds where batches are computed by so many workers, each with cores of its own.

        Batches are divided evenly, each at the cost of `SHARD_SECONDS`; opening, statistics, files, analyses and the
        report stay in the first process. No method is faster than its longest batches one after another. Starting workers
        is not counted.
        """
        shared = sum(cell.shared_seconds for cell in self.cells)
        handing = SHARD_SECONDS * sum(cell.shards for cell in self.cells)
        alone = sum(cell.seconds - cell.shared_seconds for cell in self.cells)
        longest = max((cell.chain_seconds for cell in self.cells), default=0.0)
        outside = self.opening_seconds + self.analyses_seconds + self.report_seconds
        return outside + max(alone + handing + shared / count, longest)

    def write(self, path: Path) -> None:
        """Write it, atomically and sealed."""
        store.write_json(path, sealed(asdict(self)))

    @staticmethod
    def read(path: Path) -> "Plan":
        """What `write` wrote.

        Raises:
            UserError: it is something else; the message names the file.
        """
        return store.read_object(Plan, path)


@dataclass(frozen=True)
class Spent:
    """What a method took.

    Attributes:
        seconds: of the clock.
        disk_bytes: of the run folder.
        memory_bytes: the high-water mark of memory when it was done.
        forward_passes: None where workers counted them.
        backward_passes: likewise.
    """

    seconds: float
    disk_bytes: int
    memory_bytes: int
    forward_passes: float | None = None
    backward_passes: float | None = None


@dataclass(frozen=True)
class Account:
    """What a planned comparison took so far.

    Attributes:
        at_once: how many methods were worked on at the same time.
        opening_seconds: of task and model; None where it is not known yet, as for the following two.
        report_seconds: of tables and figures.
        analyses_seconds: of all analyses.
        cells: by method.
    """

    at_once: int = 1
    opening_seconds: float | None = None
    report_seconds: float | None = None
    analyses_seconds: float | None = None
    cells: Mapping[str, Spent] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write it, atomically and sealed."""
        store.write_json(path, sealed(asdict(self)))

    @staticmethod
    def read(path: Path) -> "Account":
        """What `write` wrote; UserError where it is something else."""
        return store.read_object(Account, path)


def plan_path(out: Path, identified: str) -> Path:
    """Where the plan of a comparison with this hash lies."""
    return out / "plans" / f"{identified}.json"


def found(read: Callable[[Path], T], path: Path) -> T | None:
    """What is read at the path; None where nothing lies, or nothing that can be read, which is said."""
    try:
        return read(path) if path.exists() else None
    except (Corrupt, Missing) as error:
        reason = error.reason if isinstance(error, Corrupt) else "it is gone"
        _log.warning("%s is left aside: %s", path, reason)
        return None
