"""One figure per curve metric: a panel per task and model, a line with a 95 % band per method."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchmark.report.cells import CONTROLS, NamedCell, control_order
from benchmark.report.labels import natural
from benchmark.report.leaderboard import is_control, known_metrics
from benchmark.results.wording import shortened, slug, unique_stems

# Okabe and Ito's colours; dark purple in place of black (too near the controls' greys), no yellow (too light on white).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4B2E83")
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v")
_GREYS = {
    "oracle": ("#3a3a3a", "-"),
    "random": ("#6b6b6b", (0, (5, 1.5))),
    "inverted": ("#3a3a3a", (0, (1, 1.2))),
    "position": ("#9a9a9a", (0, (5, 1.5, 1, 1.5))),
    "frequency": ("#9a9a9a", (0, (1, 2.5))),
}
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
    "svg.hashsalt": "attention-explainer-benchmark",
    "savefig.dpi": 160,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
}
METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
_PANELS_PER_ROW = 3
_NAME = 48  # letters of a method's name that are shown
_TITLE = 100
_DIRECTION = {True: "higher is better", False: "lower is better", None: ""}


@dataclass(frozen=True)
class Curve:
    """A curve metric: its test and name, the name of its x axis and its direction."""

    evaluation: str
    metric: str
    x: str
    higher_is_better: bool | None

    @property
    def stem(self) -> str:
        """File name without its ending."""
        return f"curve-{slug(self.evaluation)}-{slug(self.metric)}"


@dataclass(frozen=True)
class Style:
    """How a method's line looks, the same in every figure of a report."""

    colour: str
    line: Any
    marker: str
    front: int


def curves(cells: Sequence[NamedCell]) -> list[Curve]:
    """The curve metrics that some cell declares."""
    found = {
        (shown, name): Curve(shown, name, metric.x, metric.higher_is_better)
        for shown, metrics in known_metrics(cells).items()
        for name, metric in metrics.items()
        if metric.x is not None
    }
    return [found[key] for key in sorted(found)]


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Colour, dash and marker of each method: 28 real ones before colour and dash repeat together; controls grey."""
    chosen: dict[str, Style] = {}
    real = [method for method in methods if not is_control(method)]
    for place, method in enumerate(real):
        parts = (_COLOURS[place % len(_COLOURS)], _LINES[place % len(_LINES)], _MARKERS[place % len(_MARKERS)])
        chosen[method] = Style(*parts, front=3)
    for method in methods:
        if is_control(method):
            control = CONTROLS[control_order(method.split(" (", 1)[0]) - 1]
            chosen[method] = Style(*_GREYS[control], marker="", front=2)
    return chosen


def _draw(axes: Axes, points: pd.DataFrame, chosen: Mapping[str, Style]) -> None:
    """The lines of one panel; points without an interval have no band, points that are not finite leave a gap."""
    for method, style in chosen.items():
        own = points[points["method"] == method].sort_values("x", kind="stable")
        if own.empty:
            continue
        axes.fill_between(own["x"], own["low"], own["high"], color=style.colour, alpha=0.10, linewidth=0, zorder=1)
        axes.plot(
            own["x"], own["value"], color=style.colour, linestyle=style.line, linewidth=1.5, zorder=style.front,
            marker=style.marker if len(own) <= 25 else "", markersize=3.2, label=method,
        )  # fmt: skip


def _examples(points: pd.DataFrame) -> str:
    counts = sorted({int(n) for n in points["n"]})
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]}–{counts[-1]}"


def draw(curve: Curve, table: pd.DataFrame, chosen: Mapping[str, Style]) -> Figure:
    """The figure of one curve metric.

    Args:
        curve: what is drawn.
        table: its points (rows of the leaderboard).
        chosen: the methods' styles, in the order of the legend.
    """
    panels = list(dict.fromkeys(zip(table["task"], table["model"], strict=True)))
    drawn = set(table["method"])
    names = [method for method in chosen if method in drawn]
    figure, grid = _panels(len(panels), legend=0.55 + 0.07 * min(_NAME, max(map(len, names))), lines=len(names))
    for (task, model), axes in zip(panels, grid, strict=True):
        points = table[(table["task"] == task) & (table["model"] == model)]
        _draw(axes, points, chosen)
        place = shortened(f"{task} · {model}", _TITLE // 2)
        axes.set_title(f"{place} ({_examples(points)})", loc="left")
        axes.set_xlabel(shortened(curve.x.replace("_", " "), _NAME))
        axes.set_ylabel(shortened(curve.metric.replace("_", " "), _NAME))
        axes.margins(x=0.02)
        if (points["x"] % 1 == 0).all():
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    direction = _DIRECTION[curve.higher_is_better]
    heading = shortened(f"{curve.evaluation}: {curve.metric.replace('_', ' ')}", _TITLE)
    heading += f" ({direction})" if direction else ""
    width, height = figure.get_size_inches()
    figure.text(0.15 / width, 1 - 0.12 / height, heading, ha="left", va="top", fontsize=11)
    handles = {line.get_label(): line for axes in grid for line in axes.get_lines()}
    add_legend(
        figure, {name: handles[name] for name in names}, loc="upper right", borderaxespad=0, fontsize=8,
        handlelength=3.2, bbox_to_anchor=(1 - 0.08 / width, 1 - 0.4 / height),
    )  # fmt: skip
    return figure


def add_legend(figure: Figure, handles: Mapping[str, Artist], **options: Any) -> None:
    """A legend with a line for every handle; matplotlib itself leaves out names that begin with an underscore."""
    legend = figure.legend(list(handles.values()), [str(place) for place in range(len(handles))], **options)
    for text, name in zip(legend.get_texts(), handles, strict=True):
        text.set_text(shortened(name, _NAME))


def _panels(count: int, legend: float, lines: int) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, room for a legend of so many inches and lines at its right; margins in inches.

    Margins are fixed, for a layout engine would draw everything once more.
    """
    columns = min(count, _PANELS_PER_ROW)
    rows = math.ceil(count / columns)
    panel_width, panel_height, left, right, top, bottom = 3.5, 2.5, 0.72, 0.15, 0.62, 0.5
    width = columns * (left + panel_width + right) + legend
    height = max(rows * (panel_height + bottom) + (rows - 1) * 0.35 + top, 0.5 + 0.175 * lines)
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    grid = []
    for place in range(count):
        row, column = divmod(place, columns)
        x = column * (left + panel_width + right) + left
        y = height - top - panel_height - row * (panel_height + bottom + 0.35)
        grid.append(figure.add_axes((x / width, y / height, panel_width / width, panel_height / height)))
    return figure, grid


@contextmanager
def fixed_style() -> Iterator[None]:
    """matplotlib's own defaults with ours on top, whatever the user's matplotlibrc says; restored afterwards."""
    with mpl.rc_context():
        mpl.rcParams.update({key: value for key, value in mpl.rcParamsDefault.items() if key not in _KEPT})
        mpl.rcParams.update(_STYLE)
        yield


_KEPT = ("backend", "backend_fallback", "interactive", "toolbar", "webagg.address")


def render(figure: Figure, kind: str) -> bytes:
    """The bytes of a `png` or `pdf` file; equal figures give equal bytes (no date, no program name)."""
    stream = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box stands for it
        figure.savefig(stream, format=kind, metadata=METADATA[kind])
    return stream.getvalue()


def curve_files(cells: Sequence[NamedCell], table: pd.DataFrame) -> Iterator[tuple[str, bytes]]:
    """File name and content of every curve figure, as PNG and as PDF.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
    """
    order = sorted(dict.fromkeys(table["method"]), key=_legend_place)
    chosen = styles(order)
    found = {}
    for curve in curves(cells):
        mine = (table["evaluation"] == curve.evaluation) & (table["metric"] == curve.metric) & table["x"].notna()
        if mine.any():
            found[curve] = mine
    stems = unique_stems(curve.stem for curve in found)
    for (curve, mine), stem in zip(found.items(), stems, strict=True):
        with fixed_style():
            figure = draw(curve, table[mine], chosen)
            for kind in METADATA:
                yield f"{stem}.{kind}", render(figure, kind)


def _legend_place(method: str) -> tuple[int, tuple[tuple[int, float, str], ...]]:
    return (control_order(method.split(" (", 1)[0]), natural(method))
