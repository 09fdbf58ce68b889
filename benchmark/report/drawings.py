"""Figures of analyses: curves, scatter plots, bars and heat maps with intervals where there are any."""

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

from benchmark.report.figures import METADATA, Style, add_legend, fixed_style, render, styles
from benchmark.results.tables import Drawing, Table
from benchmark.results.wording import number, shortened

Styles = Mapping[str, Style]

_PER_ROW = 3
_LEGEND = 2.0  # inches that a legend takes at most
_LETTERS = 11.5  # of the title, per inch
_TITLE, _NAME = 300, 40  # letters that are shown


def drawing_files(table: Table) -> Iterator[tuple[str, bytes]]:
    """Ending and content of a table's figure, as PNG and as PDF; nothing for a table that is not drawn."""
    if table.drawing is None or not _finite(table.rows).any():
        return
    with fixed_style():
        figure = _draw(table, table.drawing)
        for kind in METADATA:
            yield kind, render(figure, kind)


def _finite(rows: pd.DataFrame) -> "pd.Series[bool]":
    return rows["value"].map(math.isfinite)


def _draw(table: Table, drawing: Drawing) -> Figure:
    panels = _panels(table, drawing)
    # one look for a series in all panels, also in those where others are missing
    chosen = styles(list(dict.fromkeys(name for _, part in panels for name, _ in _series(part, drawing))))
    draw = _DRAWERS[drawing.kind]
    columns = min(len(panels), _PER_ROW)
    rows = math.ceil(len(panels) / columns)
    width, height = _panel_size(table, drawing)
    figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for axes, (title, part) in zip(grid, panels, strict=False):
        draw(axes, part, drawing, chosen)
        axes.set_title(shortened(title, _NAME), loc="left")
        for name in drawing.logarithmic:
            (axes.set_xscale if name == "x" else axes.set_yscale)("log")
            axis = axes.xaxis if name == "x" else axes.yaxis
            axis.set_major_formatter(_Powers())
            axis.set_minor_formatter(_Powers(labelOnlyBase=False))
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    handles = {line.get_gid(): line for axes in grid for line in axes.get_lines() if line.get_gid()}
    room = figure.get_figwidth() - (_LEGEND if len(handles) > 1 else 0)
    title = textwrap.fill(shortened(table.title, _TITLE), int(room * _LETTERS))
    figure.suptitle(title, fontsize=10.5, x=0.01, ha="left")
    if len(handles) > 1:
        add_legend(figure, handles, loc="outside right upper", fontsize=8)
    return figure


class _Powers(LogFormatterSciNotation):
    """Powers of ten without matplotlib's mathematical text, which is off so that names are shown as they are."""

    _PLAIN = str.maketrans("0123456789−-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The label of a tick: `2×10⁻³` for `$\\mathdefault{2\\times10^{-3}}$`."""
        text = super().__call__(x, pos).removeprefix("$\\mathdefault{").removesuffix("}$").replace("\\times", "×")
        return re.sub(r"\^\{([^}]*)\}", lambda match: match[1].translate(self._PLAIN), text)


def _panel_size(table: Table, drawing: Drawing) -> tuple[float, float]:
    """Inches; heat maps and bars grow with what they hold, so that numbers and names stay legible."""
    if drawing.kind == "bars":
        return 5.6, max(3.3, 0.13 * int(table.rows["metric"].isin(drawing.y).sum()))
    if drawing.kind != "heat":
        return 4.1, 3.3
    across, down = (table.rows[name].nunique() for name in (drawing.x, drawing.y[0]))
    return max(4.1, 0.5 * across + 2.2), max(3.3, 0.26 * down + 1.4)


def _panels(table: Table, drawing: Drawing) -> list[tuple[str, pd.DataFrame]]:
    """One panel per metric (one in all for scatter and heat), times one per value of the panel columns."""
    rows = table.rows
    parts = [("", rows)]
    if drawing.panels:
        groups = rows.groupby(list(drawing.panels), sort=False)
        parts = [(" · ".join(map(str, values)), part) for values, part in groups]
    if drawing.kind in ("scatter", "heat"):
        return parts
    found = []
    for title, part in parts:
        for metric in drawing.y:
            own = part[(part["metric"] == metric) & _finite(part)]
            if len(own):
                found.append((" · ".join(filter(None, [title, metric])), own))
    return found


def _series(rows: pd.DataFrame, drawing: Drawing) -> Iterator[tuple[str, pd.DataFrame]]:
    if drawing.series is None:
        yield "", rows
    else:
        yield from ((str(name), part) for name, part in rows.groupby(drawing.series, sort=False))


def _curves(axes: Axes, rows: pd.DataFrame, drawing: Drawing, chosen: Styles) -> None:
    for name, part in _series(rows, drawing):
        own = part.assign(position=pd.to_numeric(part[drawing.x])).sort_values("position", kind="stable")
        style = chosen[name]
        if own["low"].notna().all():
            axes.fill_between(own["position"], own["low"], own["high"], color=style.colour, alpha=0.1, linewidth=0)
        axes.plot(
            own["position"], own["value"], color=style.colour, linestyle=style.line, linewidth=1.5,
            marker=style.marker if len(own) <= 25 else "", markersize=3.2, label=name or "_", gid=name,
        )  # fmt: skip
    axes.set_xlabel(shortened(drawing.x.replace("_", " "), _NAME))


def _scatter(axes: Axes, rows: pd.DataFrame, drawing: Drawing, chosen: Styles) -> None:
    labels = [name for name in rows.columns if name not in ("metric", "value", "low", "high", "n", "note")]
    for name, part in _series(rows, drawing):
        wide = part.pivot_table(index=labels, columns="metric", values="value", sort=False)
        if {drawing.x, drawing.y[0]} <= set(wide.columns):
            style = chosen[name]
            axes.plot(
                wide[drawing.x], wide[drawing.y[0]], color=style.colour, linestyle="", marker=style.marker or "o",
                markersize=4, alpha=0.75, label=name or "_", gid=name,
            )  # fmt: skip
    axes.set_xlabel(shortened(drawing.x, _NAME))
    axes.set_ylabel(shortened(drawing.y[0], _NAME))


def _bars(axes: Axes, rows: pd.DataFrame, drawing: Drawing, chosen: Styles) -> None:
    """Horizontal bars, first row on top; the intervals are lines."""
    parts = list(_series(rows, drawing))
    names = list(dict.fromkeys(str(value) for value in rows[drawing.x]))
    height = 0.8 / len(parts)
    for place, (name, part) in enumerate(parts):
        at = np.array([names.index(str(value)) for value in part[drawing.x]]) + (place - (len(parts) - 1) / 2) * height
        colour = chosen[name].colour
        axes.barh(at, part["value"], height * 0.9, color=colour, alpha=0.75)
        axes.plot([], [], color=colour, linewidth=5, label=name or "_", gid=name)
        axes.hlines(at, part["low"], part["high"], color="#333333", linewidth=1)
    axes.set_yticks(range(len(names)), [shortened(name, _NAME) for name in names])
    axes.invert_yaxis()


def _heat(axes: Axes, rows: pd.DataFrame, drawing: Drawing, _chosen: Styles) -> None:
    own = rows if drawing.value is None else rows[rows["metric"] == drawing.value]
    across, down = (list(dict.fromkeys(own[name])) for name in (drawing.x, drawing.y[0]))
    grid = np.full((len(down), len(across)), np.nan)
    for x, y, value in zip(own[drawing.x], own[drawing.y[0]], own["value"], strict=True):
        grid[down.index(y), across.index(x)] = value
    image = axes.imshow(grid, cmap="viridis", aspect="auto")
    axes.grid(visible=False)
    columns, lines = ([shortened(str(value), _NAME) for value in values] for values in (across, down))
    axes.set_xticks(range(len(across)), columns, rotation=40, ha="right", fontsize=7)
    axes.set_yticks(range(len(down)), lines, fontsize=7)
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    for (y, x), value in np.ndenumerate(grid):
        if math.isfinite(value):
            colour = "white" if value < middle else "black"
            axes.text(x, y, number(float(value)), ha="center", va="center", fontsize=6, color=colour)
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


_DRAWERS: Mapping[str, Callable[[Axes, pd.DataFrame, Drawing, Styles], None]] = {
    "curves": _curves,
    "scatter": _scatter,
    "bars": _bars,
    "heat": _heat,
}
