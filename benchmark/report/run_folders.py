"""Run folders as the report reads them, its own and strangers': bounded in size, checked in form, names cleaned."""

import json
import logging
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd

from benchmark.errors import Corrupt, UserError, one_line, printable
from benchmark.report.labels import Facts
from benchmark.results import bounded
from benchmark.results.checks import check_figures, check_rows
from benchmark.results.store import SCHEMA, UNSEALED, read_bytes, read_cell, read_record

Record = Mapping[str, Any]

_log = logging.getLogger(__name__)
_OURS = re.compile(r".+-[0-9a-f]{8,}")  # <method>-<hash>


@dataclass(frozen=True)
class Stored:
    """A run folder's content: `record.json`, `rows.parquet`, and `config.yaml` with dotted keys (empty without one)."""

    folder: Path
    record: Record
    config: Facts
    rows: pd.DataFrame


def unreadable(path: Path, reason: str) -> UserError:
    """The error for a file of a run folder; whose folder it is is not known, so it is not said to be removed."""
    return UserError(f"{path} is corrupt ({reason}); leave its folder out of the report, or compute it again")


def cleaned(value: Any) -> Any:
    """The value with every text in it as it can be shown; ValueError where two keys become one."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        found = {cleaned(key): cleaned(item) for key, item in value.items()}
        if len(found) < len(value):
            raise ValueError("two names differ in characters that cannot be shown alone")
        return found
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    return value


def read_cleaned(path: Path, parse: Callable[[bytes], Any] = bounded.parse_json) -> Any:
    """What a JSON or YAML file holds, with texts as they can be shown; UserError in one line where it is broken."""
    try:
        return cleaned(parse(read_bytes(path)))
    except Corrupt as error:
        raise unreadable(error.path, error.reason) from error
    except ValueError as error:
        raise unreadable(path, one_line(error)) from error


def is_foreign(folder: Path) -> str | None:
    """Why a folder with a `record.json` is none of ours, or None.

    A record that cannot be read is ours only where the folder's name ends in a hash, as run folders do.
    """
    try:
        record = bounded.parse_json(bounded.read_bytes(folder / "record.json"))
    except (OSError, ValueError) as error:
        return None if _OURS.fullmatch(folder.name) else f"no record ({one_line(error)})"
    if not isinstance(record, dict) or "schema" not in record:
        return "no record of a comparison"
    if record["schema"] not in (SCHEMA, UNSEALED):
        return f"schema {str(record['schema'])[:20]}, which this version does not read (it reads {SCHEMA})"
    return None if "evaluations" in record or _OURS.fullmatch(folder.name) else "no record of a comparison"


def without_foreign(folders: Sequence[Path]) -> list[Path]:
    """The folders that are ours, each other one told in a warning."""
    ours = []
    for folder in folders:
        if (reason := is_foreign(folder)) is None:
            ours.append(folder)
        else:
            _log.warning("%s", printable(f"{folder / 'record.json'} is left out: {reason}"))
    return ours


def read_config(folder: Path) -> dict[str, Any]:
    """The content of `config.yaml`, empty where there is none; UserError where it is broken."""
    path = folder / "config.yaml"
    if not path.exists():
        return {}
    content = read_cleaned(path, bounded.parse_yaml)
    if not isinstance(content, dict):
        raise unreadable(path, "no settings")
    return content


def _flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Hashable]]:
    """Leaves of nested mappings as (dotted key, value); a list is one value, written as JSON."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree if isinstance(tree, Hashable) else json.dumps(tree, default=str)


def read_stored(folder: Path) -> Stored:
    """Read a run folder, and check that its figures fit its rows, its task and the ranges of their metrics.

    Raises:
        UserError: the folder is corrupt or lacks what a table needs; the message names it.
    """
    path = folder / "record.json"
    try:
        known = read_record(folder)
        if (problem := next(_problems(known), None)) is not None:
            raise unreadable(path, problem)
        if (folder / "rows.parquet").is_file():
            bounded.check_rows(bounded.read_bytes(folder / "rows.parquet"), int(known["task"]["n"]))
        record, rows = read_cell(folder)
        _check(record, rows)
        return Stored(folder, cleaned(record), dict(_flat(read_config(folder))), _named(rows))
    except Corrupt as error:
        raise unreadable(error.path, error.reason) from error
    except (KeyError, ValueError, AttributeError, TypeError, OverflowError) as error:
        raise unreadable(path, one_line(error)) from error


def _check(record: Record, rows: pd.DataFrame) -> None:
    for name, facts in record["evaluations"].items():
        check_figures(str(name), facts, int(record["task"]["n"]))
    for name in ("x", "value"):
        if len(rows) and not pd.api.types.is_numeric_dtype(rows[name]) and rows[name].notna().any():
            raise ValueError(f"rows.parquet: column {name} holds no numbers")
    check_rows(record["evaluations"], rows)


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the names of tests and metrics as the cleaned record has them."""
    shown = {name: {value: printable(str(value)) for value in rows[name].unique()} for name in ("evaluation", "metric")}
    changed = [name for name, texts in shown.items() if any(value != text for value, text in texts.items())]
    return rows.assign(**{name: rows[name].map(shown[name]) for name in changed})


_TEXT, _NUMBER, _NOTHING = str, (int, float), type(None)
_FIELDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "task": {
        "name": (_TEXT,), "version": (_TEXT, *_NUMBER), "split": (_TEXT,), "limit": (int, _NOTHING),
        "seed": (int, _TEXT, _NOTHING), "n": (int,), "fingerprint": (_TEXT,),
    },
    "model": {"name": (_TEXT,), "fingerprint": (_TEXT,), "dtype": (_TEXT,)},
    "method": {"name": (_TEXT,), "version": (_TEXT, *_NUMBER)},
}  # fmt: skip
_COST = ("seconds", "forward_passes", "backward_passes", "peak_memory_bytes")
_OPTIONAL_TEXT = ("dash", "remark", "target", "digest")


def _problems(record: Record) -> Iterator[str]:
    """What is missing in a record or has another type than tables need."""
    for section, fields in _FIELDS.items():
        entry = record.get(section)
        yield from _wrong(section, entry, fields)
        if isinstance(entry, Mapping) and entry.get("name") == "":
            yield f"{section}.name is empty"
    yield from _wrong("", record, {"hash": (_TEXT,), "evaluations": (dict,)})
    if not isinstance(record.get("evaluations"), dict):
        return
    yield from _wrong("", {"cost": None, "dash": None, **record}, {"cost": (dict, _NOTHING), "dash": (_TEXT, _NOTHING)})
    cost = record.get("cost") or {}
    yield from _wrong("cost", cost, {key: (*_NUMBER, _NOTHING) for key in _COST if key in cost})
    for name, entry in record["evaluations"].items():
        yield from _evaluation_problems(f"evaluations.{name}" if name else "evaluations: an empty name", entry)


def _wrong(where: str, entry: Any, fields: Mapping[str, tuple[type, ...]]) -> Iterator[str]:
    """Fields of an object that are missing or of another type (True and False are no numbers)."""
    if not isinstance(entry, Mapping):
        yield f"{where} is {'missing' if entry is None else 'no object'}"
        return
    for key, types in fields.items():
        path = f"{where}.{key}" if where else key
        if key not in entry:
            yield f"{path} is missing"
        elif not isinstance(entry[key], types) or (isinstance(entry[key], bool) and bool not in types):
            yield f"{path} has another type than {' or '.join(kind.__name__ for kind in types)}"


def _evaluation_problems(where: str, entry: Any) -> Iterator[str]:
    given = dict(entry) if isinstance(entry, Mapping) else {}
    optional = {key: (_TEXT, _NOTHING) for key in _OPTIONAL_TEXT if key in given}
    lists = {"figures": (list, _NOTHING), "metrics": (dict, _NOTHING)}
    yield from _wrong(where, entry, {**optional, **{key: kinds for key, kinds in lists.items() if key in given}})
    for name, metric in cast(Mapping[str, Any], given.get("metrics") or {}).items():
        kinds = {"higher_is_better": (bool, _NOTHING), "x": (_TEXT, _NOTHING), "headline": (bool,)}
        present = {key: kinds[key] for key in kinds if not isinstance(metric, Mapping) or key in metric}
        yield from _wrong(f"{where}.metrics.{name}", metric, present)
    for place, figure in enumerate(given.get("figures") or ()):
        numbers = dict.fromkeys(("x", "value", "low", "high"), (*_NUMBER, _NOTHING))
        present = {key: numbers[key] for key in numbers if not isinstance(figure, Mapping) or key in figure}
        yield from _wrong(f"{where}.figures[{place}]", figure, {"metric": (_TEXT,), "n": (int,), **present})
