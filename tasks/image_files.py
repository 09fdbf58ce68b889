"""Files of images: found in folders of classes or named in lists, opened one by one, and digested."""

import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from PIL import Image

from benchmark.errors import UserError
from tasks.common import read_bytes, read_text, text_lines
from tasks.label_names import label_text
from tasks.local_tables import Row, read_table
from tasks.table_columns import value_of

logger = logging.getLogger(__name__)

_UNDECODED = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}
"""Formats that Pillow recognises, but decodes with other programs, or not at all."""


def _endings() -> dict[str, str]:
    """The format of each ending of files that Pillow reads."""
    Image.init()
    formats = Image.registered_extensions().items()
    return {ending: kind for ending, kind in formats if kind in Image.OPEN and kind not in _UNDECODED}


FORMATS = _endings()
"""The format of each ending of files that are images: .jpg, .jpeg, .jfif, .png, .webp, .bmp, .gif, .tif, .ppm, ..."""

LISTS = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
NAMES_FILES = ("words.txt", "LOC_synset_mapping.txt")
"""As Tiny-ImageNet and ImageNet's competition call the table of classes and their names."""

_WHOLE = 1 << 16  # bytes up to which a file is digested in whole
_PACKED = ("JPEG", "PNG", "WEBP", "GIF")  # an edit of these formats moves or changes what follows it
_PIECE = 1 << 14  # bytes of the beginning, the middle and the end of a larger one


@dataclass(frozen=True)
class Listed:
    """An image of a split.

    Attributes:
        file: relative to the root of the data, with slashes.
        path: where it lies.
        kind: its class, as its folder or its list calls it.
    """

    file: str
    path: Path
    kind: str


def class_folders(folder: Path, without: Path | None = None) -> list[Path]:
    """The folders of classes in a folder, by name; hidden ones and `without` are none."""
    found = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(path for path in found if without is None or path.resolve() != without.resolve())


def in_folders(folder: Path, root: Path, without: Path | None = None) -> list[Listed]:
    """All images in a folder's class folders, at any depth, in the order of their paths.

    Files that are no images by their endings are counted in one line of the log, hidden ones and lists of boxes aside.

    Raises:
        UserError: an image lies beside the class folders, and there is none.
    """
    kinds = class_folders(folder, without)
    if not kinds and (beside := next((p for p in sorted(folder.iterdir()) if _is_image(p.name)), None)):
        raise UserError(f"{beside} lies in no class folder: put images into {folder}/CLASS/, or name them in a list")
    files = [(kind, path) for kind in kinds for path in _files_below(kind)]
    _name_others([path for _, path in files if not _is_image(path.name)], folder)
    if loose := [path for path in sorted(folder.iterdir()) if _is_image(path.name) and path.is_file()]:
        logger.warning(
            "%s: %d images beside the class folders are left out, such as %s", folder, len(loose), loose[0].name
        )
    return [Listed(path.relative_to(root).as_posix(), path, kind.name) for kind, path in files if _is_image(path.name)]


def in_list(file: Path, root: Path) -> list[Listed]:
    """The images that a list names, in its order.

    A list is a table with the columns `file` and `label`, or a JSON array of [file, label]; files are relative to the root.

    Raises:
        UserError: the list is broken, or an image is missing or named twice; with its line.
    """
    listed: list[Listed] = []
    seen: set[str] = set()
    for row in list_rows(file):
        name, kind = str(value_of(row, ("file",), "splits")), label_text(value_of(row, ("label",), "splits"))
        if not (root / name).is_file():
            raise UserError(f"{row[0]}: {root / name} is missing; files are relative to task.path={root}")
        if name in seen:
            raise UserError(f"{row[0]}: {name} is named twice; drop one of the two")
        seen.add(name)
        listed.append(Listed(name, root / name, kind))
    return listed


def list_rows(file: Path) -> list[Row]:
    """The rows of a list, with `file` and `label`."""
    if file.suffix.lower() != ".json" or not read_text(file).lstrip().startswith("["):
        return read_table(file)
    try:
        items = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise UserError(f"{file}:{error.lineno}: broken JSON ({error.msg} at column {error.colno}); mend it") from error
    return [(f"{file}: item {place}", _item(item, f"{file}: item {place}")) for place, item in enumerate(items)]


def class_names(file: Path) -> Mapping[str, str]:
    """The names of classes: a line each, the class first, then a tab or a space and what it is called."""
    lines = [line.split(None, 1) for line in text_lines(read_text(file)) if line.strip()]
    if short := [number for number, parts in enumerate(lines, start=1) if len(parts) < 2]:
        raise UserError(f"{file}:{short[0]}: a class without a name; a line is the class, a tab and its name")
    return {kind: name.strip() for kind, name in lines}


def digests(files: Iterable[tuple[str, Path]]) -> Iterator[bytes]:
    """SHA-256 of each file's name, size and content; of a packed one above 64 KiB, of its beginning, middle and end."""
    for name, path in files:
        yield sha256(f"{name}\0".encode() + _content(path)).digest()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= _WHOLE or FORMATS.get(path.suffix.lower()) not in _PACKED:
                return file.read()
            pieces = [size.to_bytes(8, "little")]
            for start in (0, (size - _PIECE) // 2, size - _PIECE):
                file.seek(start)
                pieces.append(file.read(_PIECE))
            return b"".join(pieces)
    except OSError:
        return read_bytes(path)  # says what is wrong


def _files_below(folder: Path) -> Iterator[Path]:
    for place, inner, files in os.walk(folder, followlinks=True):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if not name.startswith("."))


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in FORMATS and not name.startswith(".")


def _name_others(paths: Sequence[Path], folder: Path) -> None:
    """Say which files are left out, by their endings."""
    others = [path for path in paths if path.name != f"{path.parent.name}_boxes.txt"]
    if others:
        counts = Counter(path.suffix.lower() or "without ending" for path in others)
        listed = ", ".join(f"{number} {ending}" for ending, number in sorted(counts.items()))
        logger.warning(
            "%s: %d files in class folders are left out, as Pillow reads no images with their endings (%s), such as %s",
            folder, len(others), listed, others[0].relative_to(folder),
        )  # fmt: skip


def _item(item: object, where: str) -> Mapping[str, object]:
    if isinstance(item, Mapping):
        return item
    if isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
        return {"file": item[0], "label": item[1]}
    raise UserError(f"{where} is neither [file, label] nor an object with both")
