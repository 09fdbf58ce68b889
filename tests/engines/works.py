"""Work that needs no model: a module of its own, since workers import it."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from benchmark.engines.crew import Crew, Shard
from benchmark.engines.ray_engine import Ray, results_of
from benchmark.errors import Corrupt, NotApplicable, UserError

ERRORS = {
    "mistake": UserError("x=1: allowed are others"),
    "dash": NotApplicable("it has no heads"),
    "corrupt": Corrupt(Path("a", "b"), "cut off"),
    "bug": ZeroDivisionError("a bug"),
}


@dataclass(frozen=True)
class Fails:
    """Raises, or kills its process, until it was called `times` times; calls are counted in a file."""

    place: Path
    how: str
    times: int

    def __call__(self, model, batch, *inputs):
        with self.place.open("a") as file:
            file.write(f"{batch}\n")
        if len(self.place.read_text().split()) > self.times:
            return batch
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ERRORS[self.how]


def crew(**settings) -> Crew:
    """Workers without a model."""
    return Crew(Ray(**settings).terms, lambda: None)


def computed(workers: Crew, work, count: int) -> list:
    """The results of so many shards of one batch each, whose numbers stand for the batches."""
    from ray.cloudpickle import dumps

    shards = [Shard(repr(work), dumps(work), dumps([(number, ())]), number) for number in range(count)]
    for shard in shards:
        workers.submit(shard)
    return [result for shard in shards for result in results_of(shard.answer.result())]
