"""Work that only waits: a module of its own that imports nothing heavy, since every worker imports it."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Wait:
    """Waits, and gives the number of the batch."""

    seconds: float

    def __call__(self, model, batch, *inputs):
        time.sleep(self.seconds)
        return batch
