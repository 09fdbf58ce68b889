"""One figure per curve metric: a panel per task and model, a line with a 95 % band per method."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from benchmark.report.cells import NamedCell, control_order
from benchmark.report.figures import Panel, draw_panels, figure_files, styles
from benchmark.report.labels import natural
from benchmark.report.leaderboard import known_metrics
from benchmark.results.wording import shortened, slug, span, unique_stems

_TITLE = 100
_DIRECTION = {True: " (higher is better)", False: " (lower is better)", None: ""}


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

    @property
    def heading(self) -> str:
        """What is drawn, and which direction is better."""
        name = shortened(f"{self.evaluation}: {self.metric.replace('_', ' ')}", _TITLE)
        return name + _DIRECTION[self.higher_is_better]

    def panels(self, table: pd.DataFrame) -> list[Panel]:
        """A panel per task and model; `table` are the leaderboard's rows of the metric."""
        return [
            Panel(
                part.rename(columns={"method": "series"}),
                f"{shortened(f'{task} · {model}', _TITLE // 2)} (n = {span(int(n) for n in part['n'])})",
                self.x,
                self.metric,
            )
            for (task, model), part in table.groupby(["task", "model"], sort=False)
        ]


def curves(cells: Sequence[NamedCell]) -> list[Curve]:
    """The curve metrics that some cell declares."""
    found = {
        (shown, name): Curve(shown, name, str(metric["x"]), metric.get("higher_is_better"))
        for shown, metrics in known_metrics(cells).items()
        for name, metric in metrics.items()
        if metric.get("x") is not None
    }
    return [found[key] for key in sorted(found)]


def curve_files(cells: Sequence[NamedCell], table: pd.DataFrame) -> Iterator[tuple[str, bytes]]:
    """File name and content of every curve figure, as PNG and as PDF.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
    """
    look = styles(sorted(dict.fromkeys(table["method"]), key=_legend_place))
    points = table[table["x"].notna()]
    parts = {
        curve: points[(points["evaluation"] == curve.evaluation) & (points["metric"] == curve.metric)]
        for curve in curves(cells)
    }
    drawn = {curve: part for curve, part in parts.items() if len(part)}
    for (curve, part), stem in zip(drawn.items(), unique_stems(curve.stem for curve in drawn), strict=True):
        yield from figure_files(stem, partial(draw_panels, curve.heading, curve.panels(part), look))


def _legend_place(method: str) -> tuple[int, tuple[tuple[int, float, str], ...]]:
    return (control_order(method.split(" (", 1)[0]), natural(method))
