"""The process's random states, for libraries that draw from them."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from benchmark.randomness import generator


@contextmanager
def seeded(key: str, seed: int, device: torch.device) -> Iterator[None]:
    """The process's random states set for an example; as before afterwards."""
    cuda = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
    numpy_state = np.random.get_state()
    number = int(generator(seed, "process", key).integers(2**32))
    with torch.random.fork_rng(devices=cuda):
        for state in (torch.default_generator, *(torch.cuda.default_generators[index] for index in cuda)):
            state.manual_seed(number)
        np.random.seed(number)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
