"""Images on their way into a model: their colours, their size, and a mask of pixels that becomes marks on patches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray
from PIL import Image

from benchmark.errors import UserError

Patch = tuple[int, int]
"""Height and width in pixels."""

_VIA = {"P": "RGBA", "PA": "RGBA", "La": "LA", "RGBa": "RGBA"}
"""Modes that reach RGB by another one, which knows their transparency."""

_DEEP = ("I", "F")
"""Modes of more than eight bits, whose white is not known, begin so."""


def in_rgb(image: Any, uid: str) -> Any:
    """A PIL image in RGB, its transparency dropped as torchvision's loader does; anything else as it is.

    Raises:
        UserError: the file is truncated, or its values have no known white.
    """
    if not isinstance(image, Image.Image):
        return image
    if image.mode.startswith(_DEEP):
        raise UserError(f"example '{uid}' is an image of mode {image.mode}; save it with eight bits a channel")
    try:
        return (image.convert(_VIA[image.mode]) if image.mode in _VIA else image).convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError(f"example '{uid}' is an image that cannot be read as RGB ({error})") from error


def fitted_mask(mask: NDArray[Any], image: Any, processor: Any, uid: str) -> Bool[NDArray[Any], "Y X"]:
    """The mask at the size of the model's input.

    It takes the image's way: the image processor resizes, crops and pads it, by nearest neighbour.

    Args:
        mask: True for the pixels [height, width] of the image that count.
        image: a PIL image, or the mapping of ready pixel values.
        processor: of the checkpoint; a mask of ready pixel values needs none.
        uid: of the example, for errors.

    Raises:
        UserError: the mask has another size than the image, or there is no image.
    """
    if not isinstance(image, Image.Image | Mapping):
        raise UserError(f"example '{uid}' has a mask of pixels, but its input is no PIL image: {type(image).__name__}")
    ready = isinstance(image, Mapping)
    size = np.shape(image["pixel_values"])[-2:] if isinstance(image, Mapping) else (image.height, image.width)
    if np.shape(mask) != size:
        found = " × ".join(map(str, np.shape(mask)))
        raise UserError(f"example '{uid}' has a mask of {found} pixels for an image of {size[0]} × {size[1]}")
    marks = np.asarray(mask, dtype=bool)
    return marks if ready else _processed(marks, processor)


def marked_patches(mask: Bool[NDArray[Any], "Y X"], patch: Patch) -> Bool[NDArray[Any], "U"]:
    """One mark per patch, row by row: whether a pixel of a fitted mask lies in it (docs/protocols.md, section 9).

    A margin narrower than a patch belongs to no patch.
    """
    high, wide = (length // side for length, side in zip(mask.shape, patch, strict=True))
    whole = mask[: high * patch[0], : wide * patch[1]]
    return np.asarray(whole.reshape(high, patch[0], wide, patch[1]).any(axis=(1, 3)).ravel())


def _processed(mask: Bool[NDArray[Any], "H W"], processor: Any) -> Bool[NDArray[Any], "h w"]:
    """The mask at the model's size: a white shape on black that the processor moves as it moves the image."""
    drawn = Image.fromarray(np.where(mask, 255, 0).astype(np.uint8)).convert("RGB")
    settings = {"do_rescale": False, "do_normalize": False, "resample": Image.Resampling.NEAREST}
    return np.asarray(processor(images=[drawn], return_tensors="np", **settings)["pixel_values"][0, 0] > 127)
