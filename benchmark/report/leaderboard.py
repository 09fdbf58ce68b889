"""All figures as one data frame, and as tables in the form that every format prints."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmark.report.arrangement import (
    RULE,
    is_control,
    method_order,
    ordered_tests,
    ranked_values,
    ranks,
    repeats,
    span_of,
    with_shares,
)
from benchmark.report.cells import NamedCell, load_cells
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.results.record import KINDS, UNDECLARED, EvaluationRecord, Metric, too_constant
from benchmark.results.tables import TOO_SMALL, Table, is_too_wide, no_interval
from benchmark.results.trust import Trust, told_of

COLUMNS = (
    "task", "model", "method", "evaluation", "metric", "x", "value", "low", "high", "n", "higher_is_better", "headline",
    "dash", "remark", "title", "short", "meaning", "kind", "constant", "half_constant", "tied", "least", "most", "trust",
    "doubt", "removals",
)  # fmt: skip
TIES = ("constant", "half_constant", "tied")
CSV_COLUMNS = ("task", "model", "method", "evaluation", "metric", "value", "low", "high", "n", *TIES)
CURVE_COLUMNS = ("task", "model", "method", "evaluation", "metric", "x", "value", "low", "high", "n")
NOT_RUN = "this test was not run for the method"
NO_TEST = "no test was run"
NO_FIGURE = "the test reported no such figure"
_WIDE = (
    f"{TOO_SMALL}: the 95 % interval spans more than half of what is possible, so that there is no result to show "
    "(leaderboard.csv has the figure)"
)
_ONE = f"{TOO_SMALL}: one example has no interval, so that there is no result to show (leaderboard.csv has the figure)"
_BEST = "Bold and underlined: the best and the second figure among the methods, tested or not."


@dataclass(frozen=True)
class MetricColumn:
    """A scalar metric as a column of a table, with its words (`benchmark.results.record.Metric`) where there are any.

    `doubt` says why the figures are not to be trusted here (`benchmark.results.trust`), where they are not, and `removals`
    whether the model knows what the test's removals leave.
    """

    evaluation: str
    metric: str
    higher_is_better: bool | None
    title: str = field(default="", compare=False)
    short: str = field(default="", compare=False)
    meaning: str = field(default="", compare=False)
    doubt: str = field(default="", compare=False)
    removals: str = field(default="", compare=False)

    @property
    def code(self) -> str:
        """The name that settings and CSV files have: `perturbation.positive_auc_mean`."""
        return f"{self.evaluation}.{self.metric}"

    @property
    def heading(self) -> Heading:
        """How the column is headed: its title with the code name, or without one the metric's name grouped by its test."""
        if not self.title:
            return Heading(self.metric, self.higher_is_better, self.evaluation, meaning=self.meaning, doubt=self.doubt)
        told = {"code": self.code, "short": self.short, "meaning": self.meaning, "doubt": self.doubt}
        return Heading(self.title, self.higher_is_better, **told)


def _figures(test: EvaluationRecord) -> Iterator[dict[str, Any]]:
    """One row per figure of an evaluation that the method could serve."""
    for figure in test.figures:
        metric = test.metric(figure.metric)
        of_ranked = test.remark if metric.higher_is_better is not None else None
        why = no_interval(figure.value, figure.low, figure.high, figure.n)
        remark = "; ".join(filter(None, (of_ranked, why))) or None
        yield {**asdict(figure), **_declared(metric), "dash": None, "remark": remark}


def _declared(metric: Metric) -> dict[str, Any]:
    """What is declared of a metric, as columns."""
    told = {name: getattr(metric, name) for name in ("higher_is_better", "headline", "title", "short")}
    return told | {"meaning": metric.sentence, "least": metric.bounds[0], "most": metric.bounds[1]}


def _dashes(metrics: Mapping[str, Metric], reason: str) -> Iterator[dict[str, Any]]:
    """One row without a value per scalar metric that the method could not serve."""
    nothing = dict.fromkeys(("x", "value", "low", "high"), math.nan) | {"n": 0, "dash": reason, "remark": None}
    for name, metric in metrics.items():
        if metric.x is None:
            yield {"metric": name, **nothing, **_declared(metric)}


def _test_rows(cell: NamedCell, shown: str, metrics: Mapping[str, Metric]) -> Iterator[dict[str, Any]]:
    """Rows of one cell for one evaluation (name shown) with its metrics."""
    test = cell.evaluation(shown)
    reason = cell.dash or (NOT_RUN if test is None else test.dash)
    if test is None or reason is not None:
        yield from _dashes(metrics or {"": UNDECLARED}, reason or NOT_RUN)
        return
    reported = {figure.metric for figure in test.figures}
    yield from _figures(test)
    for name, metric in metrics.items():
        if name not in reported:
            yield from _dashes({name: metric}, metric.without or NO_FIGURE)


def _cell_rows(
    cell: NamedCell, declared: Mapping[str, Mapping[str, Metric]], kinds: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Rows of one cell over all evaluations (name shown -> metrics, and kind) of its task and model."""
    place = {"task": cell.task, "model": cell.model, "method": cell.method}
    for shown, metrics in declared.items():
        own = cell.evaluation(shown)
        ties = {name: None if own is None else getattr(own, name) for name in TIES}
        test = {"evaluation": shown, "kind": kinds[shown], **ties}
        yield from (place | test | row for row in _test_rows(cell, shown, metrics))
    if not declared:
        yield from (
            place | {"evaluation": "", "kind": ""} | row for row in _dashes({"": UNDECLARED}, cell.dash or NO_TEST)
        )


def known_metrics(cells: Sequence[NamedCell]) -> dict[str, dict[str, Metric]]:
    """Evaluation (name shown, in the order of the tables) -> metric -> its declaration, in the order declared."""
    declared: dict[str, dict[str, Metric]] = {shown: {} for shown in ordered_tests(cells)}
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
    """The same with their rows of `frame`; methods from best to worst, and without the tests that repeat another."""
    for task, model, members in groups(cells):
        part = table[(table["task"] == task) & (table["model"] == model) & ~table["evaluation"].isin(repeats(members))]
        order = {method: place for place, method in enumerate(dict.fromkeys(part["method"]))}
        yield task, model, sorted(members, key=lambda cell: order[cell.method]), part


def frame(
    cells: Sequence[NamedCell], tables: Sequence[Table] = (), told: Mapping[str, Trust] | None = None
) -> pd.DataFrame:
    """All figures of named cells, see `read_leaderboard`.

    Args:
        cells: what is compared.
        tables: of the comparison's analyses, which may say what its tests are worth; of several tasks or models they say
            nothing of the tests of one.
        told: that itself, by `test.metric`, where it is known; None: what the tables say.
    """
    rows: list[dict[str, Any]] = []
    grouped = groups(cells)
    if told is None:
        told = told_of(tables) if len(grouped) == 1 else {}
    for _, _, members in grouped:
        declared = known_metrics(members)
        kinds = {shown: test.about.kind for shown, test in ordered_tests(members).items()}
        by_method: dict[str, list[dict[str, Any]]] = {}
        for cell in members:
            by_method.setdefault(cell.method, []).extend(_cell_rows(cell, declared, kinds))
        found = _as_frame([row for own in by_method.values() for row in own])
        order = method_order(found[~found["evaluation"].isin(repeats(members))])
        rows += [row for method in order for row in by_method[method]]
    trusts = (told.get(f"{row['evaluation']}.{row['metric']}", Trust()) for row in rows)
    return _as_frame(
        [
            row | {"trust": one.place, "doubt": one.doubt, "removals": one.removals}
            for row, one in zip(rows, trusts, strict=True)
        ]
    )


def _as_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"headline": bool, "n": np.int64})
    for name in TIES:
        table[name] = table[name].astype(float)
    for name in ("higher_is_better", "dash", "remark"):  # pandas would turn None into NaN
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    return table


def read_leaderboard(cells: Sequence[Path]) -> pd.DataFrame:
    """All figures of a set of run folders.

    Returns:
        One row per figure: task, model, method, evaluation, metric, x (NaN for scalars), value, low, high (NaN where
        there is no interval), n, higher_is_better (None: not ranked), headline, dash, remark (what must be known of the
        figure, or None), title, short and meaning of the metric, the kind of its test (empty where it has none), the
        share of the examples on which the method's map is constant there, the share of those on which at least half of its
        units have one score, and the mean share of tied units (`constant`, `half_constant`, `tied`; NaN where the test
        reads no scores), the metric's least and largest possible value (`least`, `most`), and what is known of its test
        here (`trust`, its column's place; `doubt`, why it is not to be trusted; `removals`, whether the model knows what
        these leave).
        A scalar that a method could not serve has a row too: value NaN, n 0 and the reason in `dash`. Rows stand in the
        order of the tables: methods from best to worst (`arrangement.ORDER`), tests by kind.

    Raises:
        UserError: a folder is corrupt; the message names it.
    """
    return frame(load_cells(cells))


def scalar_columns(table: pd.DataFrame) -> list[MetricColumn]:
    """The scalar metrics of some rows of the leaderboard, in order of appearance."""
    told = ["evaluation", "metric", "higher_is_better", "title", "short", "meaning", "doubt", "removals"]
    scalars = table.loc[table["x"].isna() & (table["metric"] != ""), told]
    firsts = scalars.drop_duplicates(["evaluation", "metric"])
    columns = [MetricColumn(**{str(name): value for name, value in row.items()}) for row in firsts.to_dict("records")]
    order = {name: place for place, name in enumerate(dict.fromkeys(column.evaluation for column in columns))}
    return _told_apart(sorted(columns, key=lambda column: order[column.evaluation]))


def _told_apart(columns: Sequence[MetricColumn]) -> list[MetricColumn]:
    """The columns, with the test behind a title or short title that metrics of several tests share."""

    def told(column: MetricColumn, name: str) -> str:
        text = getattr(column, name)
        tests = {other.evaluation for other in columns if text and getattr(other, name) == text}
        return f"{text} ({column.evaluation.replace('_', ' ')})" if len(tests) > 1 else text

    return [replace(column, title=told(column, "title"), short=told(column, "short")) for column in columns]


def headline_columns(table: pd.DataFrame) -> list[MetricColumn]:
    """The scalar metrics meant for the overview, all of them where none is; `trusted_first`."""
    return trusted_first(scalar_columns(table[table["headline"]]) or scalar_columns(table), table)


def trusted_first(columns: Sequence[MetricColumn], table: pd.DataFrame) -> list[MetricColumn]:
    """The columns kind by kind, of each kind first those whose tests can be used here, and last those that fail."""
    known = zip(table["evaluation"], table["metric"], table["kind"], table["trust"], strict=True)
    facts = {(evaluation, metric): (kind, place) for evaluation, metric, kind, place in known}
    kinds = list(dict.fromkeys(facts[column.evaluation, column.metric][0] for column in columns))

    def place(column: MetricColumn) -> tuple[int, int]:
        kind, place = facts[column.evaluation, column.metric]
        return kinds.index(kind), place

    return sorted(columns, key=place)


def judged_columns(table: pd.DataFrame) -> list[MetricColumn]:
    """The metrics that verdicts are given on: the ranked headline metrics of a test, or all ranked ones."""
    ranked = [column for column in headline_columns(table) if column.higher_is_better is not None]
    return ranked or [column for column in scalar_columns(table) if column.higher_is_better is not None]


def make_board(table: pd.DataFrame, columns: Sequence[MetricColumn]) -> PrintedTable:
    """A table of the given columns from the leaderboard's rows of one task and model.

    Methods stand in the order of the rows (`frame`), controls below them; what could not be served has a footnote that
    says why. A figure of one example, or whose interval spans more than half of what is possible, is not shown, but that n
    is too small.
    """
    scalars = table[table["x"].isna()].to_dict("records")
    methods = [str(method) for method in dict.fromkeys(table["method"])]
    of_columns = [[r for r in scalars if (r["evaluation"], r["metric"]) == (c.evaluation, c.metric)] for c in columns]
    places = [_places(rows, column) for rows, column in zip(of_columns, columns, strict=True)]
    by_method = [{str(row["method"]): row for row in rows} for rows in of_columns]
    notes: dict[str, int] = {}

    def entry(method: str, rows: Mapping[str, Any], ranked: Mapping[str, int]) -> PrintedEntry:
        return _entry(rows.get(method), ranked.get(method), notes)

    def rows(names: Iterable[str]) -> tuple[PrintedRow, ...]:
        return tuple(
            PrintedRow((name,), tuple(map(partial(entry, name), by_method, places)), _constant(name, by_method))
            for name in names
        )

    real = [method for method in methods if not is_control(method)]
    blocks = {"methods": rows(real), "controls": rows(filter(is_control, methods))}
    first = table.iloc[0]
    return PrintedTable(
        f"{first['task']} · {first['model']}",
        ("method",),
        tuple(column.heading for column in columns),
        blocks,
        tuple(notes),
        below=(*_doubted(columns), *_removing(columns), *_unranked(real, by_method), *_tied(of_columns)),
        best=_BEST if any(places) else "",
    )


def _places(rows: Sequence[Mapping[Any, Any]], column: MetricColumn) -> dict[str, int]:
    if not rows:
        return {}
    return ranks(ranked_values(rows), column.higher_is_better, (rows[0]["least"], rows[0]["most"]))


def _entry(row: Mapping[str, Any] | None, rank: int | None, notes: dict[str, int]) -> PrintedEntry:
    """The figure of a row, or why there is none; what must be known of it becomes a footnote."""

    def footnote(text: object) -> int | None:
        return None if text is None else notes.setdefault(str(text), len(notes) + 1)

    reason = NO_FIGURE if row is None else row["dash"]
    if row is None or reason is not None:
        return PrintedEntry(words="–", mark=footnote(reason))
    if is_too_wide(row):
        return PrintedEntry(n=row["n"], words=TOO_SMALL, mark=footnote(_WIDE if row["n"] > 1 else _ONE))
    figure = {key: row[key] for key in ("value", "low", "high", "n")}
    return PrintedEntry(**figure, rank=rank, mark=footnote(row["remark"]), reach=(row["least"], row["most"]))


def _shares(method: str, by_method: Sequence[Mapping[str, Any]]) -> list[float]:
    """On which shares of the examples a method's map is constant, in the tests of some columns that say so."""
    shares = (rows[method]["constant"] for rows in by_method if method in rows)
    return [share for share in shares if share is not None and math.isfinite(share)]


def _constant(method: str, by_method: Sequence[Mapping[str, Any]]) -> str:
    """The share, or what it ranges over, where any method of the table has a constant map; else nothing."""
    everyone = {name for rows in by_method for name in rows}
    return span_of(_shares(method, by_method)) if any(any(_shares(name, by_method)) for name in everyone) else ""


def _doubted(columns: Sequence[MetricColumn]) -> list[str]:
    """Which of the columns are not to be trusted on these examples, and why."""
    told = [f"{column.title or column.code}, {column.doubt}" for column in columns if column.doubt]
    return [f"Which tests can be trusted here says of {'; '.join(told)}."] if told else []


def _removing(columns: Sequence[MetricColumn]) -> list[str]:
    """Of the columns of tests that remove something, whether the model knows what they leave."""
    told: dict[str, list[str]] = {}
    for column in columns:
        if column.removals:
            told.setdefault(column.removals, []).append(column.title or column.code)
    return [f"Removals of {'; '.join(titles)}: {removals}." for removals, titles in told.items()]


def _unranked(real: Sequence[str], by_method: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which methods are shown and not ranked, since their maps say too little."""
    most = {name: max(_shares(name, by_method), default=0.0) for name in real}
    silent = {name: share for name, share in most.items() if too_constant(share)}
    return [f"{RULE}: {with_shares(silent)} {'is' if len(silent) == 1 else 'are'} shown, not ranked."] if silent else []


def _tied(of_columns: Sequence[Sequence[Mapping[Any, Any]]]) -> list[str]:
    """How many words share their score with another one, in tests that run the model on some of them."""
    shares = {
        str(row["method"]): row["tied"]
        for rows in of_columns
        for row in rows
        if row["kind"] == KINDS[0] and math.isfinite(row["tied"]) and row["tied"] > 0
    }
    told = (
        "Words that share their score with another one, which one seeded order per example tells apart for all methods"
    )
    return [f"{told}: {with_shares(shares)}."] if shares else []
