"""Do the figures of a run folder fit its rows, its task and the ranges of their metrics?"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from benchmark.results.digests import table_digest
from benchmark.results.store import ROW_COLUMNS

TYPES: Mapping[str, str] = {"x": "float64", "value": "float64", "draw": "int64"}
NO_ROWS = pd.DataFrame({name: pd.Series(dtype=TYPES.get(name, "object")) for name in ROW_COLUMNS})
_OF_A_TEST = [name for name in ROW_COLUMNS if name != "evaluation"]
_TOLERANCE = 1e-6


def rows_digest(rows: pd.DataFrame) -> str:
    """Digest of the rows of one test, which its figures are stored with."""
    return table_digest(rows[_OF_A_TEST].astype(TYPES))


def check_figures(name: str, facts: Mapping[str, Any], n: int) -> None:
    """Figures lie in the ranges of their metrics, count no more examples than there are, and stand there once.

    Args:
        name: of the test.
        facts: its entry in the record.
        n: examples of the task.

    Raises:
        ValueError: they do not; the message says which figure.
    """
    seen = set()
    for figure in facts.get("figures") or ():
        metric, x = str(figure["metric"]), _number(figure.get("x"))
        shown = f"{name}/{metric}" if math.isnan(x) else f"{name}/{metric} at {x:g}"
        key = (metric, None if math.isnan(x) else x)
        if key in seen:
            raise ValueError(f"{shown} stands there twice")
        seen.add(key)
        if not 0 <= int(figure["n"]) <= n:
            raise ValueError(f"{shown} counts {figure['n']} examples of {n}")
        declared = (facts.get("metrics") or {}).get(metric) or {}
        low, high = declared.get("bounds") or (None, None)
        value = _number(figure.get("value"))
        low, high = (-math.inf if low is None else float(low)), (math.inf if high is None else float(high))
        if value < low - _TOLERANCE or value > high + _TOLERANCE:
            raise ValueError(f"{shown} is {value:g}, outside of [{low:g}, {high:g}]")


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def check_rows(evaluations: Mapping[str, Mapping[str, Any]], rows: pd.DataFrame) -> None:
    """Every test's rows are those that its figures come from, each once.

    Where the record holds a digest of a test's rows they are compared exactly. A figure with rows of its own counts as many
    examples as they do, and is their mean where the test says that it averages.

    Raises:
        ValueError: they are not.
    """
    if rows.duplicated([name for name in ROW_COLUMNS if name != "value"]).any():
        raise ValueError("rows.parquet holds rows twice")
    parts = {str(name): part for name, part in rows.groupby("evaluation", sort=False)}
    for name, facts in evaluations.items():
        own = parts.get(name, NO_ROWS)
        if "rows" in facts and facts["rows"] != rows_digest(own):
            raise ValueError(f"the rows of {name} are not those that its figures come from")
        if facts.get("figures") and own.empty:
            raise ValueError(f"{name} has figures and no rows")
        _check_means(name, facts, own)


def _check_means(name: str, facts: Mapping[str, Any], rows: pd.DataFrame) -> None:
    """Figures against the means of the rows that have their metric and x."""
    examples = rows.groupby(["metric", "x", "uid"], dropna=False, sort=False)["value"].mean().reset_index()
    found = examples.groupby(["metric", "x"], dropna=False, sort=False)["value"].agg(["mean", "size"]).reset_index()
    columns = (found[name].tolist() for name in ("metric", "x", "mean", "size"))
    known = {(str(metric), _key(x)): (mean, size) for metric, x, mean, size in zip(*columns, strict=True)}
    for figure in facts.get("figures") or ():
        mean, size = known.get((str(figure["metric"]), _key(figure.get("x"))), (math.nan, None))
        if size is None or figure.get("value") is None:
            continue
        if int(figure["n"]) != size:
            raise ValueError(f"{name}/{figure['metric']} counts {figure['n']} examples, its rows {size}")
        value = float(figure["value"])
        if facts.get("averaged") and not math.isclose(value, mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            raise ValueError(f"{name}/{figure['metric']} is {value:g}, the mean of its rows {mean:g}")


def _key(x: Any) -> float | None:
    number = _number(x)
    return None if math.isnan(number) else number
