"""Arrays of numbers that need no more than 24 bits, in three bytes each: without loss, and read back as float32."""

from collections.abc import Mapping

import numpy as np

_HIGH, _LOW = ".high", ".low"


def packed(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, those of float32 whose last byte is 0 throughout as their first two bytes and their third.

    `NAME.high` (uint16) and `NAME.low` (uint8) stand for NAME: its bits are `high << 16 | low << 8`.
    """
    content = {}
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        bits = array.view(np.uint32) if array.dtype == np.float32 and array.size else None
        if bits is None or (bits & 0xFF).any():
            content[name] = array
        else:
            content[name + _HIGH] = (bits >> 16).astype(np.uint16)
            content[name + _LOW] = (bits >> 8 & 0xFF).astype(np.uint8)
    return content


def unpacked(content: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that were `packed`.

    Raises:
        ValueError: half of an array is missing, or the halves do not fit.
    """
    arrays = {}
    for name, array in content.items():
        stem = name.removesuffix(_HIGH)
        if stem == name and not name.endswith(_LOW):
            arrays[name] = array
        elif stem != name:
            low = content.get(stem + _LOW)
            if low is None or low.shape != array.shape:
                raise ValueError(f"half of {stem} is missing")
            arrays[stem] = (array.astype(np.uint32) << 16 | low.astype(np.uint32) << 8).view(np.float32)
    return arrays
