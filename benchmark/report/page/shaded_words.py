"""The words of examples, shaded by several figures: one row of words for each of them."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from benchmark.report.naming import Names
from benchmark.report.page.packed import significant
from benchmark.results.tables import Drawing, Table

Line = Mapping[str, Mapping[Hashable, Any]]
"""The rows of a table that have all labels in common, by metric."""

MOST_PANELS = 12
"""Examples that a page draws, the first ones of the table; its CSV holds all of them."""


def shaded_words(table: Table, drawing: Drawing, names: Names) -> dict[str, Any]:
    """What is drawn of a table of the kind `words`: a panel per example, with its words and a row per metric."""
    parts = list(table.rows.groupby(list(drawing.panels), sort=False)) if drawing.panels else [((), table.rows)]
    panels = []
    for values, part in parts[:MOST_PANELS]:
        title = " · ".join(map(names.label, drawing.panels, values))
        panels.append({"title": title, **_panel(table, drawing, names, part)})
    return {"kind": "words", "panels": panels, "left_out": len(parts) - len(panels)}


def _panel(table: Table, drawing: Drawing, names: Names, part: pd.DataFrame) -> dict[str, Any]:
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
