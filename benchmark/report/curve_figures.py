"""One figure per curve metric: a panel per task and model, a line with a 95 % band per method."""

from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd

from benchmark.report.arrangement import control_place
from benchmark.report.cells import NamedCell
from benchmark.report.figures import Panel, draw_panels, figure_files, styles
from benchmark.report.labels import natural
from benchmark.report.leaderboard import known_metrics
from benchmark.results.wording import shortened, slug, span, unique_stems

_TITLE = 100
_DIRECTION = {True: " (higher is better)", False: " (lower is better)", None: ""}


def _panels(points: pd.DataFrame, x: str, y: str) -> Iterator[Panel]:
    """A panel per task and model."""
    for (task, model), part in points.groupby(["task", "model"], sort=False):
        title = f"{shortened(f'{task} · {model}', _TITLE // 2)} (n = {span(int(n) for n in part['n'])})"
        yield Panel(part.rename(columns={"method": "series"}), title, x, y)


def curve_files(cells: Sequence[NamedCell], table: pd.DataFrame) -> Iterator[tuple[str, bytes]]:
    """File name and content of every curve figure, as PNG and as PDF.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`).
    """
    look = styles(sorted(dict.fromkeys(table["method"]), key=lambda method: (control_place(method), natural(method))))
    metrics = known_metrics(cells)
    parts = table[table["x"].notna()].groupby(["evaluation", "metric"])
    curves = {(str(key[0]), str(key[1])): part for key, part in parts}
    stems = unique_stems(f"curve-{slug(evaluation)}-{slug(metric)}" for evaluation, metric in curves)
    for ((evaluation, metric), points), stem in zip(curves.items(), stems, strict=True):
        declared = metrics[evaluation][metric]
        heading = shortened(f"{evaluation}: {metric.replace('_', ' ')}", _TITLE)
        heading += _DIRECTION[declared.higher_is_better]
        panels = list(_panels(points, str(declared.x), metric))
        yield from figure_files(stem, partial(draw_panels, heading, panels, look))
