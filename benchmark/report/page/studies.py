"""The analyses of a comparison: their sentences, their tables in columns, and what their figures draw."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from benchmark.report.analysis_tables import printed
from benchmark.report.circuits import drawn
from benchmark.report.drawings import drawn_panels, is_drawn
from benchmark.report.figures import Panel
from benchmark.report.naming import Names, Style
from benchmark.report.page.overview import drawn_look
from benchmark.report.page.packed import all_shown, significant
from benchmark.results.tables import Drawing, Table

Line = Mapping[str, Mapping[Hashable, Any]]
"""The rows of a table that have all labels in common, by metric."""

_MOST_POINTS = 500  # lines of a table that is only drawn; its CSV holds all of them
_MOST_PANELS = 12  # examples whose words are drawn, the first ones of the table; its CSV holds all of them


def studies(tables: Sequence[Table], names: Names) -> list[dict[str, Any]]:
    """Every table of the analyses, in the order of their files."""
    return [_study(table, names) for table in tables]


def _study(table: Table, names: Names) -> dict[str, Any]:
    told, worded = printed(table, names), names.worded(table)
    shown = len(told.rows) if table.printed or len(told.rows) <= _MOST_POINTS else 0
    rows = told.rows[:shown]
    codes = [[str(value) for value in labels] for labels in _labels(table)[:shown]]
    return {
        "title": worded.title,
        "name": table.name,
        "sentences": [*worded.sentences, *told.below],
        "labels": table.labels,
        "rows": [row.labels for row in rows],
        "codes": [
            [
                code if code != text and not _is_number(code) else None
                for code, text in zip(own, row.labels, strict=True)
            ]
            for own, row in zip(codes, rows, strict=True)
        ],
        "n": [row.examples for row in rows],
        "columns": [
            {
                "title": heading.name,
                "code": heading.code,
                "value": all_shown(row.entries[place].value for row in rows),
                "low": all_shown(row.entries[place].low for row in rows),
                "high": all_shown(row.entries[place].high for row in rows),
                "words": [row.entries[place].words for row in rows],
            }
            for place, heading in enumerate(told.columns)
        ],
        "figure": _figure(table, names),
    }


_QUARTILES = " · median and quartiles over examples"


def _labels(table: Table) -> list[tuple[Any, ...]]:
    """The label values of each line of the printed table, as the analysis wrote them."""
    return [labels for labels, _ in table.rows.groupby(list(table.labels), sort=False, dropna=False)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _figure(table: Table, names: Names) -> dict[str, Any] | None:
    """What is drawn, panel by panel; None where nothing is."""
    if table.drawing is None or not is_drawn(table):
        return None
    if table.drawing.kind == "words":
        return _shaded_words(table, table.drawing, names)
    if table.drawing.kind == "circuit":
        return drawn(table, table.drawing)
    panels, look = drawn_panels(table, table.drawing, names)
    make = _MAKERS[table.drawing.kind]
    return {
        "kind": _SHOWN_AS.get(table.drawing.kind, table.drawing.kind),
        "axis": table.drawing.x,
        "logarithmic": "x" in table.drawing.logarithmic,
        "tall": "y" in table.drawing.logarithmic,
        "panels": [
            {"title": panel.title + (_QUARTILES if make is _medians else "")}
            | ({"turned": True} if panel.turned else {})
            | make(panel, look)
            for panel in panels
        ],
    }


def _of_series(panel: Panel, look: Mapping[str, Style]) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """Name and look of each series of a panel, and its rows."""
    rows = panel.rows
    present = [name for name in look if (rows["series"] == name).any()]
    return [({"name": name, "look": drawn_look(look[name])}, rows[rows["series"] == name]) for name in present]


def _lines(panel: Panel, look: Mapping[str, Style]) -> dict[str, Any]:
    """Lines or points over all x of a panel, which may occur several times."""
    rows = panel.rows.reset_index(drop=True)
    curves = "low" in rows
    x = sorted(set(rows["x"])) if curves else sorted(rows["x"])
    lines = []
    for facts, own in _of_series(Panel(rows), look):
        if curves:
            at = own.drop_duplicates("x", keep="last").set_index("x").reindex(x)
            columns = {name: all_shown(at[name]) for name in ("value", "low", "high")}
        else:
            order = rows["x"].sort_values(kind="stable").index
            columns = {"value": [significant(value) for value in own["y"].reindex(order)]}
        lines.append(facts | columns)
    return {"axis": panel.x, "y": panel.y, "x": [float(value) for value in x], "lines": lines}


def _strips(panel: Panel, look: Mapping[str, Style]) -> dict[str, Any]:
    """Points of a panel whose x are those of many."""
    rows = panel.rows[["series", "x"]].assign(y=panel.rows["value"])
    return _lines(replace(panel, rows=rows, y=panel.title), look)


def _bars(panel: Panel, look: Mapping[str, Style]) -> dict[str, Any]:
    """Of every series the bars that it has, by the place of their names."""
    places = list(dict.fromkeys(map(str, panel.rows["x"])))
    found = []
    for facts, own in _of_series(panel, look):
        at = own.assign(x=own["x"].map(str)).drop_duplicates("x", keep="last").set_index("x").reindex(places)
        found.append(facts | {name: all_shown(at[name]) for name in ("value", "low", "high")})
    return {"names": places, "series": found}


def _medians(panel: Panel, look: Mapping[str, Style]) -> dict[str, Any]:
    """In place of violins their medians, from the lower to the upper quartile."""
    values = panel.rows.dropna(subset=["value"]).groupby(["x", "series"], sort=False)["value"]
    parts = {name: values.quantile(share) for name, share in (("value", 0.5), ("low", 0.25), ("high", 0.75))}
    return _bars(Panel(pd.DataFrame(parts).reset_index()), look)


def _heat(panel: Panel, _look: Mapping[str, Style]) -> dict[str, Any]:
    """A grid of figures with their intervals."""
    rows = panel.rows.drop_duplicates(["x", "y"], keep="last")
    across, down = (list(dict.fromkeys(rows[name])) for name in ("x", "y"))
    grids = {}
    for name in ("value", "low", "high"):
        cells = rows.pivot(index="y", columns="x", values=name).reindex(index=down, columns=across)
        grids[name] = [all_shown(None if math.isnan(v) else v for v in line) for line in cells.to_numpy(dtype=float)]
    return {"across": [str(name) for name in across], "down": [str(name) for name in down], **grids}


def _shaded_words(table: Table, drawing: Drawing, names: Names) -> dict[str, Any]:
    """What is drawn of a table of the kind `words`: a panel per example, with its words and a row per metric."""
    parts = list(table.rows.groupby(list(drawing.panels), sort=False)) if drawing.panels else [((), table.rows)]
    panels = []
    for values, part in parts[:_MOST_PANELS]:
        title = " · ".join(map(names.label, drawing.panels, values))
        panels.append({"title": title, **_shaded_panel(table, drawing, names, part)})
    return {"kind": "words", "panels": panels, "left_out": len(parts) - len(panels)}


def _shaded_panel(table: Table, drawing: Drawing, names: Names, part: pd.DataFrame) -> dict[str, Any]:
    """Words and rows; what all labels of the table name together is a word, or without a value something beside them."""
    lines: dict[tuple[str, ...], dict[str, Mapping[Hashable, Any]]] = {}
    for row in part[part["metric"].isin(drawing.y)].to_dict("records"):
        lines.setdefault(tuple(str(row[label]) for label in table.labels), {})[row["metric"]] = row
    words: list[Line] = []
    aside: list[Line] = []
    for line in lines.values():
        (words if any(math.isfinite(row["value"]) for row in line.values()) else aside).append(line)
    return {
        "words": [_word(line, drawing) or "▢" for line in words],
        "rows": [
            {
                "name": names.heading(table, metric),
                "values": [significant(line[metric]["value"]) if metric in line else None for line in words],
                "notes": [f"{_word(line, drawing)}: {line[metric]['note']}" for line in aside if metric in line],
            }
            for metric in drawing.y
        ],
    }


def _word(line: Line, drawing: Drawing) -> str:
    return str(next(iter(line.values()))[drawing.x])


_MAKERS: Mapping[str, Callable[[Panel, Mapping[str, Style]], dict[str, Any]]] = {
    "curves": _lines,
    "points": _strips,
    "scatter": _lines,
    "bars": _bars,
    "heat": _heat,
    "violins": _medians,
}
_SHOWN_AS: Mapping[str, str] = {"violins": "bars", "points": "scatter"}
