"""Methods, metrics, figures and curves of one task and model, in columns: a list over methods for each metric."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from benchmark.report.arrangement import constant_share, is_control, ordered_tests, span_of
from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import (
    headline_columns,
    known_metrics,
    make_board,
    scalar_columns,
    trusted_first,
)
from benchmark.report.naming import Names, Style, looks_of
from benchmark.report.page.packed import all_shown, significant, whole
from benchmark.report.printed import PrintedEntry
from benchmark.results.record import CostRecord, Metric, too_constant

COSTS = {
    "seconds": "Seconds that explaining all examples took, on the machine of the run.",
    "forward passes": "Forward passes of the model, over all examples.",
    "backward passes": "Backward passes of the model, over all examples.",
    "peak memory, MB": "Largest memory of the process up to then, in megabytes.",
}
"""What a method takes, and what that means."""

_UNKNOWN = "tests"
"""Kind of tests that do not say theirs."""

_DIRECTIONS = {True: 1, False: -1, None: 0}


def method_facts(cells: Mapping[str, NamedCell], names: Sequence[str], called: Names) -> list[dict[str, Any]]:
    """What is known of each method: its title, how it is drawn, what it cost, why it has no figures."""
    looks = looks_of(names)
    return [
        {
            "name": name,
            "title": called.method(name),
            "control": is_control(name),
            "dash": cells[name].dash,
            "constant": _constant(cells[name]),
            "look": drawn_look(looks[name]),
            "cost": dict(zip(COSTS, _costs(cells[name].record.cost), strict=True)),
        }
        for name in names
    ]


def _constant(cell: NamedCell) -> str | None:
    """On what share of the examples the method's map is constant, over the tests that read it; None where it never is."""
    shares = [share for test in cell.evaluations if (share := constant_share(cell, test)) is not None]
    if not any(shares):
        return None
    rest = ", not ranked where that is more than a tenth" if any(map(too_constant, shares)) else ""
    return f"constant on {span_of(shares)} of the examples{rest}"


def _costs(cost: CostRecord) -> list[float | None]:
    """The values of `COSTS`."""
    megabytes = cost.peak_memory_bytes / 1e6
    return [significant(value) for value in (cost.seconds, cost.forward_passes, cost.backward_passes, megabytes)]


def drawn_look(style: Style) -> dict[str, Any]:
    """How the page draws a series."""
    dashes = [] if isinstance(style.line, str) else [2 * length for length in style.line[1]]
    return {"colour": style.colour, "dash": dashes, "marker": style.marker}


def metric_facts(test: str, metric: str, declared: Metric, kind: str) -> dict[str, Any]:
    """What a heading says of a metric, and what its definition does; code names where it has no others."""
    name = f"{test}: {metric.replace('_', ' ')}"
    return {
        "test": test,
        "name": metric,
        "title": declared.title or name,
        "short": declared.short or declared.title or name,
        "sentence": declared.sentence,
        "kind": kind or _UNKNOWN,
        "better": _DIRECTIONS[declared.higher_is_better],
    }


def scalars(cells: Sequence[NamedCell], table: pd.DataFrame, names: Sequence[str]) -> list[dict[str, Any]]:
    """The scalar metrics, by kind, with a figure, its interval and its place for each method."""
    declared, about, columns = known_metrics(cells), ordered_tests(cells), trusted_first(scalar_columns(table), table)
    headline = set(headline_columns(table))
    board = make_board(table, columns)
    lines = {row.labels[0]: row.entries for row in board.rows}
    found = []
    for place, column in enumerate(columns):
        metric = replace(declared[column.evaluation][column.metric], title=column.title, short=column.short)
        facts = metric_facts(column.evaluation, column.metric, metric, about[column.evaluation].about.kind)
        figures = _figures([lines[name][place] for name in names], board.notes)
        found.append(facts | {"headline": column in headline, "doubt": column.doubt} | figures)
    return found


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
    declared, about = known_metrics(cells), ordered_tests(cells)
    points = table[table["x"].notna()]
    for (test, metric), part in points.groupby(["evaluation", "metric"], sort=False):
        facts = declared[str(test)].get(str(metric))
        if facts is None or not part["value"].notna().any():
            continue
        x = sorted(set(part["x"]))
        lines = {name: own.set_index("x").reindex(x) for name, own in part.groupby("method", sort=False)}
        yield metric_facts(str(test), str(metric), facts, about[str(test)].about.kind) | {
            **axis_facts(facts, x, cells[0].record.model.labels),
            "lines": [_line(lines.get(name)) for name in names],
        }


def axis_facts(metric: Metric, x: Sequence[float], labels: Sequence[str]) -> dict[str, Any]:
    """The horizontal axis: its name, its places, whether lines join them, and their names where they are classes."""
    classes = metric.scale == "class" and all(0 <= place < len(labels) for place in x)
    return {
        "axis": metric.x,
        "x": all_shown(x),
        "joined": metric.scale == "numeric",
        "names": [labels[int(place)] for place in x] if classes else None,
    }


def _line(points: pd.DataFrame | None) -> dict[str, Any] | None:
    if points is None:
        return None
    return {name: all_shown(points[name]) for name in ("value", "low", "high")}
