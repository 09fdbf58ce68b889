"""What drawn figures share: style, colours, panels, bands of intervals, legend, and equal bytes for equal figures."""

import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchmark.report.naming import Look
from benchmark.results.wording import shortened

_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.edgecolor": "#555555",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
}
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
_TOLD = {"png": "Description", "pdf": "Subject"}
NAME = 48
"""Letters of a name that are shown."""

_PANELS_PER_LINE = 3
_MOST_PER_LINE = 6
_LETTERS = 12  # of the heading, per inch
_MARKED = 25  # points up to which each has a marker


@dataclass(frozen=True)
class Panel:
    """One panel of a figure.

    Attributes:
        rows: its points; their `series` (empty: none) is named in the legend.
        title: what stands above it.
        x: name of the horizontal axis.
        y: name of the vertical axis.
        draw: fills it, where it is drawn in another way than the others.
        line: panels of one line stand side by side; empty: lines are filled one after the other.
        column: below panels of the same column, where there are lines.
        scale: panels of the same scale, which is not empty, show the same range of values.
    """

    rows: pd.DataFrame
    title: str = ""
    x: str = ""
    y: str = ""
    draw: "Callable[[Axes, pd.DataFrame, Look], None] | None" = None
    line: str = ""
    column: str = ""
    scale: str = ""


@dataclass(frozen=True)
class PanelSize:
    """Inches of a panel, and of the margins that hold the numbers and names of its axes."""

    width: float = 3.5
    height: float = 2.5
    left: float = 0.72
    bottom: float = 0.5


def draw_lines(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
    """A line with a 95 % band per series; points without an interval have no band, those that are not finite leave a gap."""
    for name, shown in look.items():
        points = rows[rows["series"] == name].sort_values("x", kind="stable")
        if points.empty:
            continue
        bounded = points["low"].notna()
        joined = bounded.shift(1, fill_value=False) | bounded.shift(-1, fill_value=False)
        low, high = (points[name].where(joined) for name in ("low", "high"))  # a lone one has no area to be seen by
        if shown.named:
            axes.fill_between(points["x"], low, high, color=shown.colour, alpha=0.07, linewidth=0, zorder=1)
        axes.plot(
            points["x"], points["value"], color=shown.colour, linestyle=shown.line, zorder=shown.front,
            linewidth=1.5 if shown.named else 0.8,
            marker=shown.marker if shown.front > 2 and len(points) <= _MARKED else "", markersize=3.2, label=name,
        )  # fmt: skip
    axes.margins(x=0.02)
    if (rows["x"] % 1 == 0).all():
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_points(axes: Axes, rows: pd.DataFrame, look: Look, ticks: Mapping[float, str]) -> None:
    """A point with its interval per series and x, side by side; the x axis names things, and no line joins them.

    Args:
        axes: of the panel.
        rows: its points.
        look: how series look.
        ticks: x -> what it is called.
    """
    names = [name for name in look if (rows["series"] == name).any()]
    for place, name in enumerate(names):
        shown, points = look[name], rows[rows["series"] == name]
        at = points["x"].map({x: index for index, x in enumerate(ticks)}) + 0.8 * ((place + 0.5) / len(names) - 0.5)
        axes.vlines(at, points["low"], points["high"], color=shown.colour, linewidth=1, zorder=shown.front)
        axes.plot(
            at, points["value"], color=shown.colour, linestyle="", marker=shown.marker or "_", markersize=4, label=name,
            zorder=shown.front,
        )  # fmt: skip
    axes.set_xticks(range(len(ticks)), [shortened(name, NAME) for name in ticks.values()])
    axes.set_xlim(-0.6, len(ticks) - 0.4)
    axes.grid(visible=False, axis="x")


def draw_panels(
    heading: str,
    panels: Sequence[Panel],
    look: Look,
    draw: Callable[[Axes, pd.DataFrame, Look], None] = draw_lines,
    size: PanelSize = PanelSize(),
    values: Literal["x", "y"] = "y",
) -> Figure:
    """A figure of panels side by side, with a heading above them and a legend at their right.

    Args:
        heading: what the figure shows.
        panels: from left to right, in lines of their own or in lines of equal length.
        look: how series look; those that are drawn are named in the legend.
        draw: fills a panel with its rows; it labels a line of each series with its name.
        size: of the panels.
        values: the axis of the figures, whose range panels of one scale share.
    """
    drawn = {name for panel in panels for name in panel.rows["series"]} - {""}
    names = [name for name in look if name in drawn and look[name].named]
    others = [name for name in look if name in drawn and not look[name].named]
    told = [*names, *([f"{len(others)} other methods"] if others else [])]
    beside = 0.55 + 0.07 * min(NAME, max(map(len, told))) if told else 0.0  # the legend
    places = placed(panels)
    width = (1 + max(column for _, column in places)) * (size.left + size.width + _RIGHT) + beside
    lines = textwrap.wrap(heading, int((width - 0.2) * _LETTERS))
    figure, grid = _grid(places, size, width, 0.175 * (len(lines) - 1), len(told))
    for panel, axes in zip(panels, grid, strict=True):
        (panel.draw or draw)(axes, panel.rows, look)
        axes.set_title(panel.title, loc="left")
        axes.set_xlabel(shortened(panel.x.replace("_", " "), NAME))
        axes.set_ylabel(shortened(panel.y.replace("_", " "), NAME))
    _share_ranges(panels, grid, values)
    add_text(figure, 0.15, 0.12, "\n".join(lines), 11)
    if told:
        handles = {line.get_label(): line for axes in grid for line in axes.get_lines()}
        corner = 1 - 0.08 / width, 1 - (0.4 + 0.175 * (len(lines) - 1)) / figure.get_figheight()
        legend = figure.legend(
            [handles[name] for name in (*names, *others[:1])], [str(place) for place in range(len(told))], loc="upper right",
            borderaxespad=0, fontsize=8, handlelength=3.2, bbox_to_anchor=corner,
        )  # fmt: skip
        # set afterwards, as matplotlib leaves out labels that begin with "_"
        for text, name in zip(legend.get_texts(), told, strict=True):
            text.set_text(shortened(name, NAME))
    return figure


_RIGHT, _TOP, _BETWEEN = 0.15, 0.62, 0.35


def placed(panels: Sequence[Panel]) -> list[tuple[int, int]]:
    """Line and column of each panel.

    Panels that name their lines stand in them, each below those of its column; others fill lines of equal length, as far as
    their number can be divided: four make two lines of two.
    """
    lines, columns = (list(dict.fromkeys(getattr(panel, name) for panel in panels)) for name in ("line", "column"))
    named = [(lines.index(panel.line), columns.index(panel.column)) for panel in panels]
    if len(lines) > 1 and len(columns) <= _MOST_PER_LINE and len({*named}) == len(panels):
        return named
    least = math.ceil(len(panels) / _PANELS_PER_LINE)
    across = math.ceil(len(panels) / least)
    return [divmod(place, across) for place in range(len(panels))]


def _share_ranges(panels: Sequence[Panel], grid: Sequence[Axes], values: Literal["x", "y"]) -> None:
    """Panels of one scale show the same range."""
    for scale in dict.fromkeys(panel.scale for panel in panels if panel.scale):
        alike = [axes for panel, axes in zip(panels, grid, strict=True) if panel.scale == scale]
        ends = [axes.get_xlim() if values == "x" else axes.get_ylim() for axes in alike]
        low, high = min(map(min, ends)), max(map(max, ends))
        for axes in alike:
            (axes.set_xlim if values == "x" else axes.set_ylim)(low, high)


def _grid(
    places: Sequence[tuple[int, int]], size: PanelSize, width: float, above: float, names: int
) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches with its panels; margins are fixed, for a layout engine would draw all of it twice."""
    rows = 1 + max(row for row, _ in places)
    height = max(rows * (size.height + size.bottom) + (rows - 1) * _BETWEEN + _TOP, 0.5 + 0.175 * names) + above
    figure = Figure(figsize=(width, height))
    grid = []
    for row, column in places:
        x = column * (size.left + size.width + _RIGHT) + size.left
        y = height - above - _TOP - size.height - row * (size.height + size.bottom + _BETWEEN)
        grid.append(figure.add_axes((x / width, y / height, size.width / width, size.height / height)))
    return figure, grid


def add_text(figure: Figure, right: float, down: float, text: str, size: float) -> None:
    """Text that begins so many inches right of and below the upper left corner."""
    width, height = figure.get_size_inches()
    figure.text(right / width, 1 - down / height, text, ha="left", va="top", fontsize=size)


def fixed_style() -> AbstractContextManager[None]:
    """matplotlib's own defaults with ours on top, whatever the user's matplotlibrc says; restored afterwards."""
    return style.context(["default", _STYLE])


def rendered(draw: Callable[[], Figure], text: str = "") -> dict[str, bytes]:
    """The bytes of a figure's `png` and `pdf` file; equal figures give equal bytes (no date, no program name).

    Args:
        draw: makes the figure.
        text: what it shows, in words; kept in the files.
    """
    content = {}
    with fixed_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box stands for it
        figure = draw()
        for kind, metadata in _METADATA.items():
            stream = BytesIO()
            figure.savefig(stream, format=kind, metadata=metadata | ({_TOLD[kind]: text} if text else {}))
            content[kind] = stream.getvalue()
    return content


def figure_files(stem: str, draw: Callable[[], Figure], text: str = "") -> Iterator[tuple[str, bytes]]:
    """File name and content of a figure as PNG and as PDF, which keep what it shows in words."""
    yield from ((f"{stem}.{kind}", content) for kind, content in rendered(draw, text).items())
