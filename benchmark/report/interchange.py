"""`leaderboard.json`: all scalar figures with what they rest on, for other programs, as `leaderboard.schema.json` says."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.report.arrangement import ORDER, is_control, ordered_tests, repeats
from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import groups
from benchmark.results.digests import finite
from benchmark.results.record import EvaluationRecord

VERSION = 1
"""Of the schema: raised where a reader of an earlier one would misread the file."""

SCHEMA = Path(__file__).with_name("leaderboard.schema.json")
"""JSON Schema (draft 2020-12) of the file."""


def leaderboard_json(cells: Sequence[NamedCell], table: pd.DataFrame) -> bytes:
    """The file; numbers that are not finite are null.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
    """
    content = {"version": VERSION, "order": ORDER, "comparisons": [_group(*group, table) for group in groups(cells)]}
    return (json.dumps(finite(content), indent=1, ensure_ascii=False) + "\n").encode()


def _group(task: str, model: str, members: Sequence[NamedCell], table: pd.DataFrame) -> dict[str, Any]:
    """One task and model: the tests, and the methods from best to worst."""
    rows = table[(table["task"] == task) & (table["model"] == model) & table["x"].isna() & (table["metric"] != "")]
    by_method: dict[str, list[Mapping[Any, Any]]] = {}
    for row in rows.to_dict("records"):
        by_method.setdefault(str(row["method"]), []).append(row)
    named = {cell.method: cell for cell in members}
    order = dict.fromkeys(table.loc[(table["task"] == task) & (table["model"] == model), "method"])
    record, repeated = members[0].record, repeats(members)
    return {
        "task": {"shown": task, **asdict(record.task)},
        "model": {"shown": model, **asdict(record.model)},
        "tests": {name: _test(test, repeated.get(name)) for name, test in ordered_tests(members).items()},
        "methods": [_method(named[str(method)], by_method.get(str(method), [])) for method in order],
    }


def _test(test: EvaluationRecord, repeated: str | None) -> dict[str, Any]:
    metrics = {name: metric for name, metric in test.metrics.items() if metric.x is None}
    told = ("higher_is_better", "headline", "title", "short", "meaning")
    return {
        "name": test.name,
        "kind": test.about.kind,
        "title": test.about.title,
        "version": test.version,
        "digest": test.digest,
        "statistics": test.statistics,
        "target": test.target,
        "repeats": repeated,
        "metrics": {
            name: {key: getattr(metric, key) for key in told}
            | {"bounds": [None if math.isinf(end) else end for end in metric.bounds]}
            for name, metric in metrics.items()
        },
    }


def _method(cell: NamedCell, rows: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
    record = cell.record
    return {
        "shown": cell.method,
        "name": record.method.name,
        "version": record.method.version,
        "control": is_control(cell.method),
        "hash": record.hash,
        "git_commit": record.git_commit,
        "versions": dict(record.versions),
        "cost": asdict(record.cost),
        "figures": [
            {"test": row["evaluation"]}
            | {key: row[key] for key in ("metric", "value", "low", "high", "n", "dash", "remark", "constant", "tied")}
            for row in rows
        ],
    }
