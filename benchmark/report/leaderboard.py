"""All figures as one data frame, and as tables in the form that every format prints."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmark.report.cells import NamedCell, control_order, load_cells
from benchmark.report.labels import natural
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.results.record import UNDECLARED, EvaluationRecord, Metric

COLUMNS = (
    "task", "model", "method", "evaluation", "metric", "x", "value", "low", "high", "n", "higher_is_better", "headline",
    "dash", "remark",
)  # fmt: skip
CSV_COLUMNS = ("task", "model", "method", "evaluation", "metric", "value", "low", "high", "n")
CURVE_COLUMNS = ("task", "model", "method", "evaluation", "metric", "x", "value", "low", "high", "n")
NOT_RUN = "this test was not run for the method"
NO_TEST = "no test was run"
NO_FIGURE = "the test reported no such figure"


@dataclass(frozen=True)
class MetricColumn:
    """A scalar metric as a column of a table."""

    evaluation: str
    metric: str
    higher_is_better: bool | None

    @property
    def heading(self) -> Heading:
        """How the column is headed; metrics are grouped by their test."""
        return Heading(self.metric, self.higher_is_better, group=self.evaluation)


def _figures(test: EvaluationRecord) -> Iterator[dict[str, Any]]:
    """One row per figure of an evaluation that the method could serve."""
    for figure in test.figures:
        metric = test.metric(figure.metric)
        yield {
            **asdict(figure),
            "higher_is_better": metric.higher_is_better,
            "headline": metric.headline,
            "dash": None,
            "remark": test.remark if metric.higher_is_better is not None else None,  # which is about ranked figures
        }


def _dashes(metrics: Mapping[str, Metric], reason: str) -> Iterator[dict[str, Any]]:
    """One row without a value per scalar metric that the method could not serve."""
    nothing = dict.fromkeys(("x", "value", "low", "high"), math.nan) | {"n": 0, "dash": reason, "remark": None}
    for name, metric in metrics.items():
        if metric.x is None:
            ranked = {"higher_is_better": metric.higher_is_better, "headline": metric.headline}
            yield {"metric": name, **nothing, **ranked}


def _test_rows(cell: NamedCell, shown: str, metrics: Mapping[str, Metric]) -> Iterator[dict[str, Any]]:
    """Rows of one cell for one evaluation (name shown) with its metrics."""
    test = cell.evaluation(shown)
    reason = cell.dash or (NOT_RUN if test is None else test.dash)
    if test is None or reason is not None:
        yield from _dashes(metrics or {"": UNDECLARED}, reason or NOT_RUN)
        return
    reported = {figure.metric for figure in test.figures}
    yield from _figures(test)
    yield from _dashes({name: metric for name, metric in metrics.items() if name not in reported}, NO_FIGURE)


def _cell_rows(cell: NamedCell, declared: Mapping[str, Mapping[str, Metric]]) -> Iterator[dict[str, Any]]:
    """Rows of one cell over all evaluations (name shown -> metrics) of its task and model."""
    place = {"task": cell.task, "model": cell.model, "method": cell.method}
    for shown, metrics in declared.items():
        yield from (place | {"evaluation": shown} | row for row in _test_rows(cell, shown, metrics))
    if not declared:
        yield from (place | {"evaluation": ""} | row for row in _dashes({"": UNDECLARED}, cell.dash or NO_TEST))


def known_metrics(cells: Sequence[NamedCell]) -> dict[str, dict[str, Metric]]:
    """Evaluation (name shown) -> metric -> its declaration, over all cells given; metrics in the order declared."""
    names = sorted({shown for cell in cells for shown in cell.evaluations})
    declared: dict[str, dict[str, Metric]] = {shown: {} for shown in names}
    for cell in cells:
        for shown in cell.evaluations:
            if (test := cell.evaluation(shown)) is not None:
                for name, metric in test.metrics.items():
                    declared[shown].setdefault(name, metric)
    return declared


def groups(cells: Sequence[NamedCell]) -> list[tuple[str, str, list[NamedCell]]]:
    """The cells of each task and model: what a table compares."""
    return [(*place, list(members)) for place, members in groupby(cells, key=lambda cell: (cell.task, cell.model))]


def groups_with_figures(
    cells: Sequence[NamedCell], table: pd.DataFrame
) -> Iterator[tuple[str, str, list[NamedCell], pd.DataFrame]]:
    """The same, with the rows of each task and model of the cells' figures (`frame`)."""
    for task, model, members in groups(cells):
        yield task, model, members, table[(table["task"] == task) & (table["model"] == model)]


def frame(cells: Sequence[NamedCell]) -> pd.DataFrame:
    """All figures of named cells, see `read_leaderboard`."""
    rows: list[dict[str, Any]] = []
    for _, _, members in groups(cells):
        declared = known_metrics(members)
        for cell in members:
            rows.extend(_cell_rows(cell, declared))
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"headline": bool, "n": np.int64})
    for name in ("higher_is_better", "dash", "remark"):  # pandas would turn None into NaN
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    return table


def read_leaderboard(cells: Sequence[Path]) -> pd.DataFrame:
    """All figures of a set of run folders.

    Returns:
        One row per figure: task, model, method, evaluation, metric, x (NaN for scalars), value, low, high (NaN where
        there is no interval), n, higher_is_better (None: not ranked), headline, dash, remark (what must be known of the
        figure, or None). A scalar that a method could not serve has a row too: value NaN, n 0 and the reason in `dash`.

    Raises:
        UserError: a folder is corrupt; the message names it.
    """
    return frame(load_cells(cells))


def scalar_columns(table: pd.DataFrame) -> list[MetricColumn]:
    """The scalar metrics of some rows of the leaderboard, in order of appearance."""
    scalars = table[table["x"].isna() & (table["metric"] != "")]
    columns: dict[tuple[str, str], MetricColumn] = {}
    for row in scalars.to_dict("records"):
        key = (row["evaluation"], row["metric"])
        columns.setdefault(key, MetricColumn(*key, row["higher_is_better"]))
    order = {name: place for place, name in enumerate(dict.fromkeys(evaluation for evaluation, _ in columns))}
    return sorted(columns.values(), key=lambda column: order[column.evaluation])


def headline_columns(table: pd.DataFrame) -> list[MetricColumn]:
    """The scalar metrics meant for the overview; all of them where none is."""
    return scalar_columns(table[table["headline"]]) or scalar_columns(table)


def judged_columns(table: pd.DataFrame) -> list[MetricColumn]:
    """The metrics that verdicts are given on: the ranked headline metrics of a test, or all ranked ones."""
    ranked = [column for column in headline_columns(table) if column.higher_is_better is not None]
    return ranked or [column for column in scalar_columns(table) if column.higher_is_better is not None]


def _ranks(values: Mapping[str, float], column: MetricColumn) -> dict[str, int]:
    """Competition rank of each finite value (equal values share the better rank); empty with fewer than two of them."""
    finite = {method: value for method, value in values.items() if math.isfinite(value)}
    if column.higher_is_better is None or len(finite) < 2:
        return {}
    signed = {method: value if column.higher_is_better else -value for method, value in finite.items()}
    return {method: 1 + sum(other > value for other in signed.values()) for method, value in signed.items()}


def control_place(method: str) -> int:
    """0 for the shown name of a real method, then the controls' in their order."""
    return control_order(method.split(" (", 1)[0])


def is_control(method: str) -> bool:
    """Whether a method's shown name is a control's."""
    return control_place(method) > 0


def _place(method: str, ranks: Sequence[Mapping[str, int]]) -> tuple[float, tuple[tuple[int, float, str], ...]]:
    """Sorting key: mean rank over the columns that rank the method (none: last), then the name."""
    ranked = [column[method] for column in ranks if method in column]
    return (sum(ranked) / len(ranked) if ranked else math.inf, natural(method))


def make_board(table: pd.DataFrame, columns: Sequence[MetricColumn]) -> PrintedTable:
    """A table of the given columns from the leaderboard's rows of one task and model.

    Methods stand from best to worst (mean rank over the columns), controls below them; what could not be served has a
    footnote that says why.
    """
    scalars = table[table["x"].isna()]
    records = {(row["method"], row["evaluation"], row["metric"]): row for row in scalars.to_dict("records")}
    methods = [str(method) for method in dict.fromkeys(table["method"])]
    real = [method for method in methods if not is_control(method)]
    ranks = [
        _ranks({m: r["value"] for m in real if (r := records.get((m, c.evaluation, c.metric))) is not None}, c)
        for c in columns
    ]
    notes: dict[str, int] = {}

    def footnote(text: object) -> int | None:
        return None if text is None else notes.setdefault(str(text), len(notes) + 1)

    def entry(method: str, column: MetricColumn, ranked: Mapping[str, int]) -> PrintedEntry:
        row = records.get((method, column.evaluation, column.metric))
        reason = NO_FIGURE if row is None else row["dash"]
        if row is None or reason is not None:
            return PrintedEntry(words="–", mark=footnote(reason))
        figure = {key: row[key] for key in ("value", "low", "high", "n")}
        return PrintedEntry(**figure, rank=ranked.get(method), mark=footnote(row["remark"]))

    def rows(names: Iterable[str]) -> tuple[PrintedRow, ...]:
        return tuple(PrintedRow((name,), tuple(map(partial(entry, name), columns, ranks))) for name in names)

    blocks = {
        "methods": rows(sorted(real, key=lambda method: _place(method, ranks))),
        "controls": rows(filter(is_control, methods)),
    }
    first = table.iloc[0]
    headings = tuple(column.heading for column in columns)
    return PrintedTable(f"{first['task']} · {first['model']}", ("method",), headings, blocks, tuple(notes))
