"""Randomness that depends on what is drawn alone, never on the batch or on the order of examples."""

import hashlib

import numpy as np


def generator(seed: int, purpose: str, *names: str) -> np.random.Generator:
    """The one recipe for a generator of an example's own: it depends on its arguments alone.

    Args:
        seed: of a comparison, or of one method or test.
        purpose: what is drawn, so that draws for different purposes are independent.
        names: whom it is drawn for, as the identifier of an example.
    """
    digest = hashlib.blake2b("\0".join((str(seed), purpose, *names)).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest))
