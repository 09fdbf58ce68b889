"""Digests of what is stored: they show whether a disk or an editor has changed it."""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

DAMAGE = (
    OSError, ValueError, LookupError, TypeError, ArithmeticError, NotImplementedError, MemoryError, RecursionError,
    pa.ArrowException,
)  # fmt: skip
"""What parsers raise when they are given something else than they expect."""

_MISFIT = "it is not what was written: its digest does not fit"


def digest(value: Any) -> str:
    """SHA-256 of a JSON-serialisable value, independent of the order of keys."""
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping with a digest of its own content (`seal`), as JSON keeps it; numbers that are not finite become null."""
    content = {key: item for key, item in finite(value).items() if key != "seal"}
    return {**content, "seal": digest(json.loads(json.dumps(content)))}


def check_seal(content: Any) -> None:
    """ValueError where something is not what `sealed` gave."""
    if not isinstance(content, dict) or "seal" not in content:
        raise ValueError("it has no seal")
    if digest({key: item for key, item in content.items() if key != "seal"}) != content["seal"]:
        raise ValueError(_MISFIT)


def finite(value: Any) -> Any:
    """The value with None in place of numbers that are not finite, which JSON does not know."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def table_digest(table: pd.DataFrame) -> str:
    """SHA-256 of a table's columns and values in the order of its rows; the index is left out."""
    (only,) = part_digests(table, [len(table)])
    return only


def part_digests(table: pd.DataFrame, sizes: Sequence[int]) -> list[str]:
    """`table_digest` of consecutive parts of a table, of so many rows each."""
    columns = [(name, *_hashed(table[name])) for name in table.columns]
    digests, stop = [], 0
    for size in sizes:
        hasher, start, stop = sha256(), stop, stop + size
        for name, kind, content_of in columns:
            content = content_of(slice(start, stop))
            hasher.update(f"{name}\0{kind}\0{len(content)}\0".encode() + content)
        digests.append(hasher.hexdigest())
    return digests


def _hashed(column: "pd.Series[Any]") -> tuple[str, Callable[[slice], bytes]]:
    """What stands for the kind of a column, and what is hashed of some of its rows: of numbers every NaN is the same one."""
    kind = column.dtype.kind if isinstance(column.dtype, np.dtype) else "O"
    if kind not in "biuf":
        texts = column.array
        return "O", lambda rows: "\0".join(map(str, texts[rows].tolist())).encode()
    numbers = column.to_numpy()
    same = np.where(np.isnan(numbers), np.nan, numbers) if kind == "f" else numbers
    return kind, lambda rows: same[rows].tobytes()


def arrays_digest(uids: Sequence[str], arrays: Mapping[str, np.ndarray], cost: Mapping[str, float]) -> str:
    """SHA-256 of named arrays and of what is stored with them."""
    facts = [list(uids), dict(cost), [[name, str(arrays[name].dtype), arrays[name].shape] for name in sorted(arrays)]]
    hasher = sha256(digest(facts).encode())
    for name in sorted(arrays):
        hasher.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def check_arrays(
    expected: str | None, uids: Sequence[str], arrays: Mapping[str, np.ndarray], cost: Mapping[str, float]
) -> None:
    """ValueError where arrays are not those of a digest."""
    if arrays_digest(uids, arrays, cost) != expected:
        raise ValueError(_MISFIT)
