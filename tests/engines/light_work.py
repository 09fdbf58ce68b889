"""Work that needs no model: a module of its own that imports nothing heavy, since every worker imports it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import Corrupt, NotApplicable, UserError


@dataclass(frozen=True)
class Wait:
    """Waits, and gives the number of the batch."""

    seconds: float

    def __call__(self, model, batch, *inputs):
        time.sleep(self.seconds)
        return batch


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
        with self.place.open("ab", buffering=0) as file:
            file.write(f"{batch}\n".encode())
            until_now = file.tell()  # calls of another worker may stand behind
        if len(self.place.read_bytes()[:until_now].split()) > self.times:
            return batch
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ERRORS[self.how]
