"""Randomness that depends on the example alone, never on the batch or on the order of examples."""

import hashlib

import numpy as np


def generator(uid: str, seed: int, purpose: str = "") -> np.random.Generator:
    """A random generator that depends on the example, the seed and the purpose alone, never on the batch."""
    digest = hashlib.blake2b(f"{seed}\0{purpose}\0{uid}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest))
