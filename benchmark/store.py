"""Run folders: content-addressed, written atomically, read back with errors that name the folder.

`<out>/<task>/<model>/<method>-<hash>/` holds `config.yaml`, `attributions-<name>.safetensors`, where tests read edges
`edges-<target>.safetensors` and `graphs.json`, where they read explanations of several classes `classes.safetensors`,
`rows.parquet` (uid, evaluation, metric, x, value), `heatmap.json` and `record.json`, which is written last. No torch is
needed to read records and rows.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from benchmark import bounded
from benchmark.cache import atomic_path
from benchmark.errors import UserError
from benchmark.printable import one_line

SCHEMA = 1
ROW_COLUMNS = ("uid", "evaluation", "metric", "x", "value")


def digest(value: Any) -> str:
    """SHA-256 of a JSON-serialisable value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


class Corrupt(UserError):  # noqa: N818 - said of the file
    """Something in a run folder that cannot be read; `reason` says what, without a way out."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is corrupt ({reason}); remove the folder {path.parent}, and it is computed again")
        self.reason = reason


def corrupt(path: Path, reason: str) -> Corrupt:
    """The error for something in a run folder that cannot be read."""
    return Corrupt(path, reason)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; numbers that are not finite become null."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(_finite(value), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def read_json(path: Path) -> Any:
    """Read JSON; UserError naming the file where it is missing or broken."""
    try:
        return bounded.read_json(path)
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; the same command computes it again") from error
    except (OSError, ValueError) as error:
        raise corrupt(path, one_line(error)) from error


def read_record(folder: Path) -> dict[str, Any]:
    """The facts and figures of a finished cell."""
    record = read_json(folder / "record.json")
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise corrupt(folder / "record.json", f"no record of schema {SCHEMA}")
    return record


def read_rows(folder: Path) -> pd.DataFrame:
    """The per-example rows of a finished cell: uid, evaluation, metric, x, value."""
    return read_table(folder / "rows.parquet", ROW_COLUMNS)


def read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A Parquet table with at least these columns."""
    try:
        table = pd.read_parquet(path)
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:  # pyarrow's errors derive from these
        raise corrupt(path, one_line(error)) from error
    if missing := [name for name in columns if name not in table.columns]:
        raise corrupt(path, f"column {', '.join(missing)} is missing")
    return table


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a Parquet table atomically."""
    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False)


def find_cells(root: Path) -> list[Path]:
    """Folders of finished cells at or below `root`, sorted."""
    found = (path.parent for path in root.rglob("record.json"))
    return sorted(folder for folder in found if not folder.name.startswith("."))  # that one a kill left half-written


def require_writable(folder: Path) -> None:
    """UserError where nothing can be written to `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"out={folder} cannot be written to ({error.strerror}); choose another folder") from error


def clean(folder: Path) -> None:
    """Remove what only an unfinished cell needs, and what a kill left of files that were being written."""
    for path in (folder / "parts", *folder.glob(".*.*")):
        shutil.rmtree(path, ignore_errors=True)


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
        with atomic_path(path) as temporary:
            save_file({name: np.ascontiguousarray(a) for name, a in self.arrays.items()}, temporary, metadata)

    @staticmethod
    def read(path: Path) -> "Ragged":
        """Read what `write` wrote; UserError naming the file where it is broken."""
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata()
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
                return Ragged(tuple(json.loads(metadata["uids"])), arrays, json.loads(metadata["cost"]))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise corrupt(path, str(error).splitlines()[0] if str(error) else type(error).__name__) from error

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
