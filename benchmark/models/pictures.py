"""A model's input images as people see them, small enough to be stored beside scores."""

from base64 import b64encode
from collections.abc import Mapping
from io import BytesIO
from itertools import groupby
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy.typing import NDArray
from PIL import Image

EXACT = 128 * 128
"""Pixels up to which a picture is stored without loss; larger ones as WebP of quality 85."""

MAP_SIDE = 112
"""Pixels of the longer side of a stored map of pixel scores, which is averaged down to at most that."""


def visible(pixels: Float[NDArray[Any], "C Y X"], processor: Any) -> UInt8[NDArray[Any], "Y X 3"]:
    """An image as the model is given it, with the processor's normalisation undone.

    Args:
        pixels: of the model's input; one channel is shown as grey.
        processor: the checkpoint's image processor; without one the least value is black and the largest white.
    """
    image = pixels.astype(np.float64)
    if processor is None:
        low, high = image.min(), image.max()
        image = (image - low) / ((high - low) or 1.0) * 255
    else:
        if getattr(processor, "do_normalize", True):
            mean, std = (np.asarray(getattr(processor, f"image_{name}")).reshape(-1, 1, 1) for name in ("mean", "std"))
            image = image * std + mean
        image = image / processor.rescale_factor if getattr(processor, "do_rescale", True) else image
    shown: UInt8[NDArray[Any], "Y X C"] = np.rint(image.clip(0, 255)).astype(np.uint8).transpose(1, 2, 0)
    return shown if shown.shape[2] == 3 else shown[:, :, :1].repeat(3, axis=2)


def data_url(image: UInt8[NDArray[Any], "Y X C"]) -> str:
    """An image as text that a page shows without another file; equal images give equal text."""
    stream, drawn = BytesIO(), Image.fromarray(image)
    drawn.save(stream, "WEBP", lossless=image.shape[0] * image.shape[1] <= EXACT, quality=85, method=4)
    return "data:image/webp;base64," + b64encode(stream.getvalue()).decode("ascii")


def runs(mask: Bool[NDArray[Any], "Y X"]) -> list[int]:
    """Lengths of equal pixels, row by row, by turns unmarked and marked; the first is 0 where the first pixel is marked."""
    lengths = [len(list(group)) for _, group in groupby(mask.ravel().tolist())]
    return [0, *lengths] if mask.ravel()[0] else lengths


def small_map(scores: Float[NDArray[Any], "Y X"]) -> Mapping[str, Any]:
    """Pixel scores for the eye: averaged over squares to at most `MAP_SIDE`, in 255 steps of the largest magnitude."""
    step = -(-max(scores.shape) // MAP_SIDE)
    high, wide = (length // step for length in scores.shape)
    blocks = scores[: high * step, : wide * step].reshape(high, step, wide, step).astype(np.float64).mean(axis=(1, 3))
    largest = float(np.abs(blocks).max())
    steps = np.rint(blocks / largest * 127 if largest else blocks).astype(np.int8)
    return {
        "step": step, "grid": [high, wide], "largest": largest, "values": b64encode(steps.tobytes()).decode("ascii"),
    }  # fmt: skip
