"""Pictures of `heatmap.json`, checked: somebody else's run folder must not make a page large or a figure wrong."""

import binascii
import math
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy.typing import NDArray
from PIL import Image

from benchmark.report.page.packed import significant

_PREFIX = "data:image/webp;base64,"
_MOST_SIDE = 2_048
"""Pixels of a side of a picture; vision transformers read 224 to 518."""

Grid = tuple[int, int]


@dataclass(frozen=True)
class Picture:
    """An image of a model's input: height and width in pixels of itself and of its patches, rows and columns of patches.

    `data` is the picture as a data URL, `mask` the lengths of unmarked and marked pixels by turns, or None.
    """

    size: Grid
    patch: Grid
    grid: Grid
    data: str
    mask: tuple[int, ...] | None

    @staticmethod
    def of(entry: Mapping[str, Any], n_units: int) -> "Picture":
        """The picture of an example with so many patches; ValueError where its parts do not fit each other."""
        size, patch, grid = (_pair(entry[name]) for name in ("size", "patch", "grid"))
        if max(size) > _MOST_SIDE or any(g * p > s for g, p, s in zip(grid, patch, size, strict=True)):
            raise ValueError(f"patches {grid} of {patch} pixels do not fit an image of {size}")
        if grid[0] * grid[1] != n_units:
            raise ValueError(f"{n_units} scores for {grid} patches")
        data, mask = str(entry["picture"]), entry.get("mask")
        if not data.startswith(_PREFIX) or _opened(data).size != (size[1], size[0]):
            raise ValueError("the picture has another form or size")
        if mask is not None and (any(int(n) < 0 for n in mask) or sum(map(int, mask)) != size[0] * size[1]):
            raise ValueError("the mask has another size")
        return Picture(size, patch, grid, data, None if mask is None else tuple(map(int, mask)))

    @property
    def pixels(self) -> UInt8[NDArray[Any], "Y X 3"]:
        """Red, green and blue of each pixel."""
        return np.asarray(_opened(self.data).convert("RGB"))

    @property
    def marked(self) -> Bool[NDArray[Any], "Y X"] | None:
        """The mask, where there is one."""
        if self.mask is None:
            return None
        return np.repeat(np.arange(len(self.mask)) % 2 == 1, self.mask).reshape(self.size)

    @property
    def shown(self) -> dict[str, Any]:
        """The same for the page."""
        return {"size": self.size, "patch": self.patch, "grid": self.grid, "data": self.data, "mask": self.mask}


@dataclass(frozen=True)
class PixelMap:
    """Scores of squares of pixels, by row: integers of which 127 is the largest magnitude."""

    step: int
    grid: Grid
    largest: float
    values: str

    @staticmethod
    def of(entry: Mapping[str, Any], size: Grid) -> "PixelMap":
        """ValueError where it does not fit an image of this size."""
        step, grid, largest = int(entry["step"]), _pair(entry["grid"]), float(entry["largest"])
        fits = step > 0 and all(g == s // step for g, s in zip(grid, size, strict=True)) and largest >= 0
        if not fits or not math.isfinite(largest) or len(_decoded(entry["values"])) != grid[0] * grid[1]:
            raise ValueError("the map of pixels does not fit the image")
        return PixelMap(step, grid, largest, str(entry["values"]))

    @property
    def scores(self) -> Float[NDArray[Any], "Y X"]:
        """One score per square."""
        steps = np.frombuffer(_decoded(self.values), dtype=np.int8).reshape(self.grid)
        return steps * (self.largest / 127)


@dataclass(frozen=True)
class ImageScores:
    """What one method says of an image beside its patch scores: of pixels, and of the second most probable class."""

    map: PixelMap | None
    second: Mapping[str, Any] | None

    @staticmethod
    def of(entry: Mapping[str, Any], picture: Picture, n_units: int) -> "ImageScores":
        """ValueError where scores are not those of the picture's patches."""
        own, second = entry.get("map"), entry.get("second")
        if second is not None:
            scores = [significant(float(score)) for score in second["scores"]]
            if len(scores) != n_units:
                raise ValueError("the second class has other patches")
            chance = float(f"{float(second['probability']):.3f}")
            second = {"target": str(second["target"]), "probability": chance, "scores": scores}
        return ImageScores(None if own is None else PixelMap.of(own, picture.size), second)

    @property
    def shown(self) -> dict[str, Any]:
        """The same for the page; without what there is not."""
        parts = {"map": None if self.map is None else vars(self.map), "second": self.second}
        return {name: part for name, part in parts.items() if part is not None}


def enlarged(scores: Float[NDArray[Any], "r c"], patch: Grid, size: Grid) -> Float[NDArray[Any], "Y X"]:
    """Scores of patches as scores of pixels: bilinear between the centres, constant beyond them.

    What `benchmark.evaluations.maps.pixel_map` gives (docs/protocols.md, section 1), a margin of the image included.
    """
    down, across = ((np.arange(length) + 0.5) / side - 0.5 for length, side in zip(size, patch, strict=True))
    wide = np.stack([np.interp(across, np.arange(scores.shape[1]), row) for row in scores])
    return np.stack([np.interp(down, np.arange(scores.shape[0]), column) for column in wide.T], axis=1)


def removal(scores: Sequence[float | None], share: float) -> list[int]:
    """The first patches of an order from the highest score to the lowest, ⌊share · patches⌋; equal ones row by row."""
    order = sorted(range(len(scores)), key=lambda u: -(-math.inf if scores[u] is None else float(scores[u] or 0.0)))
    return order[: math.floor(share * len(scores) + 1e-9)]


def _pair(value: Any) -> Grid:
    high, wide = (int(side) for side in value)
    if high < 1 or wide < 1:
        raise ValueError("a length below one pixel")
    return high, wide


def _decoded(text: Any) -> bytes:
    try:
        return b64decode(str(text), validate=True)
    except binascii.Error as error:
        raise ValueError("values that are no base64") from error


def _opened(data: str) -> Image.Image:
    """The picture, its pixels unread: its size is checked before they are."""
    try:
        return Image.open(BytesIO(_decoded(data.removeprefix(_PREFIX))), formats=("WEBP",))
    except OSError as error:
        raise ValueError("a picture that cannot be read") from error
