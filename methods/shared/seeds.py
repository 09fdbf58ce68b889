"""Random numbers that belong to an example, whatever batch it stands in."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def example_generator(uid: str, seed: int) -> np.random.Generator:
    """A generator of the example's own, so that neither batch nor order changes what it draws."""
    return np.random.default_rng(np.frombuffer(hashlib.sha256(f"{seed}/{uid}".encode()).digest(), dtype=np.uint32))


@contextmanager
def seeded(uid: str, seed: int, device: torch.device) -> Iterator[None]:
    """The process's random states set for an example, for libraries that draw from them; as before afterwards."""
    cuda = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
    numpy_state = np.random.get_state()
    number = int(example_generator(uid, seed).integers(2**32))
    with torch.random.fork_rng(devices=cuda):
        for generator in (torch.default_generator, *(torch.cuda.default_generators[index] for index in cuda)):
            generator.manual_seed(number)
        np.random.seed(number)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
