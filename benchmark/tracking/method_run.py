"""What the W&B run of one method holds: figures, curves against their own axes, all rows and the attributions."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from benchmark.report.cells import NamedCell
from benchmark.report.page.document import comparison_page
from benchmark.results.annotated import as_json
from benchmark.results.digests import finite
from benchmark.tracking.logged import artifact_of

_RECORD_FACTS = ("hash", "task", "model", "method", "versions", "git_commit", "cost", "dash")
_IDENTIFYING = ("name", "version", "digest", "statistics", "figures", "dash", "remark")
_FILES = {
    "rows": (
        "rows.parquet",
        "record.json",
        "config.yaml",
    ),  # a table of W&B's own takes it seconds, and ends at a limit
    "attributions": ("attributions-*.safetensors",),
}


def identity_of(cell: NamedCell) -> list[Any]:
    """What tells the mirror of a cell from another: the cell, and the figures of its tests.

    Files that other comparisons change in the same folder, words that explain, and how long anything took are no part of it.
    """
    record = cell.record
    tests = {
        name: {key: as_json(getattr(test, key)) for key in _IDENTIFYING} for name, test in record.evaluations.items()
    }
    return [record.hash, tests]


def method_config(cell: NamedCell) -> dict[str, Any]:
    """The cell's configuration and the facts of its record."""
    facts = finite(cell.record.to_json())
    return {"config": cell.stored.config, **{key: facts[key] for key in _RECORD_FACTS}}


def fill_method_run(wandb: ModuleType, run: Any, cell: NamedCell, artifacts: Sequence[str]) -> None:
    """Log everything that is known of one method."""
    define_axes(run, cell)
    for point in curve_points(cell):
        run.log(point)
    if cell.heatmaps:
        run.log({"page": wandb.Html(comparison_page([cell]), inject=False)})
    run.summary.update(summary(cell))
    named = f"{cell.method}-{cell.record.hash[:8]}"
    for kind, patterns in _FILES.items():
        files = [path for pattern in patterns for path in sorted(cell.stored.folder.glob(pattern))]
        if kind in artifacts and files:
            run.log_artifact(artifact_of(wandb, f"{kind}-{named}", kind, files))


def define_axes(run: Any, cell: NamedCell) -> None:
    """Each curve stands against its own x; intervals and axes have no panels of their own."""
    for name, test in cell.record.evaluations.items():
        for metric in dict.fromkeys(figure.metric for figure in test.figures if not figure.scalar):
            axis, key = f"curve/{name}/{test.metric(metric).x or 'x'}", f"curve/{name}/{metric}"
            run.define_metric(axis, hidden=True, summary="none")
            # without `step_sync=False` every later line of the history would get an x
            run.define_metric(key, step_metric=axis, step_sync=False, summary="none")
            for bound in ("low", "high"):
                run.define_metric(f"{key}/{bound}", step_metric=axis, step_sync=False, hidden=True, summary="none")


def summary(cell: NamedCell) -> dict[str, float | int | str]:
    """Scalar figures as `EVALUATION/METRIC`, `…/low`, `…/high`, `…/n`; the reasons of dashes as `EVALUATION/dash`."""
    entries: dict[str, float | int | str] = {}
    for name, test in cell.record.evaluations.items():
        if test.dash:
            entries[f"{name}/dash"] = test.dash
        for figure in (figure for figure in test.figures if figure.scalar):
            key = f"{name}/{figure.metric}"
            entries |= {key: figure.value, f"{key}/n": figure.n, f"{key}/low": figure.low, f"{key}/high": figure.high}
    return entries | ({"dash": cell.dash} if cell.dash else {})


def curve_points(cell: NamedCell) -> list[dict[str, float]]:
    """One mapping per evaluation and x, sorted: the x under its axis' name and every curve's value, low and high."""
    points: dict[tuple[str, str, float], dict[str, float]] = {}
    for name, test in cell.record.evaluations.items():
        for figure in (figure for figure in test.figures if not figure.scalar):
            axis = test.metric(figure.metric).x or "x"
            point = points.setdefault((name, axis, figure.x), {f"curve/{name}/{axis}": figure.x})
            key = f"curve/{name}/{figure.metric}"
            point |= {key: figure.value, f"{key}/low": figure.low, f"{key}/high": figure.high}
    return [points[key] for key in sorted(points)]
