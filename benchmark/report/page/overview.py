"""Methods, metrics, figures and curves of one task and model, in columns: a list over methods for each metric."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from benchmark.report.cells import NamedCell
from benchmark.report.figures import Style, styles
from benchmark.report.leaderboard import (
    headline_columns,
    is_control,
    known_metrics,
    make_board,
    scalar_columns,
)
from benchmark.report.page.meanings import KINDS, meaning
from benchmark.report.page.packed import all_shown, significant, whole
from benchmark.report.printed import PrintedEntry
from benchmark.results.record import CostRecord, Metric

COSTS = {
    "seconds": "Seconds that explaining all examples took, on the machine of the run.",
    "forward passes": "Forward passes of the model, over all examples.",
    "backward passes": "Backward passes of the model, over all examples.",
    "peak memory, MB": "Largest memory of the process up to then, in megabytes.",
}
"""What a method takes, and what that means."""

_DIRECTIONS = {True: 1, False: -1, None: 0}


def ranked_names(table: pd.DataFrame) -> list[str]:
    """The methods from best to worst over the headline metrics, controls behind them."""
    return [row.labels[0] for row in make_board(table, headline_columns(table)).rows]


def method_facts(cells: Mapping[str, NamedCell], names: Sequence[str]) -> list[dict[str, Any]]:
    """What is known of each method: how it is drawn, what it cost, why it has no figures."""
    look = styles(names)
    return [
        {
            "name": name,
            "control": is_control(name),
            "dash": cells[name].dash,
            "look": _look(look[name]),
            "cost": dict(zip(COSTS, _costs(cells[name].record.cost), strict=True)),
        }
        for name in names
    ]


def _costs(cost: CostRecord) -> list[float | None]:
    """The values of `COSTS`."""
    megabytes = cost.peak_memory_bytes / 1e6
    return [significant(value) for value in (cost.seconds, cost.forward_passes, cost.backward_passes, megabytes)]


def _look(style: Style) -> dict[str, Any]:
    dashes = [] if isinstance(style.line, str) else [2 * length for length in style.line[1]]
    return {"colour": style.colour, "dash": dashes, "marker": style.marker}


def metric_facts(evaluation: str, metric: str, declared: Metric) -> dict[str, Any]:
    """What a heading says of a metric, and what its definition does."""
    title, sentence, kind = meaning(evaluation, metric, declared)
    return {
        "test": evaluation,
        "name": metric,
        "title": title,
        "sentence": sentence,
        "kind": kind,
        "better": _DIRECTIONS[declared.higher_is_better],
        "bounds": all_shown(declared.bounds),
        "headline": declared.headline,
    }


def scalars(cells: Sequence[NamedCell], table: pd.DataFrame, names: Sequence[str]) -> list[dict[str, Any]]:
    """The scalar metrics, by kind, with a figure, its interval and its place for each method."""
    declared, columns = known_metrics(cells), scalar_columns(table)
    headline = {(column.evaluation, column.metric) for column in headline_columns(table)}
    board = make_board(table, columns)
    lines = {row.labels[0]: row.entries for row in board.rows}
    found = []
    for place, column in enumerate(columns):
        facts = metric_facts(column.evaluation, column.metric, declared[column.evaluation][column.metric])
        figures = _figures([lines[name][place] for name in names], board.notes)
        found.append(facts | {"headline": (column.evaluation, column.metric) in headline} | figures)
    return sorted(found, key=lambda facts: KINDS.index(facts["kind"]))


def _figures(entries: Sequence[PrintedEntry], notes: Sequence[str]) -> dict[str, Any]:
    return {
        "value": all_shown(entry.value for entry in entries),
        "low": all_shown(entry.low for entry in entries),
        "high": all_shown(entry.high for entry in entries),
        "n": whole([entry.n for entry in entries]),
        "rank": [entry.rank for entry in entries],
        "note": whole([None if entry.mark is None else notes[entry.mark - 1] for entry in entries]),
    }


def curves(cells: Sequence[NamedCell], table: pd.DataFrame, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The curves, with the values of each method at every x that any of them has."""
    declared = known_metrics(cells)
    points = table[table["x"].notna()]
    for (evaluation, metric), part in points.groupby(["evaluation", "metric"], sort=False):
        facts = declared[str(evaluation)].get(str(metric))
        x = sorted(set(part["x"]))
        if facts is None or not part["value"].notna().any():
            continue
        lines = {name: own.set_index("x").reindex(x) for name, own in part.groupby("method", sort=False)}
        yield metric_facts(str(evaluation), str(metric), facts) | {
            "axis": facts.x,
            "x": all_shown(x),
            "lines": [_line(lines.get(name)) for name in names],
        }


def _line(points: pd.DataFrame | None) -> dict[str, Any] | None:
    if points is None:
        return None
    return {name: all_shown(points[name]) for name in ("value", "low", "high")}
