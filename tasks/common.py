"""What the tasks share: split names, digests, and reading JSON Lines with an error that names the line."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from benchmark.errors import UserError, near
from benchmark.settings.early import SPLITS

_OTHER_KINDS: Mapping[bytes, str] = {
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "UTF-16 (Excel's “Unicode Text”); save it as “CSV UTF-8”"),
    b"PK\x03\x04": "a workbook of Excel or another ZIP archive under this name; save the sheet as “CSV UTF-8”",
    b"\x1f\x8b": "compressed with gzip; decompress it first",
    b"version https://git-lfs": "a Git LFS pointer in place of the file; run: git lfs pull",
}
"""What a file that is no table begins with, and what to do."""


def check_split(task: str, name: str) -> str:
    """The name itself if it is one of the three splits; else UserError with the nearest one."""
    if name in SPLITS:
        return name
    raise UserError(f"task {task}: split={name!r} does not exist; {near(name, SPLITS)}")


def digest(settings: Mapping[str, Any], parts: Sequence[bytes | str] = (), files: Sequence[Path] = ()) -> str:
    """SHA-256 (hexadecimal) over settings, byte strings, and names and contents of files, in this order."""
    state = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    for file in files:
        data = read_bytes(file)
        state.update(file.name.encode() + b"\0" + len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


def read_bytes(file: Path) -> bytes:
    """Contents of a file; UserError where it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error


def check_kind(file: Path, content: bytes) -> None:
    """UserError where a file is of another kind than its ending says, with the way out."""
    for start, kind in _OTHER_KINDS.items():
        if content.startswith(start):
            raise UserError(f"{file} is {kind}")


def read_text(file: Path) -> str:
    """Contents of a UTF-8 file without its byte-order mark; UserError where it is not UTF-8 or holds a NUL character."""
    content = read_bytes(file)
    check_kind(file, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 at byte {error.start}; convert the file to UTF-8") from error
    if "\0" in text:
        *before, last = text_lines(text[: text.index("\0")] + "|")
        raise UserError(
            f"{file}:{len(before) + 1}: a NUL character (code 0) at column {len(last)}, one of {text.count(chr(0))} in the "
            "file; take them out, or convert the file to UTF-8 if it is UTF-16"
        )
    return text


def text_lines(text: str) -> list[str]:
    """Lines without their ends, which are LF, CR LF and CR, as in any text file.

    `str.splitlines` would also cut at U+2028, U+0085, form feeds and others, which stand within a line.
    """
    return [line.removesuffix("\n") for line in StringIO(text, newline=None)]


def json_lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number (from 1) and object of each line that is not blank; UserError with file and line for a broken one."""
    for number, line in enumerate(text_lines(read_text(file)), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{file}:{number}: broken JSON ({error.msg} at column {error.colno}); mend or drop the line"
            ) from error
        if not isinstance(value, dict):
            raise UserError(f"{file}:{number}: expected a JSON object, found {type(value).__name__}")
        yield number, value


def json_array(file: Path) -> list[dict[str, Any]] | None:
    """The objects of a file that is one JSON array, as pandas writes with `to_json(orient="records")`; None for others.

    UserError for a broken one, or for an item that is no object.
    """
    text = read_text(file)
    if not text.lstrip().startswith("["):
        return None
    try:
        items: list[Any] = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{file}:{error.lineno}"
        raise UserError(f"{where}: broken JSON array ({error.msg} at column {error.colno}); mend it") from error
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise UserError(f"{file}: item {index} of the array is no object, but {type(item).__name__}")
    return items
