"""Run folders: content-addressed, written atomically, read back with errors that name the folder.

`<out>/<task>/<model>/<method>-<hash>/` holds `config.yaml`, `attributions-<name>.safetensors`, where tests read edges
`edges-<target>.safetensors` and `graphs.json`, where they read explanations of several classes `classes.safetensors`,
`rows.parquet` (uid, evaluation, metric, x, value, draw), `heatmap.json` and `record.json`, which is written last. No torch
is needed to read records and rows.

Nothing is read that is not what was written: `record.json` holds the SHA-256 of every other file (`files`) and a digest of
its own content (`seal`); arrays and tables, which exist before the record does, hold a digest of theirs as well.
"""

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from benchmark.errors import Corrupt, Missing, UserError, one_line
from benchmark.results import bounded
from benchmark.results.cache import atomic_path
from benchmark.results.digests import DAMAGE, arrays_digest, check_arrays, check_seal, finite, table_bytes, table_of

SCHEMA = 2
UNSEALED = 1
"""The schema of version 0.2.0, whose records hold no digests: the report reads them, nothing is added to them."""

ROW_COLUMNS = ("uid", "evaluation", "metric", "x", "value", "draw")

_PATIENCE = (0.0, 0.02, 0.1, 0.5)  # seconds before each look at a folder that another process may be writing
_NOT_AS_RECORDED = "it is not what was written: its SHA-256 is not the one in record.json"


def corrupt(path: Path, reason: str) -> Corrupt:
    """The error for something in a run folder that cannot be read."""
    return Corrupt(path, reason)


def _corrupt(path: Path, error: Exception) -> Corrupt:
    return corrupt(path, one_line(error))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; numbers that are not finite become null."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """JSON as it is written to a file."""
    return (json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Read JSON; UserError naming the file where it is missing, broken, or not what the folder's record says."""
    return _parsed(path, read_bytes(path))


def _parsed(path: Path, content: bytes) -> Any:
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


def read_record(folder: Path) -> dict[str, Any]:
    """The facts and figures of a finished cell."""
    path = folder / "record.json"
    record = _parsed(path, _content(path))
    if not isinstance(record, dict) or record.get("schema") not in (SCHEMA, UNSEALED):
        raise corrupt(path, f"no record of schema {SCHEMA}")
    if record["schema"] == SCHEMA:
        try:
            check_seal(record)
        except ValueError as error:
            raise _corrupt(path, error) from error
    return record


def _content(path: Path) -> bytes:
    try:
        return bounded.read_bytes(path)
    except FileNotFoundError as error:
        raise Missing(path) from error
    except (OSError, ValueError) as error:
        raise _corrupt(path, error) from error


def of_comparison(
    record: Mapping[str, Any], rows: pd.DataFrame, digests: Mapping[str, str]
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Record and rows with the tests of one comparison alone, under the names that it gives them.

    Args:
        record: of a cell, which several comparisons may share.
        rows: of the cell.
        digests: the identity of each test by its name.
    """
    names = {
        key: name
        for name, digest in digests.items()
        for key, facts in record["evaluations"].items()
        if facts.get("name", key) == name and facts.get("digest") == digest
    }
    tests = {name: record["evaluations"][key] for key, name in names.items()}
    own = rows[rows["evaluation"].isin(list(names))]
    return {**record, "evaluations": tests}, own.assign(evaluation=own["evaluation"].map(names))


def listed(path: Path) -> tuple[str, ...]:
    """The digests that the folder's record allows a file to have; none where there is no record, or it says nothing."""
    if not (path.parent / "record.json").exists():
        return ()
    record = read_record(path.parent)
    known = (record.get(key, {}).get(path.name) for key in ("files", "coming"))
    return tuple(name for name in known if name is not None)


def read_bytes(path: Path) -> bytes:
    """The content of a file of a run folder; UserError where it is missing, or not what the folder's record says."""
    for pause in _PATIENCE:
        time.sleep(pause)
        content, allowed = _content(path), listed(path)
        if not allowed or sha256(content).hexdigest() in allowed:
            return content
    raise corrupt(path, _NOT_AS_RECORDED)


def hash_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_rows(folder: Path) -> pd.DataFrame:
    """The per-example rows of a finished cell: uid, evaluation, metric, x, value, and draw (0 where nothing is drawn)."""
    path = folder / "rows.parquet"
    if listed(path) or not (folder / "record.json").exists():
        return read_table(path, ROW_COLUMNS)
    table = _table(path, checked=False)  # of an earlier version
    return _with_columns(path, table.assign(draw=0) if "draw" not in table else table, ROW_COLUMNS)


def read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A Parquet table that `write_table` wrote, with at least these columns."""
    return _with_columns(path, _table(path, checked=True), columns)


def _table(path: Path, *, checked: bool) -> pd.DataFrame:
    content = read_bytes(path)
    try:
        bounded.check_rows(content)
        return table_of(content, checked=checked)
    except DAMAGE as error:
        raise _corrupt(path, error) from error


def _with_columns(path: Path, table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    if missing := [name for name in columns if name not in table.columns]:
        raise corrupt(path, f"column {', '.join(missing)} is missing")
    return table


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a Parquet table atomically, with checksums."""
    write_bytes(path, table_bytes(table))


def read_cell(folder: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """Record and rows of a finished cell that belong together, though another process may be adding to the folder."""
    for pause in _PATIENCE:
        time.sleep(pause)
        record, rows = read_record(folder), read_rows(folder)
        if "coming" not in record and read_record(folder) == record:
            break
    return record, rows


def find_cells(root: Path) -> list[Path]:
    """Folders of finished cells at or below `root`, sorted; what another process removes meanwhile is passed over."""
    found = []
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]  # those that a kill left half-written
        if "record.json" in names:
            found.append(Path(place))
    return sorted(found)


def require_writable(folder: Path) -> None:
    """UserError where nothing can be written to `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"out={folder} cannot be written to ({error.strerror}); choose another folder") from error


@dataclass(frozen=True)
class Ragged:
    """Attributions of several examples without padding: what a method wrote, keyed by array name.

    Attributes:
        uids: N examples in order.
        arrays: `target` [N], `lengths` [N], and where the method gives them `tokens` [Σ T], `heads` [N L H],
            `layers` [L, Σ T], `edges` [L, Σ T²], `classes` [K, Σ T].
        cost: forward and backward passes and seconds that they took.
    """

    uids: tuple[str, ...]
    arrays: Mapping[str, np.ndarray]
    cost: Mapping[str, float]

    def write(self, path: Path) -> None:
        """Write a safetensors file atomically."""
        metadata = {"uids": json.dumps(self.uids), "cost": json.dumps(dict(self.cost))}
        metadata["sha256"] = arrays_digest(self.uids, self.arrays, self.cost)
        with atomic_path(path) as temporary:
            save_file({name: np.ascontiguousarray(a) for name, a in self.arrays.items()}, temporary, metadata)

    @staticmethod
    def read(path: Path) -> "Ragged":
        """Read what `write` wrote; UserError naming the file where it is broken or not what the folder's record says."""
        try:
            if (allowed := listed(path)) and hash_of(path) not in allowed:
                raise ValueError(_NOT_AS_RECORDED)
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata()
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            found = Ragged(tuple(json.loads(metadata["uids"])), arrays, json.loads(metadata["cost"]))
            check_arrays(metadata.get("sha256"), found.uids, found.arrays, found.cost)
        except (SafetensorError, *DAMAGE) as error:
            raise _corrupt(path, error) from error
        return found

    @staticmethod
    def merge(parts: Sequence["Ragged"]) -> "Ragged":
        """The examples of all parts, one after the other; costs add up."""
        axis = {"layers": 1, "edges": 1, "classes": 1}
        arrays = {
            name: np.concatenate([part.arrays[name] for part in parts], axis=axis.get(name, 0))
            for name in parts[0].arrays
        }
        cost = {name: sum(part.cost[name] for part in parts) for name in parts[0].cost}
        return Ragged(tuple(uid for part in parts for uid in part.uids), arrays, cost)
