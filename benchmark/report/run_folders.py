"""Run folders as the report reads them, its own and strangers': bounded in size, checked in form, names cleaned."""

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmark.errors import Corrupt, UserError, one_line, printable
from benchmark.results import bounded
from benchmark.results.record import SCHEMA, EvaluationRecord, Record
from benchmark.results.rows import KEY, StoredRows
from benchmark.results.store import of_comparison, read_bytes, read_cell

_log = logging.getLogger(__name__)
_OURS = re.compile(r".+-[0-9a-f]{8,}")  # <method>-<hash>
_TOLERANCE = 1e-6  # of a figure beside the mean of its rows


@dataclass(frozen=True)
class Stored:
    """A run folder's content: `record.json`, `rows.parquet`, and `config.yaml` (empty without one)."""

    folder: Path
    record: Record
    config: Mapping[str, Any]
    rows: StoredRows


def unreadable(path: Path, reason: str) -> UserError:
    """The error for a file of a run folder. The folder may be somebody else's, so the message does not say to remove it."""
    return UserError(f"{path} is corrupt ({reason}); leave its folder out of the report, or compute it again")


def cleaned(value: Any) -> Any:
    """The value with every text in it as it can be shown; ValueError where two keys become one."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        items = {cleaned(key): cleaned(item) for key, item in value.items()}
        if len(items) < len(value):
            raise ValueError("two names differ in characters that cannot be shown alone")
        return items
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
    if record["schema"] != SCHEMA:
        return f"schema {str(record['schema'])[:20]}, which this version does not read (it reads {SCHEMA})"
    return None if "evaluations" in record or _OURS.fullmatch(folder.name) else "no record of a comparison"


def without_foreign(folders: Sequence[Path]) -> list[Path]:
    """The folders that are ours; each of the others gets a warning."""
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


def read_stored(folder: Path, evaluations: Mapping[str, str] | None = None) -> Stored:
    """Read a run folder, and check that its figures fit its rows, its task and the ranges of their metrics.

    Args:
        folder: the run folder.
        evaluations: name and identity (`digest_of`) of the tests that are read, None for all that the folder holds. One
            that several comparisons share holds the tests of all of them.

    Raises:
        UserError: the folder is corrupt or lacks what a table needs; the message names it.
    """
    try:
        record, rows = read_cell(folder)
        check_rows(record.evaluations, rows)
        if evaluations is not None:
            record, rows = of_comparison(record, rows, evaluations)
        return Stored(folder, _cleaned(record), read_config(folder), _named(rows))
    except Corrupt as error:
        raise unreadable(error.path, error.reason) from error
    except (KeyError, ValueError, AttributeError, TypeError, OverflowError) as error:
        raise unreadable(folder / "record.json", one_line(error)) from error


def _cleaned(record: Record) -> Record:
    """The record with every text in it `printable`: itself, where they all are."""
    facts = record.to_json()
    printed = cleaned(facts)
    return record if printed == facts else Record.from_json(printed)


def _named(rows: StoredRows) -> StoredRows:
    """The rows with the names of tests and metrics as the cleaned record has them."""
    tests = {name: printable(name) for name in rows.tests}
    return rows.named(tests, {name: printable(name) for metrics in rows.tests.values() for name in metrics})


def check_rows(evaluations: Mapping[str, EvaluationRecord], rows: StoredRows) -> None:
    """Every test's rows are those that its figures come from, each once.

    A figure with rows of its own counts as many examples as they do, and is their mean where the test says that it averages.

    Raises:
        ValueError: they are not.
    """
    for name, evaluation in evaluations.items():
        if evaluation.rows != rows.digest(name):
            raise ValueError(f"the rows of {name} are not those that its figures come from")
        if evaluation.figures and not rows.tests.get(name):
            raise ValueError(f"{name} has figures and no rows")
        for part in rows.chunks(name):
            if part.duplicated(list(KEY)).any():
                raise ValueError("rows.parquet holds rows twice")
            _check_means(name, evaluation, part)


def _check_means(name: str, evaluation: EvaluationRecord, rows: pd.DataFrame) -> None:
    """Figures against the means of those of the rows that have their metric and x."""
    examples = rows  # of a single draw each example has one row
    if rows["draw"].nunique(dropna=False) > 1:
        examples = rows.groupby(["metric", "x", "uid"], dropna=False, sort=False)["value"].mean().reset_index()
    of_rows = _means(examples)
    for figure in evaluation.figures:
        mean, size = of_rows.get((figure.metric, _x_key(figure.x)), (math.nan, None))
        if size is None or math.isnan(figure.value):
            continue
        if figure.n != size:
            raise ValueError(f"{name}/{figure.metric} counts {figure.n} examples, its rows {size}")
        if evaluation.averaged and not math.isclose(figure.value, mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            raise ValueError(f"{name}/{figure.metric} is {figure.value:g}, the mean of its rows {mean:g}")


def _means(rows: pd.DataFrame) -> dict[tuple[str, float | None], tuple[float, int]]:
    """By metric and x the mean of the values that are numbers, and how many rows there are."""
    metric, names = pd.factorize(rows["metric"])
    at, found = pd.factorize(rows["x"], use_na_sentinel=False)
    metrics, places = np.asarray(names).tolist(), np.asarray(found, dtype=np.float64).tolist()
    group, value = metric * len(places) + at, rows["value"].to_numpy(dtype=np.float64)
    known = ~np.isnan(value)
    sizes = np.bincount(group, minlength=len(metrics) * len(places))
    counts = np.bincount(group[known], minlength=len(sizes))
    sums = np.bincount(group[known], weights=value[known], minlength=len(sizes))
    return {
        (str(metrics[one // len(places)]), _x_key(places[one % len(places)])): (
            float(sums[one] / counts[one]) if counts[one] else math.nan,
            int(sizes[one]),
        )
        for one in np.flatnonzero(sizes)
    }


def _x_key(x: float) -> float | None:
    return None if math.isnan(x) else x
