"""Images on their way into a model: their colours, their size, and a mask of pixels that becomes marks on patches."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from benchmark.errors import UserError

logger = logging.getLogger(__name__)

Patch = tuple[int, int]
"""Height and width in pixels."""

FRAMES = "frames"
"""Key of `Image.info`: how many pictures the file has, where a reader has closed it and kept the first."""

_VIA = {"P": "RGBA", "PA": "RGBA", "La": "LA", "RGBa": "RGBA"}
"""Modes that reach RGB by another one, which knows their transparency."""

_DEEP = ("I", "F")
"""Modes of more than eight bits begin so; Pillow cuts their values at 255 on the way to eight."""


@dataclass(frozen=True)
class Losses:
    """What images have lost on their way into a model, each kind said once, with the first example.

    Attributes:
        said: kinds that were said.
    """

    said: set[str] = field(default_factory=set)

    def say(self, image: Image.Image, uid: str) -> None:
        """Log what `in_colours` drops of an image, unless it was said of another one."""
        for kind, text in _lost(image, self.said):
            self.said.add(kind)
            logger.warning("image '%s' %s, as transformers reads it; further ones are not named", uid, text)


def _lost(image: Image.Image, said: set[str]) -> Iterator[tuple[str, str]]:
    if "frames" not in said and (frames := frames_of(image)) > 1:
        yield "frames", f"has {frames} frames, of which the first is read"
    if "depth" not in said and image.mode.startswith(_DEEP) and _extremes(image)[1] > 255:
        yield "depth", f"has more than eight bits a channel (mode {image.mode}): values above 255 become 255"
    if "transparency" not in said and _transparent(image):
        yield "transparency", "is transparent in parts: transparency is dropped, and the colours below it are read"


def frames_of(image: Image.Image) -> int:
    """How many pictures the file of an image has."""
    return int(image.info.get(FRAMES, 0) or getattr(image, "n_frames", 1))


def _extremes(band: Image.Image) -> tuple[float, float]:
    values = np.asarray(band)
    return float(values.min()), float(values.max())


def _transparent(image: Image.Image) -> bool:
    if image.mode in ("P", "L", "RGB", "1", "I"):
        return "transparency" in image.info and _transparent(image.convert("RGBA"))
    alpha = next((band for band in ("A", "a") if band in image.getbands()), None)
    return alpha is not None and _extremes(image.getchannel(alpha))[0] < 255


def upright(image: Image.Image) -> Image.Image:
    """An image turned as its EXIF orientation says, as transformers' and datasets' loaders turn it.

    What is turned has no orientation any more, so that it is turned once.
    """
    return ImageOps.exif_transpose(image)


def opened(path: Path) -> Image.Image:
    """The image of a file, upright, its pixels read and the file closed; the first picture of an animated one.

    Raises:
        UserError: it is missing, truncated or no image; with its path.
    """
    try:
        with Image.open(path) as image:
            frames = frames_of(image)
            image.load()
            turned = upright(image)
    except UnidentifiedImageError as error:
        raise UserError(f"{path} is no image that can be read; drop it or save it again") from error
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise UserError(f"{path} cannot be read as an image ({error}); fetch or save it again") from error
    turned.info[FRAMES] = frames
    return turned


def in_colours(image: Any, uid: str, losses: Losses, channels: int = 3) -> Any:
    """A PIL image upright and in RGB, or in grey for a model of one channel; anything else as it is.

    It is what `transformers.image_utils.load_image` makes of it: the first frame, without transparency, in eight bits.

    Args:
        image: of any mode.
        uid: of the example, for errors.
        losses: says what is dropped.
        channels: that the model reads; 1 gives mode L (ITU-R 601-2 luma), every other number RGB.

    Raises:
        UserError: the file is truncated, or its mode has no way to RGB.
    """
    if not isinstance(image, Image.Image):
        return image
    try:
        losses.say(image, uid)
        turned = upright(image)
        turned = turned.convert(_VIA[turned.mode]) if turned.mode in _VIA else turned
        return turned.convert("L" if channels == 1 else "RGB")
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

    The mask is of the image as people see it: upright, after its EXIF orientation.

    Raises:
        UserError: the mask has another size than the image, or there is no image.
    """
    if not isinstance(image, Image.Image | Mapping):
        raise UserError(f"example '{uid}' has a mask of pixels, but its input is no PIL image: {type(image).__name__}")
    ready = isinstance(image, Mapping)
    lying = np.shape(image["pixel_values"])[-2:] if isinstance(image, Mapping) else (image.height, image.width)
    size = lying if isinstance(image, Mapping) else upright(image).size[::-1]
    if np.shape(mask) != size:
        found = " × ".join(map(str, np.shape(mask)))
        turned = "" if size == lying else ", which its EXIF orientation turns; turn the mask as well"
        raise UserError(f"example '{uid}' has a mask of {found} pixels for an image of {size[0]} × {size[1]}{turned}")
    marks = np.asarray(mask, dtype=bool)
    return marks if ready else _processed(marks, processor)


def marked_patches(mask: Bool[NDArray[Any], "Y X"], patch: Patch) -> Bool[NDArray[Any], "U"]:
    """One mark per patch, row by row: whether a pixel of a fitted mask lies in it (docs/protocols.md, section 9).

    A margin narrower than a patch belongs to no patch.
    """
    high, wide = (length // side for length, side in zip(mask.shape, patch, strict=True))
    whole = mask[: high * patch[0], : wide * patch[1]]
    return np.asarray(whole.reshape(high, patch[0], wide, patch[1]).any(axis=(1, 3)).ravel())


def pixels_of(marks: Bool[Tensor, "N U"], patch: Patch, size: Sequence[int]) -> Bool[Tensor, "N Y X"]:
    """The pixels of marked patches, which are counted row by row; a margin narrower than a patch belongs to none.

    Args:
        marks: of the patches of each image.
        patch: height and width of one.
        size: height and width of the images.
    """
    (high, wide), (height, width) = patch, size
    grid = marks.reshape(len(marks), height // high, width // wide)
    grid = grid.repeat_interleave(high, dim=1).repeat_interleave(wide, dim=2)
    return F.pad(grid, (0, width - grid.shape[2], 0, height - grid.shape[1]), value=False)


def black(pixels: Float[Tensor, "N C Y X"], processor: Any) -> Float[Tensor, "N C Y X"]:
    """Pixel value 0 before the image processor's normalisation; ValueError without a processor."""
    if processor is None:
        raise ValueError("the model has no image processor")
    if not getattr(processor, "do_normalize", True):
        return torch.zeros_like(pixels)
    mean, std = (pixels.new_tensor(getattr(processor, name)) for name in ("image_mean", "image_std"))
    return (-mean / std).reshape(1, -1, 1, 1).expand_as(pixels)


def without_patches(
    pixels: Float[Tensor, "N C Y X"], gone: Bool[Tensor, "N U"], patch: Patch, processor: Any
) -> Float[Tensor, "N C Y X"]:
    """Images whose marked patches are black."""
    return torch.where(pixels_of(gone, patch, pixels.shape[2:])[:, None], black(pixels, processor), pixels)


def _processed(mask: Bool[NDArray[Any], "H W"], processor: Any) -> Bool[NDArray[Any], "h w"]:
    """The mask at the model's size: a white shape on black that the processor moves as it moves the image."""
    drawn = Image.fromarray(np.where(mask, 255, 0).astype(np.uint8)).convert("RGB")
    settings = {"do_rescale": False, "do_normalize": False, "resample": Image.Resampling.NEAREST}
    return np.asarray(processor(images=[drawn], return_tensors="np", **settings)["pixel_values"][0, 0] > 127)
