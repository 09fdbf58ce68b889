"""What is marked in an image: boxes of a file that become filled rectangles, and masks that are images themselves."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray
from PIL import Image

from benchmark.errors import UserError
from benchmark.models.images import opened
from tasks.common import read_text, text_lines
from tasks.image_files import FORMATS, Listed
from tasks.local_tables import Row, read_table
from tasks.table_columns import value_of

Ends = Literal["inclusive", "exclusive"]
CORNERS = ("x0", "y0", "x1", "y1")


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels of its image, counted from 0 at the upper left.

    Attributes:
        corners: left, top, right, lower.
        kind: the class that it is drawn around; None where the file does not say.
        where: the line of the file, for errors.
    """

    corners: tuple[int, int, int, int]
    kind: str | None
    where: str


Boxes = Mapping[str, Sequence[Box]]
"""By the file of the image: its path below the root, or its name alone."""


def boxes_of_table(file: Path) -> Boxes:
    """The boxes of a table with the columns `file`, `x0`, `y0`, `x1`, `y1` and, where boxes have classes, `label`."""
    return _gathered(read_table(file))


def boxes_beside(folders: Iterable[Path]) -> Boxes:
    """The boxes of class folders that have them as Tiny-ImageNet: `<class>/<class>_boxes.txt`, tab-separated, no header."""
    files = (folder / f"{folder.name}_boxes.txt" for folder in folders)
    return _gathered([row for file in files if file.is_file() for row in _plain_rows(file)])


def found(boxes: Boxes, listed: Sequence[Listed], everywhere: Sequence[Listed], kinds: Iterable[str]) -> Boxes:
    """The boxes of images, by their paths below the root; an image's boxes of other classes are other objects.

    Args:
        boxes: of a file.
        listed: the images of a split.
        everywhere: those of all splits, which names must tell apart.
        kinds: the classes of the data.

    Raises:
        UserError: a box has a class that the data do not have, or a name that several images have.
    """
    known = set(kinds)
    if strange := [box for of_image in boxes.values() for box in of_image if box.kind not in {None, *known}]:
        raise UserError(f"{strange[0].where}: the box's label '{strange[0].kind}' is no class of the data")
    names = Counter(image.path.name for image in {image.file: image for image in everywhere}.values())
    chosen: dict[str, Sequence[Box]] = {}
    for image in listed:
        name = image.path.name
        of_image = boxes.get(image.file, boxes.get(name, ()))
        if image.file not in boxes and of_image and names[name] > 1:
            raise UserError(f"{of_image[0].where}: {names[name]} images are called {name}; name it as {image.file}")
        if own := [box for box in of_image if box.kind in (None, image.kind)]:
            chosen[image.file] = own
    return chosen


def filled(boxes: Sequence[Box], image: Image.Image, ends: Ends) -> Bool[NDArray[np.bool_], "H W"]:
    """True for the pixels in any of the boxes.

    Args:
        boxes: of this image.
        image: gives the size.
        ends: whether a box's right column and lower row belong to it ("inclusive": 0 to 63 is an image of 64 pixels).

    Raises:
        UserError: a box is empty or reaches beyond the image; with its line.
    """
    mask = np.zeros((image.height, image.width), dtype=bool)
    more = int(ends == "inclusive")
    for box in boxes:
        left, top, right, lower = box.corners
        right, lower = right + more, lower + more
        if not (0 <= left < right <= image.width and 0 <= top < lower <= image.height):
            corners = ", ".join(map(str, box.corners))
            raise UserError(
                f"{box.where}: the box {corners} (x0, y0, x1, y1, ends {ends}) is empty or reaches beyond the image of "
                f"{image.width} × {image.height} pixels; mend it, or set task.box_ends"
            )
        mask[top:lower, left:right] = True
    return mask


def mask_files(folder: Path, listed: Sequence[Listed]) -> Mapping[str, Path]:
    """The mask of each image that has one: the file of the same path below the folder, or of the same name.

    The ending may differ.

    Args:
        folder: holds the masks.
        listed: the images of all splits.

    Raises:
        UserError: several images have the name of one mask.
    """
    names = Counter(image.path.stem for image in {image.file: image for image in listed}.values())
    stems = _by_stem(folder)
    masks = {}
    for image in listed:
        by_path = _with_an_ending(stems.get(folder / Path(image.file).with_suffix(""), ()), image.path.suffix)
        by_name = by_path or _with_an_ending(stems.get(folder / image.path.stem, ()), image.path.suffix)
        if by_path is None and by_name is not None and names[image.path.stem] > 1:
            raise UserError(
                f"{by_name}: {names[image.path.stem]} images are called {image.path.stem}; put the mask of each at its "
                f"path, such as {folder / image.file}"
            )
        if by_name is not None:
            masks[image.file] = by_name
    return masks


def _by_stem(folder: Path) -> Mapping[Path, Sequence[Path]]:
    """The images in a folder and below it, by their paths without endings."""
    stems: dict[Path, list[Path]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in FORMATS):
        stems.setdefault(path.with_suffix(""), []).append(path)
    return stems


def _with_an_ending(paths: Sequence[Path], own: str) -> Path | None:
    """The file with an image's own ending, else PNG, else the first by name."""
    return min(paths, key=lambda path: (path.suffix != own, path.suffix.lower() != ".png", path.name), default=None)


def read_mask(path: Path, image: Image.Image) -> Bool[NDArray[np.bool_], "H W"]:
    """True where a mask's image is not black, whatever its mode; a palette's index 0 is black.

    It is turned by an EXIF orientation of its own, as `datasets` turns a column of masks, and lies on the upright image.

    Raises:
        UserError: it cannot be read, is not of the image's size, or is a JPEG, which has no sharp edges.
    """
    if FORMATS.get(path.suffix.lower()) == "JPEG":
        raise UserError(f"{path} is a mask in a format that blurs edges; save masks as PNG")
    mask = opened(path)
    if mask.size != image.size:
        raise UserError(
            f"{path} is a mask of {mask.width} × {mask.height} pixels for an image of {image.width} × {image.height}, "
            "upright after its EXIF orientation"
        )
    values = np.asarray(mask)
    colours = values[..., : len(mask.getbands()) - ("A" in mask.getbands())] if values.ndim == 3 else values
    return colours.astype(bool) if colours.ndim == 2 else colours.any(-1)


def _gathered(rows: Iterable[Row]) -> Boxes:
    boxes: dict[str, list[Box]] = {}
    for row in rows:
        where, values = row
        corners = [_whole(value_of(row, (name,), "boxes"), name, where) for name in CORNERS]
        kind = values.get("label")
        box = Box((corners[0], corners[1], corners[2], corners[3]), None if kind in (None, "") else str(kind), where)
        boxes.setdefault(str(value_of(row, ("file",), "boxes")), []).append(box)
    return boxes


def _plain_rows(file: Path) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(text_lines(read_text(file)), start=1):
        fields = line.split("\t")
        if len(fields) != 1 + len(CORNERS):
            raise UserError(f"{file}:{number}: {len(fields)} fields; a box is file, x0, y0, x1, y1, separated by tabs")
        rows.append((f"{file}:{number}", dict(zip(("file", *CORNERS), fields, strict=True))))
    return rows


def _whole(value: object, name: str, where: str) -> int:
    try:
        number = float(str(value))
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        raise UserError(f"{where}: {name}={value} is no whole number of pixels")
    return int(number)
