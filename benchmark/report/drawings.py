"""Figures of analyses: curves, scatter plots, bars and heat maps with intervals where there are any."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from benchmark.report.circuits import circuit_figure, circuit_files
from benchmark.report.figures import (
    INCHES,
    NAME,
    SCREEN,
    Panel,
    PanelSize,
    draw_lines,
    draw_panels,
    figure_files,
    page_files,
    placed,
    tick_where_measured,
)
from benchmark.report.naming import OURS, Look, Names, Style, series_look
from benchmark.results.tables import Drawing, Table
from benchmark.results.wording import number, shortened
from benchmark.settings.report_settings import FigureSettings, FigureWidth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLE = 300  # letters that are shown
_NUMBERED = 600  # cells of a heat map beyond which it shows colours alone
_LEGIBLE = 11.0  # inches of a figure beyond which its numbers are too small on a page
_DIFFERENCES = "differences"
_BARE = re.compile(r"[-+−]?[\d.,]+ ?%?|yes|no|true|false|none", re.IGNORECASE)


def drawing_files(
    table: Table, stem: str, names: Names = OURS, settings: FigureSettings = SCREEN
) -> Iterator[tuple[str, bytes]]:
    """File name and content of a table's figure in each format; nothing for one that is not drawn in files."""
    if not is_drawn(table) or table.drawing is None or table.drawing.kind == "words":
        return
    if table.drawing.kind == "circuit":
        title = names.text(table.title, table)
        figure = partial(circuit_figure, table, table.drawing, title, settings)
        yield from (*figure_files(stem, figure, settings=settings), *circuit_files(table, table.drawing, stem))
    else:
        panels, draw = _drawn(table, table.drawing, names, settings)
        yield from page_files(stem, draw, panels, settings=settings)


def is_drawn(table: Table) -> bool:
    """Whether a table says how it is drawn, and has anything to draw."""
    return table.drawing is not None and bool(_finite(table.rows).any())


def _finite(rows: pd.DataFrame) -> pd.Series[bool]:
    return rows["value"].map(math.isfinite)


def drawn_panels(table: Table, drawing: Drawing, names: Names) -> tuple[list[Panel], dict[str, Style]]:
    """The panels of a table's figure in words, and how series look: the same in all, also where others are missing."""
    panels = list(_panels(table, drawing, names))
    look = series_look(list(dict.fromkeys(code for panel in panels for code in panel.rows["series"])), names.methods)

    def told(code: str) -> str:
        return names.label(drawing.series or "", code)

    panels = [replace(panel, rows=panel.rows.assign(series=panel.rows["series"].map(told))) for panel in panels]
    return panels, {told(code): style for code, style in look.items()}


def draw_table(table: Table, drawing: Drawing, names: Names = OURS, settings: FigureSettings = SCREEN) -> Figure:
    """The figure of a table, with people's names in place of code names."""
    panels, draw = _drawn(table, drawing, names, settings)
    return draw(panels)


def _drawn(
    table: Table, drawing: Drawing, names: Names, settings: FigureSettings
) -> tuple[list[Panel], Callable[[Sequence[Panel]], Figure]]:
    """The panels of a table's figure, and what draws some of them."""
    panels, look = drawn_panels(table, drawing, names)

    size, numbered = _panel_size(panels, drawing, settings.width)
    if drawing.kind == "heat":
        panels = [
            replace(panel, draw=partial(_heat, colours=colours, numbered=numbered), scale="")
            for panel, colours in zip(panels, _colours(panels), strict=True)
        ]

    def draw(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
        from matplotlib.ticker import LogFormatter

        _DRAWERS[drawing.kind](axes, rows, look)
        for name in drawing.logarithmic:
            (axes.set_xscale if name == "x" else axes.set_yscale)("log")
            if name == "x" and "x" in rows:
                tick_where_measured(axes, rows["x"])
                axes.minorticks_off()
                continue
            axis = axes.xaxis if name == "x" else axes.yaxis
            axis.set_major_formatter(LogFormatter())
            axis.set_minor_formatter(LogFormatter(labelOnlyBase=False))

    chosen = drawing.value if table.rows["metric"].nunique() > 1 else None
    said = "" if chosen is None else f" ({names.heading(table, chosen)})"
    heading = shortened(names.text(table.title, table), _TITLE - len(said)) + said
    values: Literal["x", "y"] = "x" if drawing.kind == "bars" else "y"
    return panels, lambda some: draw_panels(heading, some, look, draw, size, values, settings)


def _panel_size(panels: list[Panel], drawing: Drawing, width: FigureWidth) -> tuple[PanelSize, bool]:
    """Heat maps and bars grow with what they hold, so that numbers and names stay legible; and whether cells have numbers.

    A heat map has them where the figure is no wider than a page that is read without a magnifying glass.
    """
    if drawing.kind in ("curves", "points", "scatter"):
        return PanelSize(left=0.85), False
    rows = pd.concat([panel.rows for panel in panels])
    across, down = ([min(NAME, len(str(value))) for value in rows[name].unique()] for name in ("x", "y"))
    if drawing.kind == "bars":
        height = 0.18 * max(len(panel.rows) for panel in panels)
        return PanelSize(4.4, max(2.5, height), left=0.3 + 0.073 * max(across), bottom=0.3, grows=False), False
    if drawing.kind == "violins":
        return PanelSize(max(3.0, 0.6 * len(across)), 2.6, 0.85, 0.3 + 0.042 * max(across), grows=False), False
    left, bottom = 0.3 + 0.058 * max(down), 0.3 + 0.042 * max(across)
    wide, high = max(3.0, 0.5 * len(across) + 0.8), max(2.2, 0.26 * len(down))
    columns = 1 + max(column for _, column in placed(panels, width))
    most = _LEGIBLE if width == "screen" else INCHES[width]
    numbered = len(across) * len(down) <= _NUMBERED and columns * (wide + left) <= most
    if not numbered:
        wide, high = max(2.2, 0.24 * len(across) + 0.6), max(1.6, 0.2 * len(down))
    return PanelSize(wide, high, left, bottom, grows=False), numbered


def _colours(panels: list[Panel]) -> list[tuple[str, float, float]]:
    """Colour map, least and largest value of each panel: one for all of a scale, and around 0 where there are both signs."""
    found = {}
    for scale in dict.fromkeys(panel.scale for panel in panels):
        values = pd.concat([panel.rows["value"] for panel in panels if panel.scale == scale]).dropna()
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        if low < 0 or scale == _DIFFERENCES:
            most = max(-low, high) or 1.0
            found[scale] = "RdBu_r", -most, most
        else:
            found[scale] = "viridis", low, high
    return [found[panel.scale] for panel in panels]


def _panels(table: Table, drawing: Drawing, names: Names) -> Iterator[Panel]:
    """One panel per metric (one in all for scatter and heat), times one per value of the panel columns."""
    parts = table.rows.groupby(list(drawing.panels), sort=False) if drawing.panels else [((), table.rows)]
    for values, part in parts:
        told = [_of_column(column, value, names) for column, value in zip(drawing.panels, values, strict=True)]
        title = " · ".join(told)
        line, column = _at(told)
        if drawing.kind == "scatter":
            points = _points(table, part, drawing)
            turned = bool({*map(str, values)} & {*drawing.turned})
            yield Panel(
                points, shortened(title, NAME), drawing.x, drawing.y[0], line=line, column=column, turned=turned
            )
        elif drawing.kind == "heat":
            cells = part if drawing.value is None else part[part["metric"] == drawing.value]
            scale = _DIFFERENCES if {*map(str, values)} & {*drawing.differences} else ""
            shown = _named(table, cells, drawing, names)
            yield Panel(shown, shortened(title, NAME), line=line, column=column, scale=scale)
        else:
            for metric in drawing.y:
                shown = _named(table, part[(part["metric"] == metric) & _finite(part)], drawing, names)
                if len(shown):
                    name = shortened(" · ".join(filter(None, [title, names.heading(table, metric)])), NAME)
                    x = drawing.x if drawing.kind in ("curves", "points") else ""
                    kind = next((group[0] for group in drawing.alike if metric in group), metric)
                    line, column = _at([*told, *([metric] if len(drawing.y) > 1 else [])])
                    yield Panel(shown, name, x, line=line, column=column, scale=kind)


def _of_column(column: str, value: object, names: Names) -> str:
    """A value of a panel column; a number or a yes says nothing without the column's name."""
    told = names.label(column, value)
    alone = isinstance(value, bool | float | int | np.number | np.bool_) or bool(_BARE.fullmatch(told))
    return f"{column.replace('_', ' ')} = {told}" if alone else told


def _at(told: list[str]) -> tuple[str, str]:
    """Line and column of a panel: its first name, and the others; both empty where it has no others."""
    return (told[0], " · ".join(told[1:])) if len(told) > 1 else ("", "")


def _named(table: Table, rows: pd.DataFrame, drawing: Drawing, names: Names) -> pd.DataFrame:
    """The figures with their `series` as a code name, and with what `x` and (of heat maps) `y` are in words."""
    series = "" if drawing.series is None else rows[drawing.series].map(str)
    figures = rows[["value", "low", "high"]].assign(series=series)
    if drawing.kind in ("curves", "points"):
        return figures.assign(x=pd.to_numeric(rows[drawing.x]), y="")

    def told(column: str) -> Any:
        if column == "metric":
            return rows[column].map(partial(names.heading, table))
        return rows[column].map(partial(names.label, column)) if column in rows else ""

    return figures.assign(x=told(drawing.x), y=told(drawing.y[0]))


def _points(table: Table, rows: pd.DataFrame, drawing: Drawing) -> pd.DataFrame:
    """The points of a scatter plot, with the ends of both intervals: two metrics of what has the same labels."""
    columns: dict[str, pd.Series[float]] = {}
    for axis, metric in (("x", drawing.x), ("y", drawing.y[0])):
        of_metric = rows[rows["metric"] == metric].set_index(list(table.labels))
        columns |= {axis: of_metric["value"]} | {f"{axis}_{end}": of_metric[end] for end in ("low", "high")}
    points = pd.DataFrame(columns).reindex(rows.set_index(list(table.labels)).index.unique())
    series = "" if drawing.series is None else points.index.get_level_values(drawing.series).map(str)
    return points.assign(series=series).dropna(subset=["x", "y"])


def _strips(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
    """A point per row, and a line through the mean of each x."""
    from matplotlib.ticker import MaxNLocator

    for name, part in rows.groupby("series", sort=False):
        style = look[str(name)]
        axes.plot(
            part["x"],
            part["value"],
            color=style.colour,
            linestyle="",
            marker=style.marker or "o",
            markersize=3,
            alpha=0.6,
        )
        means = part.groupby("x")["value"].mean()
        axes.plot(means.index, means, color=style.colour, linestyle=style.line, linewidth=1.3, label=name)
    if (rows["x"] % 1 == 0).all():
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _scatter(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
    """A point per row, with a line for each interval that there is."""
    for name, part in rows.groupby("series", sort=False):
        style = look[str(name)]
        axes.hlines(part["y"], part["x_low"], part["x_high"], color=style.colour, linewidth=0.7, alpha=0.5)
        axes.vlines(part["x"], part["y_low"], part["y_high"], color=style.colour, linewidth=0.7, alpha=0.5)
        axes.plot(
            part["x"], part["y"], color=style.colour, linestyle="", marker=style.marker or "o", markersize=4, alpha=0.75,
            label=name,
        )  # fmt: skip


def _bars(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
    """Horizontal bars, first row on top; the intervals are lines."""
    names = list(dict.fromkeys(map(str, rows["x"])))
    parts = list(rows.groupby("series", sort=False))
    height = 0.8 / len(parts)
    for place, (name, part) in enumerate(parts):
        at = np.array([names.index(str(value)) for value in part["x"]]) + (place - (len(parts) - 1) / 2) * height
        colour = look[str(name)].colour
        axes.barh(at, part["value"], height * 0.9, color=colour, alpha=0.75)
        axes.plot([], [], color=colour, linewidth=5, label=name)
        axes.hlines(at, part["low"], part["high"], color="#333333", linewidth=1)
    axes.set_yticks(range(len(names)), [shortened(name, NAME) for name in names])
    axes.invert_yaxis()


def _violins(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
    """A violin for the rows of each x and series, with their median; where fewer than two values differ, the values."""
    names = list(dict.fromkeys(map(str, rows["x"])))
    parts = list(rows.groupby("series", sort=False))
    width = 0.8 / len(parts)
    for place, (name, part) in enumerate(parts):
        colour = look[str(name)].colour
        for x, values in part.groupby("x", sort=False)["value"]:
            at = names.index(str(x)) + (place - (len(parts) - 1) / 2) * width
            if values.nunique() > 1:
                shapes: Any = axes.violinplot([values], [at], widths=width * 0.95, showextrema=False)
                shapes["bodies"][0].set(facecolor=colour, alpha=0.55)
            else:
                axes.plot([at] * len(values), values, color=colour, linestyle="", marker="o", markersize=3)
            axes.hlines(values.median(), at - width / 3, at + width / 3, color="#222222", linewidth=1.2)
        axes.plot([], [], color=colour, linewidth=5, label=name)
    axes.set_xticks(range(len(names)), [shortened(name, NAME) for name in names], rotation=40, ha="right", fontsize=7)


def _heat(axes: Axes, rows: pd.DataFrame, _look: Look, *, colours: tuple[str, float, float], numbered: bool) -> None:
    across, down = (list(dict.fromkeys(rows[name])) for name in ("x", "y"))
    cells = rows.drop_duplicates(["x", "y"], keep="last").pivot(index="y", columns="x", values="value")
    grid = cells.reindex(index=down, columns=across).to_numpy()
    name, low, high = colours
    image = axes.imshow(grid, cmap=name, aspect="auto", vmin=low, vmax=high)
    axes.grid(visible=False)
    columns, lines = ([shortened(str(value), NAME) for value in values] for values in (across, down))
    axes.set_xticks(range(len(across)), columns, rotation=40, ha="right", fontsize=7)
    axes.set_yticks(range(len(down)), lines, fontsize=7)
    for (y, x), value in np.ndenumerate(grid if numbered else grid[:0]):
        if math.isfinite(value):
            red, green, blue, _ = image.to_rgba(value)
            colour = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "black"
            axes.text(x, y, number(float(value)), ha="center", va="center", fontsize=7, color=colour)
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


_DRAWERS: Mapping[str, Callable[[Axes, pd.DataFrame, Look], None]] = {
    "curves": draw_lines,
    "points": _strips,
    "scatter": _scatter,
    "bars": _bars,
    "violins": _violins,
}
