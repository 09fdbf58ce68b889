"""Run folders: content-addressed, written atomically, read back with errors that name the folder.

`<out>/<task>/<model>/<method>-<hash>/` holds `config.yaml`, `attributions-<name>.safetensors`, where tests read edges
`edges-<target>.safetensors` and `graphs.json`, where they read explanations of several classes `classes.safetensors`,
`rows.parquet` (uid, evaluation, metric, x, value, draw), `heatmap.json` and `record.json`, which is written last. No torch
is needed to read records and rows.

Nothing is read that is not what was written: `record.json` holds the SHA-256 of every other file (`files`) and a digest of
its own content (`seal`). Arrays and tables exist before the record does, and hold a digest of their own content as well.
"""

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from benchmark.errors import Corrupt, Missing, UserError, one_line
from benchmark.results import bounded
from benchmark.results.annotated import as_dataclass
from benchmark.results.cache import atomic_path
from benchmark.results.digests import DAMAGE, arrays_digest, check_arrays, check_seal, finite
from benchmark.results.record import SCHEMA, Record
from benchmark.results.rows import File, StoredRows, held

T = TypeVar("T")

_PATIENCE = (0.0, 0.02, 0.1, 0.5)  # seconds before each look at a folder that another process may be writing
_HIGH, _LOW = ".high", ".low"  # halves of an array whose numbers need no more than 24 bits
NOT_AS_RECORDED = "it is not what was written: its SHA-256 is not the one in record.json"


def _corrupt(path: Path, error: Exception) -> Corrupt:
    return Corrupt(path, one_line(error))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; numbers that are not finite become null. UserError for more than `read_json` reads."""
    content = json_bytes(value)
    try:
        bounded.check_written(path.name, len(content))
    except ValueError as error:
        raise UserError(f"{path} could not be read again ({error}); nothing was written") from error
    write_bytes(path, content)


def json_bytes(value: Any) -> bytes:
    """JSON as it is written to a file."""
    return (json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Read JSON; UserError naming the file where it is missing, broken, or not what the folder's record says."""
    return _parsed_json(path, read_bytes(path))


def _parsed_json(path: Path, content: bytes) -> Any:
    try:
        return bounded.parse_json(content)
    except DAMAGE as error:
        raise _corrupt(path, error) from error


def read_sealed(path: Path) -> dict[str, Any]:
    """Read JSON that was `sealed`; UserError where its content is another."""
    content: dict[str, Any] = read_json(path)
    try:
        check_seal(content)
    except ValueError as error:
        raise _corrupt(path, error) from error
    return content


def read_object(kind: type[T], path: Path) -> T:
    """Read a sealed dataclass; UserError naming the file where it is something else."""
    try:
        content: T = as_dataclass(kind, read_sealed(path), "")
    except ValueError as error:
        raise Corrupt(path, str(error)) from error
    return content


def read_record(folder: Path) -> Record:
    """The facts and figures of a finished cell; UserError where there is no record, or none that can be read."""
    path = folder / "record.json"
    try:
        return _record(_file_content(path))
    except DAMAGE as error:
        raise _corrupt(path, error) from error


@lru_cache(maxsize=256)
def _record(content: bytes) -> Record:
    """The record of a content, which is looked at many times while a command takes up a folder."""
    parsed = bounded.parse_json(content)
    record = Record.from_json(parsed)
    check_seal(parsed)
    return record


def find_record(folder: Path) -> Record | None:
    """The same; None where there is no record, or one of an earlier schema, whose cell is computed again."""
    path = folder / "record.json"
    if not path.exists():
        return None
    try:
        return read_record(folder)
    except Corrupt:
        content = _parsed_json(path, _file_content(path))
        if isinstance(content, dict) and content.get("schema") in range(1, SCHEMA):
            return None
        raise


def _file_content(path: Path) -> bytes:
    try:
        return bounded.read_bytes(path)
    except FileNotFoundError as error:
        raise Missing(path) from error
    except (OSError, ValueError) as error:
        raise _corrupt(path, error) from error


def of_comparison(record: Record, rows: StoredRows, digests: Mapping[str, str]) -> tuple[Record, StoredRows]:
    """Record and rows with the tests of one comparison alone, under the names that it gives them.

    Args:
        record: of a cell, which several comparisons may share.
        rows: of the cell.
        digests: the identity of each test by its name.
    """
    names = {
        key: name
        for name, digest in digests.items()
        for key, evaluation in record.evaluations.items()
        if (evaluation.name, evaluation.digest) == (name, digest)
    }
    tests = {name: record.evaluations[key] for key, name in names.items()}
    return replace(record, evaluations=tests), rows.named(names)


def listed(path: Path) -> tuple[str, ...]:
    """The digests that the folder's record allows a file to have; none where there is no record, or it says nothing."""
    record = find_record(path.parent)
    return () if record is None else record.digests(path.name)


def read_bytes(path: Path) -> bytes:
    """The content of a file of a run folder; UserError where it is missing, or not what the folder's record says."""
    for pause in _PATIENCE:
        time.sleep(pause)
        content, allowed = _file_content(path), listed(path)
        if not allowed or sha256(content).hexdigest() in allowed:
            return content
    raise Corrupt(path, NOT_AS_RECORDED)


def hash_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return _hash(file)


def read_rows(folder: Path) -> pd.DataFrame:
    """All rows of a finished cell: uid, evaluation, metric, x, value, and draw (0 where nothing is drawn)."""
    return stored_rows(folder).frame()


def stored_rows(folder: Path) -> StoredRows:
    """The same, to be read test by test."""
    path = folder / "rows.parquet"
    for pause in _PATIENCE:
        time.sleep(pause)
        file, allowed = _held(path), listed(path)
        if not allowed or _hash(file) in allowed:
            return StoredRows.open(path, file)
    raise Corrupt(path, NOT_AS_RECORDED)


def read_cell(folder: Path) -> tuple[Record, StoredRows]:
    """Record and rows of a finished cell that belong together, though another process may be adding to the folder."""
    path = folder / "rows.parquet"
    for pause in _PATIENCE:
        time.sleep(pause)
        record, file = read_record(folder), _held(path)
        written = _hash(file) in record.digests(path.name)
        if written and not record.coming:
            break
    if not written:
        raise Corrupt(path, NOT_AS_RECORDED)
    declared = {name: test.rows for name, test in record.evaluations.items()}
    return record, StoredRows.open(path, file, record.task.n, declared, intact=True)


def _held(path: Path) -> File:
    try:
        return held(path)
    except FileNotFoundError as error:
        raise Missing(path) from error
    except (OSError, ValueError) as error:
        raise _corrupt(path, error) from error


def _hash(file: File) -> str:
    digest = file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


def find_cells(root: Path) -> list[Path]:
    """Folders of finished cells at or below `root`, sorted; what another process removes meanwhile is passed over."""
    cells = []
    for place, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]  # those: half-written before a kill
        if "record.json" in names:
            cells.append(Path(place))
    return sorted(cells)


def refusal(folder: Path) -> UserError | None:
    """The error to raise where nothing can be written to `folder`; None where something can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return UserError(f"out={folder} cannot be written to ({error.strerror}); choose another folder")


@dataclass(frozen=True)
class Ragged:
    """Attributions of several examples without padding: what a method wrote, keyed by array name.

    Attributes:
        uids: N examples in order.
        arrays: what each says of the examples, or of their tokens, or pairs of tokens, one after the other.
        cost: forward and backward passes and seconds that they took.
    """

    uids: tuple[str, ...]
    arrays: Mapping[str, np.ndarray]
    cost: Mapping[str, float]

    def write(self, path: Path) -> None:
        """Write a safetensors file atomically; numbers of 24 bits take three bytes there (`packed`)."""
        metadata = {"uids": json.dumps(self.uids), "cost": json.dumps(dict(self.cost))}
        metadata["sha256"] = arrays_digest(self.uids, self.arrays, self.cost)
        with atomic_path(path) as temporary:
            save_file(packed(self.arrays), temporary, metadata)

    @staticmethod
    def read(path: Path) -> "Ragged":
        """Read what `write` wrote; UserError naming the file where it is broken or not what the folder's record says."""
        try:
            if (allowed := listed(path)) and hash_of(path) not in allowed:
                raise ValueError(NOT_AS_RECORDED)
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata()
                arrays = unpacked({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 - not a mapping
            ragged = Ragged(tuple(json.loads(metadata["uids"])), arrays, json.loads(metadata["cost"]))
            check_arrays(metadata.get("sha256"), ragged.uids, ragged.arrays, ragged.cost)
        except (SafetensorError, *DAMAGE) as error:
            raise _corrupt(path, error) from error
        return ragged

    @staticmethod
    def merge(parts: Sequence["Ragged"]) -> "Ragged":
        """The examples of all parts, one after the other; costs add up."""
        arrays = {name: np.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays}
        cost = {name: sum(part.cost[name] for part in parts) for name in parts[0].cost}
        return Ragged(tuple(uid for part in parts for uid in part.uids), arrays, cost)


def packed(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, those of float32 whose last byte is 0 throughout as their first two bytes and their third: without loss.

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
