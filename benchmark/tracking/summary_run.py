"""What the W&B run of a whole comparison holds: leaderboard, bars with intervals, analyses, the page and the report."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, cast

import pandas as pd

from benchmark.report.cells import NamedCell
from benchmark.report.drawings import draw_table
from benchmark.report.figures import fixed_style
from benchmark.report.leaderboard import MetricColumn, frame, headline_columns, make_board
from benchmark.results.control_names import control_order
from benchmark.results.digests import finite
from benchmark.results.tables import KEY, Drawing, Table, line
from benchmark.results.wording import slug
from benchmark.tracking.logged import artifact_of, plain

_FIGURES = ("task", "model", "method", "evaluation", "metric", "value", "low", "high", "n", "dash")


def summary_config(cells: Sequence[NamedCell], tables: Sequence[Table], comparison: str) -> dict[str, Any]:
    """What was compared: task, model, methods with their run folders' hashes, tests with version and identity."""
    facts = finite(cells[0].record.to_json())
    tests = {
        shown: {"version": test.version, "digest": test.digest, "target": test.target}
        for cell in cells
        for shown in cell.evaluations
        if (test := cell.evaluation(shown)) is not None
    }
    return {
        "comparison": comparison,
        "task": facts["task"],
        "model": facts["model"],
        "methods": {cell.method: cell.record.hash for cell in cells},
        "tests": tests,
        "analyses": {table.name: table.title for table in tables},
    }


def fill_summary_run(
    wandb: ModuleType,
    run: Any,
    cells: Sequence[NamedCell],
    tables: Sequence[Table],
    folder: Path,
    artifacts: Sequence[str],
) -> None:
    """Log everything that is known of a comparison as a whole."""
    figures = frame(cells)
    columns = headline_columns(figures)
    run.log({"leaderboard": _table(wandb, leaderboard(figures, columns, cells))})
    run.log({"figures": _table(wandb, scalars(figures)[list(_FIGURES)])})  # curves would pass W&B's limit of rows
    with TemporaryDirectory() as place:
        for number, table in enumerate(bar_tables(figures, columns)):
            picture = draw(table, Path(place) / f"{number}.png")
            run.log({f"leaderboard bars/{table.name}": wandb.Image(str(picture), caption=table.title)})
    for table in tables:
        run.log({f"table/{table.name}": _table(wandb, table.rows.drop(columns=KEY, errors="ignore"))})
        picture = folder / f"table-{slug(table.name)}.png"
        if picture.exists():
            run.log({f"figure/{table.name}": wandb.Image(str(picture), caption=table.title)})
    if (page := folder / "index.html").is_file():
        run.log({"page": wandb.Html(page.read_text(encoding="utf-8"), inject=False)})
    run.summary.update({f"sentences/{table.name}": " ".join(table.sentences) for table in tables if table.sentences})
    if "report" in artifacts:
        files = sorted(path for path in folder.iterdir() if path.is_file())
        run.log_artifact(artifact_of(wandb, f"report-{folder.name}", "report", files))


def leaderboard(figures: pd.DataFrame, columns: Sequence[MetricColumn], cells: Sequence[NamedCell]) -> pd.DataFrame:
    """A line per method, best first and controls last, and a column of plain numbers per headline metric.

    An interval has two columns beside it. None stands for what a method could not serve.
    """
    kinds = {cell.method: "control" if control_order(cell.kind) else "method" for cell in cells}
    entries = {(row["method"], row["evaluation"], row["metric"]): row for row in scalars(figures).to_dict("records")}
    lines = []
    for method in ranked(figures, columns):
        shown: dict[str, Any] = {"method": method, "kind": kinds[method]}
        for column in columns:
            name = f"{column.evaluation}: {column.heading.title}"
            entry = entries[method, column.evaluation, column.metric]
            shown |= {name: entry["value"], f"{name} low": entry["low"], f"{name} high": entry["high"]}
        lines.append(shown)
    return pd.DataFrame(lines)


def ranked(figures: pd.DataFrame, columns: Sequence[MetricColumn]) -> list[str]:
    """The methods in the order of the leaderboard: best first, controls last."""
    return [row.labels[0] for row in make_board(figures, columns).rows]


def scalars(figures: pd.DataFrame) -> pd.DataFrame:
    """The figures that are no points of a curve."""
    return figures[figures["x"].isna()]


def bar_tables(figures: pd.DataFrame, columns: Sequence[MetricColumn]) -> Iterator[Table]:
    """One table per test, with a bar per method for each of its headline metrics, best method on top."""
    order = ranked(figures, columns)
    for evaluation in dict.fromkeys(column.evaluation for column in columns):
        titles = {column.metric: column.heading.title for column in columns if column.evaluation == evaluation}
        rows = scalars(figures)
        rows = rows[(rows["evaluation"] == evaluation) & rows["metric"].isin(list(titles)) & rows["value"].notna()]
        rows = rows.sort_values("method", key=lambda names: names.map(order.index), kind="stable")
        lines = [
            line({"method": row["method"]}, titles[str(row["metric"])], row["value"], row["low"], row["high"], row["n"])
            for row in rows.to_dict("records")
        ]
        if lines:
            title = f"{evaluation} on {rows['task'].iloc[0]} with {rows['model'].iloc[0]}: values with 95 % intervals"
            drawing = Drawing("bars", "method", tuple(titles.values()))
            yield Table(evaluation, title, ("method",), pd.DataFrame(lines), drawing=drawing)


def draw(table: Table, path: Path) -> Path:
    """The table's drawing as a PNG: W&B's own charts have no intervals, and one of ours would have to lie on its server."""
    with fixed_style():
        draw_table(table, cast(Drawing, table.drawing)).savefig(path, format="png")
    return path


def _table(wandb: ModuleType, rows: pd.DataFrame) -> Any:
    return wandb.Table(columns=list(rows.columns), data=plain(rows))
