"""Figures against a setting of a method that was given several values: m, τ, k, ε, or whatever has numbers.

A method that a report has with three or more values of one setting gets a table with a line for each value, and a curve of
every headline metric against it, with the intervals of the leaderboard and with what each value cost.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from benchmark.report.arrangement import is_control
from benchmark.report.cells import NamedCell, differing_keys, distinguish, method_facts
from benchmark.report.leaderboard import MetricColumn, groups, headline_columns
from benchmark.report.naming import Names
from benchmark.results.tables import Drawing, Table, line, no_interval_of
from benchmark.results.wording import arrow, number, slug

LEAST = 3
"""Values of a setting from which a method has a curve."""

_SECONDS, _PASSES = "seconds per example", "passes per example"
_ONE_RUN = "one run"
_TAKEN = {"data", "method", "with", "metric", "value", "low", "high", "n", "note", "key", "least", "most"}
"""Columns of a table, beside which no setting has that name."""


@dataclass(frozen=True)
class Swept:
    """A method at several values of one setting, on one task and model.

    Attributes:
        method: its name without settings.
        key: of the setting, dotted.
        cells: each with its value of the setting.
        others: what else tells the cells apart, by the shown name of each; empty for most sweeps.
    """

    method: str
    key: str
    cells: tuple[tuple[float, NamedCell], ...]
    others: Mapping[str, str]

    @property
    def setting(self) -> str:
        """What tables call the setting: the last part of its key, or the whole where a column of theirs has that name."""
        last = self.key.rsplit(".", 1)[-1]
        return self.key if last in _TAKEN else last


def swept(members: Sequence[NamedCell]) -> Iterator[Swept]:
    """The methods of one task and model that have at least `LEAST` values of a setting that is a number."""
    by_kind: dict[str, list[NamedCell]] = {}
    for cell in members:
        if not is_control(cell.method) and cell.dash is None:
            by_kind.setdefault(cell.kind, []).append(cell)
    for kind, cells in by_kind.items():
        facts = [method_facts(cell.stored) for cell in cells]
        key = next((key for key in differing_keys(facts) if _is_swept([fact.get(key) for fact in facts])), None)
        if key is not None:
            told = distinguish(
                [{name: value for name, value in fact.items() if name not in (key, "hash")} for fact in facts]
            )
            others = {cell.method: detail if len({*told}) > 1 else "" for cell, detail in zip(cells, told, strict=True)}
            pairs = [(float(str(fact[key])), cell) for fact, cell in zip(facts, cells, strict=True)]
            yield Swept(kind, key, tuple(sorted(pairs, key=lambda pair: pair[0])), others)


def _is_swept(values: Sequence[Any]) -> bool:
    """Whether a setting has enough values, all of them numbers."""
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return are_numbers and len({*values}) >= LEAST


def sweep_tables(cells: Sequence[NamedCell], table: pd.DataFrame, names: Names) -> list[Table]:
    """A table for each method and setting that was swept, over all tasks and models.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
        names: what tasks and models are called.
    """
    found: dict[tuple[str, str], list[tuple[str, str, Swept]]] = {}
    for task, model, members in groups(cells):
        for one in swept(members):
            found.setdefault((one.method, one.key), []).append((task, model, one))
    called = {(cell.task, cell.model): names.place(cell.task, cell.model) for cell in cells}
    alike = len({*called.values()}) < len(called)
    shown = {place: " · ".join(place) if alike else name for place, name in called.items()}
    return [_table(method, key, places, table, shown) for (method, key), places in found.items()]


def _table(
    method: str,
    key: str,
    places: Sequence[tuple[str, str, Swept]],
    table: pd.DataFrame,
    shown: Mapping[tuple[str, str], str],
) -> Table:
    setting = places[0][2].setting
    rows: list[dict[str, Any]] = []
    sentences: list[str] = []
    titles: dict[str, bool | None] = {}
    for task, model, one in places:
        part = table[(table["task"] == task) & (table["model"] == model)]
        columns = headline_columns(part[part["method"].isin([cell.method for _, cell in one.cells])])
        titles |= {_title(column): column.higher_is_better for column in columns}
        place = shown[task, model]
        for value, cell in one.cells:
            labels = {"data": place, "method": method, setting: value, "with": one.others[cell.method]}
            rows += [*_figures(part[part["method"] == cell.method], columns, labels), *_cost(cell, labels)]
        sentences += _ends(part, columns, one, place if len(places) > 1 else "")
    with_others = any(row["with"] for row in rows)
    names = ("data", "method", setting, *(["with"] if with_others else []))
    known = {row["metric"] for row in rows if not math.isnan(row["value"])}
    return Table(
        name=f"sweep_{slug(method)}_{slug(setting)}",
        title=f"{method}: headline figures against {key}",
        labels=names,
        rows=pd.DataFrame(rows).drop(columns=[] if with_others else ["with"]),
        sentences=(
            *sentences,
            "All values are tested on the same examples; which of them differ is tested in differences.csv.",
        ),
        drawing=Drawing(
            "curves",
            x=setting,
            y=tuple(title for title in (*titles, _SECONDS, _PASSES) if title in known),
            series="with" if with_others else "data",
            panels=("data",) if with_others and len(places) > 1 else (),
        ),
    )


def _title(column: MetricColumn) -> str:
    return f"{column.short or column.title or column.code} {arrow(column.higher_is_better)}".rstrip()


def _figures(
    part: pd.DataFrame, columns: Sequence[MetricColumn], labels: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The headline figures of one cell."""
    for column in columns:
        own = part[(part["evaluation"] == column.evaluation) & (part["metric"] == column.metric) & part["x"].isna()]
        for row in own.to_dict("records"):
            bounds = (float(row["least"]), float(row["most"]))
            yield line(
                labels,
                _title(column),
                row["value"],
                row["low"],
                row["high"],
                int(row["n"]),
                row["dash"] or no_interval_of(row),
                bounds,
            )


def _cost(cell: NamedCell, labels: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a cell took, for each example that it explained."""
    cost, n = cell.record.cost, cell.record.task.n
    if cost.seconds is not None:
        yield line(labels, _SECONDS, cost.seconds / n, n=n, note=_ONE_RUN)
    if cost.forward_passes is not None and cost.backward_passes is not None:
        yield line(labels, _PASSES, (cost.forward_passes + cost.backward_passes) / n, n=n, note="a count")


def _ends(part: pd.DataFrame, columns: Sequence[MetricColumn], one: Swept, place: str) -> Iterator[str]:
    """The first, the last and the best figure of each metric, by what else differs; nothing is tested here."""
    for other in dict.fromkeys(one.others.values()):
        cells = tuple((value, cell) for value, cell in one.cells if one.others[cell.method] == other)
        where = ", ".join(filter(None, (place, other)))
        yield from _ends_of(part, columns, replace(one, cells=cells), where)


def _ends_of(part: pd.DataFrame, columns: Sequence[MetricColumn], one: Swept, place: str) -> Iterator[str]:
    for column in columns:
        own = part[(part["evaluation"] == column.evaluation) & (part["metric"] == column.metric) & part["x"].isna()]
        by_method = own.set_index("method")["value"].dropna()
        at = [(value, cell) for value, cell in one.cells if cell.method in by_method.index]
        if column.higher_is_better is None or not at:
            continue
        sign = 1 if column.higher_is_better else -1
        value, cell = max(at, key=lambda pair: sign * by_method[pair[1].method])
        where = f"{place}: " if place else ""
        ends = " and ".join(f"{number(float(by_method[end.method]))} at {x:g}" for x, end in (at[0], at[-1]))
        best = number(float(by_method[cell.method]))
        yield f"{where}{_title(column)}, against {one.setting}: {ends}; the best figure is {best}, at {value:g}."
