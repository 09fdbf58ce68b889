"""Do the figures of a record come from the rows that lie beside it?"""

import math
from collections.abc import Mapping

import pandas as pd

from benchmark.results.digests import table_digest
from benchmark.results.record import EvaluationRecord
from benchmark.results.store import ROW_COLUMNS

TYPES: Mapping[str, str] = {"x": "float64", "value": "float64", "draw": "int64"}
NO_ROWS = pd.DataFrame({name: pd.Series(dtype=TYPES.get(name, "object")) for name in ROW_COLUMNS})
_OF_A_TEST = [name for name in ROW_COLUMNS if name != "evaluation"]
_TOLERANCE = 1e-6


def rows_digest(rows: pd.DataFrame) -> str:
    """Digest of the rows of one test, which its figures are stored with."""
    return table_digest(rows[_OF_A_TEST].astype(TYPES))


def check_rows(evaluations: Mapping[str, EvaluationRecord], rows: pd.DataFrame) -> None:
    """Every test's rows are those that its figures come from, each once.

    A figure with rows of its own counts as many examples as they do, and is their mean where the test says that it averages.

    Raises:
        ValueError: they are not.
    """
    if rows.duplicated([name for name in ROW_COLUMNS if name != "value"]).any():
        raise ValueError("rows.parquet holds rows twice")
    parts = {str(name): part for name, part in rows.groupby("evaluation", sort=False)}
    for name, evaluation in evaluations.items():
        tested = parts.get(name, NO_ROWS)
        if evaluation.rows != rows_digest(tested):
            raise ValueError(f"the rows of {name} are not those that its figures come from")
        if evaluation.figures and tested.empty:
            raise ValueError(f"{name} has figures and no rows")
        _check_means(name, evaluation, tested)


def _check_means(name: str, evaluation: EvaluationRecord, rows: pd.DataFrame) -> None:
    """Figures against the means of the rows that have their metric and x."""
    examples = rows.groupby(["metric", "x", "uid"], dropna=False, sort=False)["value"].mean().reset_index()
    means = examples.groupby(["metric", "x"], dropna=False, sort=False)["value"].agg(["mean", "size"]).reset_index()
    columns = (means[column].tolist() for column in ("metric", "x", "mean", "size"))
    of_rows = {(str(metric), _x_key(x)): (mean, size) for metric, x, mean, size in zip(*columns, strict=True)}
    for figure in evaluation.figures:
        mean, size = of_rows.get((figure.metric, _x_key(figure.x)), (math.nan, None))
        if size is None or math.isnan(figure.value):
            continue
        if figure.n != size:
            raise ValueError(f"{name}/{figure.metric} counts {figure.n} examples, its rows {size}")
        if evaluation.averaged and not math.isclose(figure.value, mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            raise ValueError(f"{name}/{figure.metric} is {figure.value:g}, the mean of its rows {mean:g}")


def _x_key(x: float) -> float | None:
    return None if math.isnan(x) else x
