"""Do the figures of a record come from the rows that lie beside it?"""

import math
from collections.abc import Mapping

import pandas as pd

from benchmark.results.record import EvaluationRecord
from benchmark.results.row_files import KEY
from benchmark.results.stored_rows import StoredRows

_TOLERANCE = 1e-6


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
