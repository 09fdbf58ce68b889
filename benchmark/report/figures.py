"""What drawn figures share: style, colours, panels, bands of intervals, legend, and equal bytes for equal figures."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from benchmark.report.naming import Look
from benchmark.results.wording import shortened
from benchmark.settings.report_settings import FigureSettings, FigureWidth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

_LETTERS = 12  # of the heading, per inch
_MARKED = 25  # points up to which each has a marker

_PAPER: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}
INCHES = {"column": 3.15, "page": 6.5}
"""Of a figure for a paper: the columns of common styles have 3.03 to 3.33 inches, their pages 6.3 to 7."""
_PER_LINE = {"screen": (3, 6), "column": (1, 1), "page": (3, 3)}
"""Most panels of a line that is filled, and of one whose panels stand below those of their column."""
_LEGEND = 7
_SMALL = 15  # letters of such a figure, per inch
_ASIDE = 0.45  # of a panel and its margin that names at its side may take
_TALLEST = 8.5  # inches of a figure for a paper: less than a column of text
SCREEN = FigureSettings()


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
        turned: whether its y axis runs downwards.
    """

    rows: pd.DataFrame
    title: str = ""
    x: str = ""
    y: str = ""
    draw: Callable[[Axes, pd.DataFrame, Look], None] | None = None
    line: str = ""
    column: str = ""
    scale: str = ""
    turned: bool = False


@dataclass(frozen=True)
class PanelSize:
    """Inches of a panel, and of the margins that hold the numbers and names of its axes.

    Attributes:
        width, height: between its axes.
        left, bottom: of its margins.
        grows: whether a narrower panel is lower too; one with a line for each name is not.
    """

    width: float = 3.5
    height: float = 2.5
    left: float = 0.72
    bottom: float = 0.5
    grows: bool = True


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
    tick_where_measured(axes, rows["x"])


def tick_where_measured(axes: Axes, x: pd.Series[float]) -> None:
    """Ticks at values of x: at all of them, or from the left at as many as their numbers leave room for."""
    found = np.unique(x.dropna().to_numpy(dtype=float))
    place = np.log(found) if axes.get_xscale() == "log" and (found > 0).all() else found
    inches = axes.get_window_extent().width / axes.figure.dpi
    room = 0.075 * max((len(f"{value:g}") for value in found), default=0) + 0.06
    shown: list[int] = []
    for index, at in enumerate(place):
        if not shown or (at - place[shown[-1]]) / np.ptp(place) * inches >= room:
            shown.append(index)
    axes.set_xticks(found[shown], [f"{value:g}" for value in found[shown]])


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
    settings: FigureSettings = SCREEN,
) -> Figure:
    """A figure of panels, with a heading above them and a legend: at their right, or below them in a figure for a paper.

    Args:
        heading: what the figure shows.
        panels: from left to right, in lines of their own or in lines of equal length.
        look: how series look; those that are drawn are named in the legend.
        draw: fills a panel with its rows; it labels a line of each series with its name.
        size: of the panels.
        values: the axis of the figures, whose range panels of one scale share.
        settings: how wide it is; one for a paper has panels of equal size that fill it.
    """
    drawn = {name for panel in panels for name in panel.rows["series"]} - {""}
    names = [name for name in look if name in drawn and look[name].named]
    others = [name for name in look if name in drawn and not look[name].named]
    equal = _equal_series(panels)
    told = [shortened(f"{name}{equal.get(name, '')}", NAME) for name in names]
    told += [f"{len(others)} other methods"] if others else []
    layout = _layout(heading if settings.title else "", panels, size, told, settings.width)
    figure, grid = _grid(layout)
    for panel, axes in zip(panels, grid, strict=True):
        (panel.draw or draw)(axes, panel.rows, look)
        axes.set_title(_wrapped(panel.title, layout.letters), loc="left")
        axes.set_xlabel(_wrapped(panel.x.replace("_", " "), layout.letters))
        axes.set_ylabel("\n".join(_lines_beside(panel.y, layout.size.height)))
        if panel.turned:
            axes.invert_yaxis()
        if settings.width != "screen":
            _fit_names(axes, layout.size)
    _share_ranges(panels, grid, values)
    if layout.lines:
        add_text(figure, 0.15, 0.12, "\n".join(layout.lines), 11 if settings.width == "screen" else 9)
    if told:
        handles = {line.get_label(): line for axes in grid for line in axes.get_lines()}
        shown = [handles[name] for name in (*names, *others[:1])]
        legend = figure.legend(
            shown, [str(place) for place in range(len(told))], borderaxespad=0, **layout.legend(figure.get_figheight())
        )
        # set afterwards, as matplotlib leaves out labels that begin with "_"
        for text, name in zip(legend.get_texts(), told, strict=True):
            text.set_text(name)
    return figure


_RIGHT, _BETWEEN = 0.15, 0.35
_MARGIN = 0.9  # inches beyond which a margin holds names, not numbers
_HANDLE = 0.33  # inches of a line of a legend below the panels, before its name, and of the gap behind it


@dataclass(frozen=True)
class _Layout:
    """Where everything stands, in inches.

    Attributes:
        width: of the figure.
        size: of its panels.
        places: line and column of each panel.
        lines: of the heading.
        titles: lines of the longest title of a panel.
        told: names in the legend.
        across: columns of a legend below the panels; 0 for one beside them.
    """

    width: float
    size: PanelSize
    places: list[tuple[int, int]]
    lines: list[str]
    titles: int
    told: Sequence[str]
    across: int

    @property
    def letters(self) -> int:
        """Of a line above or below a panel."""
        return max(12, int((self.size.left + self.size.width) * (_LETTERS if self.across == 0 else _SMALL)))

    @property
    def above(self) -> float:
        """Inches above the panels."""
        heading = 0.45 + 0.175 * (len(self.lines) - 1) if self.lines else 0.05
        return heading + (0.03 + 0.14 * self.titles if self.titles else 0.05)

    @property
    def below(self) -> float:
        """Inches of a legend below the panels."""
        return 0.1 + 0.135 * math.ceil(len(self.told) / self.across) if self.across and self.told else 0.0

    def legend(self, height: float) -> dict[str, Any]:
        """How a legend is placed in a figure of this height."""
        if self.across:
            corner = (0.06 / self.width, 0.04 / height)
            return {
                "loc": "lower left", "ncols": self.across, "bbox_to_anchor": corner, "handlelength": 2.0,
                "columnspacing": 0.8, "handletextpad": 0.5, "labelspacing": 0.25, "fontsize": _LEGEND,
            }  # fmt: skip
        top = 0.4 + 0.175 * (len(self.lines) - 1) if self.lines else 0.1
        corner = (1 - 0.08 / self.width, 1 - top / height)
        return {"loc": "upper right", "bbox_to_anchor": corner, "handlelength": 3.2, "fontsize": 8}


def _layout(heading: str, panels: Sequence[Panel], size: PanelSize, told: Sequence[str], width: FigureWidth) -> _Layout:
    longest = max(map(len, told), default=0)
    if width == "screen":
        size = replace(size, left=size.left + _for_lines(panels, size.height))
        places = placed(panels)
        beside = 0.55 + 0.07 * longest if told else 0.0  # the legend
        whole = (1 + max(column for _, column in places)) * (size.left + size.width + _RIGHT) + beside
        return _Layout(whole, size, places, textwrap.wrap(heading, int((whole - 0.2) * _LETTERS)), 1, told, 0)
    whole = INCHES[width]
    places = placed(panels, width)
    across = whole / (1 + max(column for _, column in places))
    left = min(size.left, _ASIDE * across) if size.left > _MARGIN else 0.55
    height = size.height * min(1.0, (across - left - _RIGHT) / size.width) if size.grows else size.height
    height = max(height, 1.25)
    left += _for_lines(panels, height)
    sized = replace(size, width=across - left - _RIGHT, height=height, left=left, bottom=min(size.bottom, 1.0))
    letters = int(across * _SMALL)
    titles = max((len(textwrap.wrap(panel.title, letters)) for panel in panels), default=0)
    entries = max(1, min(len(told), int((whole - 0.06) / (_HANDLE + _inches(told))))) if told else 1
    return _Layout(whole, sized, places, textwrap.wrap(heading, int(whole * 13)), titles, told, entries)


def _inches(texts: Sequence[str]) -> float:
    """Width of the longest text in a legend below the panels."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(family=_STYLE["font.family"])
    widths = (TextPath((0, 0), text, size=_LEGEND, prop=font).get_extents().width for text in texts if text.strip())
    return float(max(widths, default=0.0)) / 72


def _for_lines(panels: Sequence[Panel], height: float) -> float:
    """Inches of a margin for the lines beyond the first of what stands beside the axes."""
    return 0.13 * (max(len(_lines_beside(panel.y, height)) for panel in panels) - 1)


def _lines_beside(text: str, height: float) -> list[str]:
    """What stands beside an axis of so many inches, in at most three lines; one that is empty where there is nothing."""
    lines = textwrap.wrap(text.replace("_", " "), max(int(height * _SMALL), 8), max_lines=3, placeholder=" …")
    return lines or [""]


def _wrapped(text: str, letters: int) -> str:
    """Text in at most two lines."""
    return "\n".join(textwrap.wrap(text, max(letters, 8), max_lines=2, placeholder=" …"))


def _fit_names(axes: Axes, size: PanelSize) -> None:
    """Names at the side of a panel, in lines that its margin holds."""
    texts = [label.get_text() for label in axes.get_yticklabels()]
    if any(len(text) > 8 for text in texts):
        letters = int((size.left - 0.1) * 17)
        lines = ["\n".join(textwrap.wrap(text, letters, max_lines=2, placeholder="…")) for text in texts]
        axes.set_yticks(axes.get_yticks(), lines)


def _equal_series(panels: Sequence[Panel]) -> dict[str, str]:
    """What is said of series whose points are those of an earlier one in every panel, where they lie below it."""
    points: dict[str, list[Any]] = {}
    for place, panel in enumerate(panels):
        if "value" in panel.rows and pd.api.types.is_numeric_dtype(panel.rows["x"]):
            for name, part in panel.rows.groupby("series", sort=False):
                spots = tuple(map(str, part.sort_values("x", kind="stable")[["x", "value"]].to_numpy().ravel()))
                points.setdefault(str(name), []).append((place, spots))
    first: dict[tuple[Any, ...], str] = {}
    told = {}
    for name, own in points.items():
        other = first.setdefault(tuple(own), name)
        if name and other != name and sum(len(part) for _, part in own) > 2:
            told[name] = f" (equals {other})"
    return told


def placed(panels: Sequence[Panel], width: FigureWidth = "screen") -> list[tuple[int, int]]:
    """Line and column of each panel.

    Panels that name their lines stand in them, each below those of its column; others fill lines of equal length, as far as
    their number can be divided: four make two lines of two.

    Args:
        panels: of a figure.
        width: of the figure.
    """
    most, named_most = _PER_LINE[width]
    lines, columns = (list(dict.fromkeys(getattr(panel, name) for panel in panels)) for name in ("line", "column"))
    named = [(lines.index(panel.line), columns.index(panel.column)) for panel in panels]
    if len(lines) > 1 and len(columns) <= named_most and len({*named}) == len(panels):
        return named
    least = math.ceil(len(panels) / most)
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


def _grid(layout: _Layout) -> tuple[Figure, list[Axes]]:
    """A figure with its panels; margins are fixed, for a layout engine would draw all of it twice."""
    from matplotlib.figure import Figure

    size, width = layout.size, layout.width
    rows = 1 + max(row for row, _ in layout.places)
    between = _BETWEEN + 0.14 * max(layout.titles - 1, 0)
    height = layout.above + rows * (size.height + size.bottom) + (rows - 1) * between + layout.below
    if not layout.across:  # the legend stands beside
        height = max(height, layout.above - 0.12 + 0.175 * len(layout.told))
    figure = Figure(figsize=(width, height))
    grid = []
    for row, column in layout.places:
        x = column * (size.left + size.width + _RIGHT) + size.left
        y = height - layout.above - size.height - row * (size.height + size.bottom + between)
        grid.append(figure.add_axes((x / width, y / height, size.width / width, size.height / height)))
    return figure, grid


def add_legend(figure: Figure, kinds: Sequence[tuple[str, str]]) -> None:
    """What filled circles stand for, at the lower edge.

    Args:
        figure: with room for two lines.
        kinds: colour and words.
    """
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=5, markerfacecolor=colour, markeredgecolor="#1a1a1a")
        for colour, _ in kinds
    ]
    width, height = figure.get_size_inches()
    figure.legend(
        handles, [words for _, words in kinds], loc="lower left", ncols=2, fontsize=7, handletextpad=0.2, columnspacing=1.0,
        labelspacing=0.25, borderaxespad=0, bbox_to_anchor=(0.1 / width, 0.05 / height),
    )  # fmt: skip


def add_text(figure: Figure, right: float, down: float, text: str, size: float) -> None:
    """Text that begins so many inches right of and below the upper left corner."""
    width, height = figure.get_size_inches()
    figure.text(right / width, 1 - down / height, text, ha="left", va="top", fontsize=size)


def fixed_style(width: FigureWidth = "screen") -> AbstractContextManager[None]:
    """matplotlib's own defaults with ours on top, whatever the user's matplotlibrc says; restored afterwards."""
    from matplotlib import style

    return style.context(["default", _STYLE, *([] if width == "screen" else [_PAPER])])


def rendered(draw: Callable[[], Figure], text: str = "", settings: FigureSettings = SCREEN) -> dict[str, bytes]:
    """The bytes of a figure's file in each format; equal figures give equal bytes (no date, no program name).

    Args:
        draw: makes the figure.
        text: what it shows, in words; kept in the files.
        settings: which formats, and how large letters are.
    """
    content: dict[str, bytes] = {}
    with fixed_style(settings.width), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box stands for it
        figure = draw()
        for kind in settings.format:
            metadata, stream = _METADATA[kind], BytesIO()
            figure.savefig(stream, format=kind, metadata=metadata | ({_TOLD[kind]: text} if text else {}))
            content[kind] = stream.getvalue()
    return content


def figure_files(
    stem: str, draw: Callable[[], Figure], text: str = "", settings: FigureSettings = SCREEN
) -> Iterator[tuple[str, bytes]]:
    """File name and content of a figure in each format; the files keep what it shows in words."""
    yield from ((f"{stem}.{kind}", content) for kind, content in rendered(draw, text, settings).items())


def page_files(
    stem: str,
    draw: Callable[[Sequence[Panel]], Figure],
    panels: Sequence[Panel],
    text: str = "",
    settings: FigureSettings = SCREEN,
) -> Iterator[tuple[str, bytes]]:
    """`figure_files` of panels; for a paper in several files where they are higher than a page together."""
    for place, part in enumerate(_pages(draw, panels, settings), 1):
        own = stem if place == 1 else f"{stem}-part-{place}"
        yield from figure_files(own, partial(draw, part), text, settings)


def _pages(
    draw: Callable[[Sequence[Panel]], Figure], panels: Sequence[Panel], settings: FigureSettings
) -> list[Sequence[Panel]]:
    """The panels in as few parts of whole lines as are no higher than a page each."""
    if settings.width == "screen":
        return [panels]
    rows = [row for row, _ in placed(panels, settings.width)]
    lines = [[panel for panel, row in zip(panels, rows, strict=True) if row == line] for line in sorted({*rows})]
    for count in range(1, len(lines) + 1):
        per_part = math.ceil(len(lines) / count)
        starts = range(0, len(lines), per_part)
        parts: list[Sequence[Panel]] = [list(chain.from_iterable(lines[start : start + per_part])) for start in starts]
        with fixed_style(settings.width):
            if all(draw(part).get_figheight() <= _TALLEST for part in parts):
                break
    return parts
