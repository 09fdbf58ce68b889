"""Drawing scenes: a textured canvas, distractor strokes beside the places of digits, and digits in light ink on it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy.typing import NDArray
from PIL import Image, ImageDraw

CANVAS, DIGIT = 48, 24
"""Sides in pixels of a scene and of a digit in it."""

LATTICE = 8
"""Digits begin at multiples of so many pixels, so that a small model needs few examples to find them anywhere."""

_COARSE = 4  # cells of texture along a side
_BACKGROUND, _INK = (0.0, 0.35), (0.8, 1.0)  # ranges of a colour's channels
_GRAIN = 0.03  # standard deviation of the noise on each pixel
_STROKE = (6.0, 10.0)  # lengths, about half of a digit's
_FAINT = 0.25  # ink below this share is left out, so that a pixel either shows ink that is seen or none
_TRIES = 20

Place = tuple[int, int]
"""Row and column of a digit's upper left corner."""


@dataclass(frozen=True)
class Canvas:
    """A scene before its digits: they change no pixel of it but those that they cover.

    Attributes:
        pixels: colours in [0, 1], strokes included.
        places: of the digits, whose boxes do not overlap and begin in different columns.
        inks: the colour of each digit.
    """

    pixels: Float[NDArray[np.float64], "H W 3"]
    places: tuple[Place, ...]
    inks: Float[NDArray[np.float64], "D 3"]


def draw_canvas(rng: np.random.Generator, n_digits: int, most_strokes: int) -> Canvas:
    """A canvas with room for digits, and up to so many strokes that keep clear of it."""
    places = _places(rng, n_digits)
    coarse = (255 * rng.uniform(*_BACKGROUND, (_COARSE, _COARSE, 3))).astype(np.uint8)
    smooth = Image.fromarray(coarse).resize((CANVAS, CANVAS), Image.Resampling.BICUBIC)
    for _ in range(int(rng.integers(most_strokes + 1))):
        _draw_stroke(smooth, rng, places)
    grain = rng.normal(0, _GRAIN, (CANVAS, CANVAS, 1))
    pixels = np.clip(np.asarray(smooth, dtype=np.float64) / 255 + grain, 0, 1)
    return Canvas(pixels, places, rng.uniform(*_INK, (n_digits, 3)))


def draw_digits(
    canvas: Canvas, digits: Sequence[Float[NDArray[np.float64], "8 8"]]
) -> tuple[UInt8[NDArray[np.uint8], "H W 3"], Bool[NDArray[np.bool_], "D H W"]]:
    """The scene, and for each digit the pixels that it covers.

    Args:
        canvas: where they stand, and in which ink.
        digits: ink in [0, 1].
    """
    pixels, masks = canvas.pixels.copy(), np.zeros((len(digits), CANVAS, CANVAS), dtype=bool)
    for (row, column), ink, digit, mask in zip(canvas.places, canvas.inks, digits, masks, strict=True):
        box = slice(row, row + DIGIT), slice(column, column + DIGIT)
        share = _enlarged(digit)[..., None]
        pixels[box] = share * ink + (1 - share) * pixels[box]
        mask[box] = share[..., 0] > 0
    return np.round(255 * pixels).astype(np.uint8), masks


def _enlarged(digit: Float[NDArray[np.float64], "8 8"]) -> Float[NDArray[np.float64], "h w"]:
    image = Image.fromarray(np.round(255 * digit).astype(np.uint8))
    share = np.asarray(image.resize((DIGIT, DIGIT), Image.Resampling.BICUBIC), dtype=np.float64) / 255
    return np.where(share < _FAINT, 0.0, share)


def _places(rng: np.random.Generator, n_digits: int) -> tuple[Place, ...]:
    """Drawn until no two boxes overlap or begin in one column."""
    while True:
        drawn = (LATTICE * rng.integers(0, (CANVAS - DIGIT) // LATTICE + 1, (n_digits, 2))).tolist()
        apart = all(
            max(abs(a[0] - b[0]), abs(a[1] - b[1])) >= DIGIT and a[1] != b[1]
            for index, a in enumerate(drawn)
            for b in drawn[:index]
        )
        if apart:
            return tuple((row, column) for row, column in drawn)


def _draw_stroke(image: Image.Image, rng: np.random.Generator, places: Sequence[Place]) -> None:
    """One straight stroke in light ink that keeps a pixel's distance of the digits' boxes; none where no room is found."""
    width, ink = int(rng.integers(2, 4)), tuple((255 * rng.uniform(*_INK, 3)).astype(int).tolist())
    for angle, length, row, column in rng.random((_TRIES, 4)).tolist():
        half = (_STROKE[0] + length * (_STROKE[1] - _STROKE[0])) / 2
        down, right = half * math.sin(math.pi * angle), half * math.cos(math.pi * angle)
        row, column = CANVAS * row, CANVAS * column
        high, wide = abs(down) + width + 1, abs(right) + width + 1  # how far it reaches, the width of the line included
        if all(
            row + high < top or row - high > top + DIGIT or column + wide < left or column - wide > left + DIGIT
            for top, left in places
        ):
            ends = [(column - right, row - down), (column + right, row + down)]
            ImageDraw.Draw(image).line(ends, fill=ink, width=width)
            return
