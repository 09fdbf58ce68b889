"""What the tasks share: split names, digests, and reading JSON Lines with an error that names the line."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from benchmark.errors import UserError

SPLITS = ("train", "validation", "test")


def check_split(task: str, name: str) -> str:
    """The name itself if it is one of the three splits; else UserError with the nearest one."""
    if name in SPLITS:
        return name
    near = get_close_matches(name, SPLITS, n=1, cutoff=0.3)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise UserError(f"task {task}: split={name!r} does not exist{hint}; allowed are {', '.join(SPLITS)}")


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


def read_text(file: Path) -> str:
    """Contents of a UTF-8 file without its byte-order mark; UserError where it is not UTF-8."""
    try:
        return read_bytes(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 at byte {error.start}; convert the file to UTF-8") from error


def json_lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number (from 1) and object of each line that is not blank; UserError with file and line for a broken one."""
    for number, line in enumerate(read_text(file).split("\n"), start=1):
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


def label_index(value: object, labels: Sequence[str], where: str) -> int:
    """Index of a label: its name (else the same name in another case), or a whole number counting from 0.

    UserError names the place, the value and the labels where it is none of these.
    """
    text = str(value).strip()
    if text in labels:
        return labels.index(text)
    folded = [label.casefold() for label in labels]
    if text.casefold() in folded:
        return folded.index(text.casefold())
    if text.isdecimal() and int(text) < len(labels):
        return int(text)
    hidden = " (a hidden label: use a split with labels, task.splits or task.files)" if text == "-1" else ""
    raise UserError(f"{where}: label '{text}' is unknown{hidden}; the task's labels are {', '.join(labels)}")
