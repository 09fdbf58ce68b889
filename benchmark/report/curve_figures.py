"""Curves: one page of small multiples with those that matter first, and a figure for each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from benchmark.report.cells import NamedCell
from benchmark.report.figures import SCREEN, Panel, PanelSize, draw_panels, draw_points, page_files
from benchmark.report.leaderboard import groups_with_figures, known_metrics
from benchmark.report.naming import OURS, Names, method_look
from benchmark.results.record import Metric
from benchmark.results.wording import arrow, shortened, slug, span, unique_stems
from benchmark.settings.report_settings import FigureSettings

_TITLE = 100
_PANEL_TITLE = 56
_DIRECTION = {True: " (higher is better)", False: " (lower is better)", None: ""}
_TOLERANCE = 1e-12
OVERVIEW = "curves"
"""Stem of the page of small multiples."""


@dataclass(frozen=True)
class Curve:
    """One metric against its x.

    Attributes:
        evaluation: its test.
        metric: its name.
        declared: what is declared of it.
        points: of all tasks and models, by method.
        labels: class names, by task and model.
        names: what people read in place of code names.
    """

    evaluation: str
    metric: str
    declared: Metric
    points: pd.DataFrame
    labels: dict[tuple[str, str], tuple[str, ...]]
    names: Names = OURS

    @property
    def title(self) -> str:
        """Title, or test and metric."""
        return self.declared.title or f"{self.evaluation}: {self.metric.replace('_', ' ')}"

    @property
    def flat(self) -> bool:
        """Whether there is nothing to see: no value, or the same one everywhere."""
        values = self.points["value"].dropna()
        return values.empty or values.max() - values.min() <= _TOLERANCE

    @property
    def text(self) -> str:
        """What the figure shows, in words."""
        methods = self.points["method"].nunique()
        direction = _DIRECTION[self.declared.higher_is_better].strip(" ()")
        bands = "bands are 95 % intervals" + ("" if self.points["low"].notna().all() else " where there are any")
        parts = [f"{self.title} against {self.declared.x} for {methods} methods", direction, bands]
        return "; ".join(filter(None, parts)) + "."

    def panels(self, *, told: bool) -> Iterator[Panel]:
        """A panel per task and model; its title tells the curve (`told`) or the task and model."""
        for (task, model), part in self.points.groupby(["task", "model"], sort=False):
            name = shortened(self.names.place(str(task), str(model)), _TITLE // 2)
            title = f"{name} (n = {span(int(n) for n in part['n'])})"
            if told:
                name = shortened(self.declared.short or self.title, _PANEL_TITLE)
                title = f"{name}\u00a0{arrow(self.declared.higher_is_better)}".rstrip()
            rows = part.rename(columns={"method": "series"})
            rows["series"] = rows["series"].map(self.names.method)
            classes = self.labels.get((str(task), str(model)), ())
            yield Panel(
                rows, title, str(self.declared.x), "" if told else self.declared.short or self.title,
                _drawer(self.declared, rows, classes),
                scale="" if told else self.metric,
            )  # fmt: skip


def _drawer(declared: Metric, rows: pd.DataFrame, names: Sequence[str]) -> "partial[None] | None":
    """Points in place of a line where x only names something."""
    if declared.scale == "numeric":
        return None
    of_class = declared.scale == "class"
    found = sorted({float(x) for x in rows["x"]})
    ticks = {x: names[int(x)] if of_class and 0 <= x < len(names) else f"{x:g}" for x in found}
    return partial(draw_points, ticks=ticks)


def curves(cells: Sequence[NamedCell], table: pd.DataFrame, names: Names = OURS) -> list[Curve]:
    """The curves of all tests that are shown, those of the overview first.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
        names: what people read in place of code names.
    """
    metrics = known_metrics(cells)
    shown = pd.concat([part for *_, part in groups_with_figures(cells, table)])
    labels = {(cell.task, cell.model): cell.record.model.labels for cell in cells}
    parts = shown[shown["x"].notna()].groupby(["evaluation", "metric"], sort=False)
    found = {
        (str(key[0]), str(key[1])): Curve(
            str(key[0]), str(key[1]), metrics[str(key[0])][str(key[1])], part, labels, names
        )
        for key, part in parts
    }
    in_order = [found[name, metric] for name, own in metrics.items() for metric in own if (name, metric) in found]
    return sorted(in_order, key=lambda curve: not curve.declared.headline)


def not_drawn(found: Sequence[Curve]) -> str:
    """Which curves have no figure, in words; nothing where all have one."""
    flat = [curve.title for curve in found if curve.flat]
    return f"Not drawn, as all values are equal or none is there: {', '.join(flat)}." if flat else ""


def curve_files(
    cells: Sequence[NamedCell], table: pd.DataFrame, names: Names = OURS, settings: FigureSettings = SCREEN
) -> Iterator[tuple[str, bytes]]:
    """File name and content of the overview and of every curve's figure in each format; flat curves have none.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
        names: what people read in place of code names.
        settings: how figures are drawn.
    """
    found = [curve for curve in curves(cells, table, names) if not curve.flat]
    look = {names.method(name): style for name, style in method_look(list(dict.fromkeys(table["method"]))).items()}
    for task, model in dict.fromkeys(zip(table["task"], table["model"], strict=True)):
        chosen = [curve for curve in found if curve.declared.headline]
        panels = [panel for curve in chosen for panel in _of(curve, task, model).panels(told=True)]
        several = table[["task", "model"]].drop_duplicates().shape[0] > 1
        stem = f"{OVERVIEW}-{slug(task)}-{slug(model)}" if several else OVERVIEW
        if len(panels) > 1:
            banded = any(curve.points["low"].notna().any() for curve in chosen)
            heading = f"{names.place(task, model)}: the main curves{', with 95 % bands' if banded else ''}"
            text = "; ".join(curve.text.rstrip(".") for curve in chosen) + "."
            size, title = PanelSize(3.4, 1.9), shortened(heading, _TITLE)
            draw = partial(draw_panels, title, look=look, size=size, settings=settings)
            yield from page_files(stem, draw, panels, text, settings)
    stems = unique_stems(f"curve-{slug(curve.evaluation)}-{slug(curve.metric)}" for curve in found)
    for curve, stem in zip(found, stems, strict=True):
        heading = shortened(curve.title, _TITLE) + _DIRECTION[curve.declared.higher_is_better]
        panels = list(curve.panels(told=False))
        draw = partial(draw_panels, heading, look=look, settings=settings)
        yield from page_files(stem, draw, panels, curve.text, settings)


def _of(curve: Curve, task: str, model: str) -> Curve:
    points = curve.points
    chosen = points[(points["task"] == task) & (points["model"] == model)]
    return replace(curve, points=chosen)
