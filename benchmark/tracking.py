"""Weights & Biases as a mirror of the run folders: it reads what the store holds and never changes a comparison."""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, get_args

import pandas as pd

from benchmark.errors import UserError
from benchmark.report.analysis_tables import read_tables
from benchmark.report.cells import NamedCell
from benchmark.report.heatmaps import heatmap_page
from benchmark.results.digests import digest, finite
from benchmark.results.tables import Table
from benchmark.results.wording import slug
from benchmark.settings.declared import Above, Natural

Mode = Literal["online", "offline", "disabled"]

_log = logging.getLogger(__name__)
_RECORD_FACTS = ("hash", "task", "model", "method", "versions", "git_commit", "cost", "dash")
_COMPLETE = "mirror-complete"  # an empty file in the W&B run's own folder: without it the run is logged again


class Wandb:
    """One W&B run per cell: config, figures, curves, a table of rows and token heatmaps; and one run for all analyses.

    - config: `config` (the cell's config.yaml) and the facts of record.json, cost and git commit included.
    - summary: `EVALUATION/METRIC` with `/low`, `/high`, `/n` for scalars; `EVALUATION/dash` is the reason where the
      method could not serve; `rows/logged` and `rows/total` tell whether the table of rows was cut.
    - history: `curve/EVALUATION/METRIC` with `/low`, `/high`, against `curve/EVALUATION/X` (one history step per x);
      the table `rows` (evaluation, metric, uid, x, value) and the page `heatmaps`.

    W&B itself keeps a copy of every table in its data folder ($WANDB_DATA_DIR) for `wandb sync`. A cell that the folder
    of W&B's files already mirrors is not logged again. Any failure (no wandb, no network, no API key, no space) is one
    warning, after which nothing more is mirrored.

    Args:
        mode: `offline` writes files that `wandb sync` sends later; `online` sends at once; `disabled` does nothing.
        project: W&B project.
        entity: W&B account or team; None: the account's default.
        directory: where W&B's folder `wandb` is made; None: the output folder that holds the cell.
        max_rows: rows in the table of a run, the first ones of the cell's rows.
        timeout: seconds to wait for the server, at the start and at the end of each run (online only).

    Raises:
        UserError: a setting has a value that is not allowed.
    """

    def __init__(
        self,
        mode: Mode = "offline",
        project: str = "attention-explainer-benchmark",
        entity: str | None = None,
        directory: str | None = None,
        max_rows: Natural = 10_000,
        timeout: Annotated[float | int, Above(0)] = 30,
    ) -> None:
        if mode not in get_args(Mode):
            raise UserError(f"tracking.mode: found {mode!r}, allowed: {', '.join(get_args(Mode))}")
        if max_rows < 0:
            raise UserError(f"tracking.max_rows: found {max_rows}, allowed: 0 or more")
        if timeout <= 0:
            raise UserError(f"tracking.timeout: found {timeout}, allowed: more than 0 seconds")
        self.mode, self.project, self.entity, self.directory = mode, project, entity, directory
        self.max_rows, self.timeout = max_rows, timeout
        self._failed = False
        self._told_of_cut = False

    def log_cell(self, cell: NamedCell, comparison: str) -> None:
        """Mirror one finished cell as one W&B run in the group `comparison`. Never raises an Exception."""
        self._guarded(lambda: self._log_cell(cell, comparison))

    def log_analyses(self, folder: Path, comparison: str) -> None:
        """Mirror the tables and figures of a comparison's analyses as one W&B run. Never raises an Exception."""
        self._guarded(lambda: self._log_analyses(folder, comparison))

    def _guarded(self, mirror: Callable[[], None]) -> None:
        if self.mode == "disabled" or self._failed:
            return
        state = random.getstate()
        try:
            mirror()
        except Exception as error:  # whatever goes wrong in a mirror must not touch the comparison
            self._failed = True
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            way_out = "tracking.mode=offline needs no network, tracking.mode=disabled silences this"
            _log.warning("W&B tracking stopped, the comparison goes on (%s); %s", reason[:300], way_out)
        finally:
            random.setstate(state)  # libraries draw from it for names and ids

    def _log_cell(self, cell: NamedCell, comparison: str) -> None:
        mirror = Mirror(
            identifier=run_id([comparison, cell.record.to_json()]),
            directory=Path(self.directory) if self.directory else cell.stored.folder.resolve().parents[2],
            group=comparison,
            name=f"{cell.method}-{cell.record.hash[:8]}",
            tags=(cell.task, cell.model, cell.method),
            config=run_config(cell),
        )
        self._run(mirror, lambda wandb, run: self._fill(wandb, run, cell))

    def _log_analyses(self, folder: Path, comparison: str) -> None:
        tables = read_tables(folder)
        if not tables:
            return
        mirror = Mirror(
            identifier=run_id([comparison, [table.to_json() for table in tables]]),
            directory=Path(self.directory) if self.directory else folder.resolve().parents[1],
            group=comparison,
            name="analyses",
            tags=("analyses",),
            config={"titles": {table.name: table.title for table in tables}},
        )
        self._run(mirror, lambda wandb, run: fill_with_tables(wandb, run, tables, folder))

    def _run(self, mirror: "Mirror", fill: Callable[[ModuleType, Any], None]) -> None:
        import wandb  # takes half a second, and may be missing

        directory = mirror.directory
        folders = "run-*" if self.mode == "online" else "*run-*"  # what was sent need not be kept offline as well
        if any((directory / "wandb").glob(f"{folders}-{mirror.identifier}/{_COMPLETE}")):
            return
        if self.mode == "online" and wandb.run is None and not wandb.login(prompt=False):
            raise RuntimeError("no API key: run `wandb login` or set WANDB_API_KEY")
        directory.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            dir=directory,
            id=mirror.identifier,
            name=mirror.name,
            group=mirror.group,
            tags=[name[:64] for name in mirror.tags],
            config=dict(mirror.config),
            reinit="create_new",  # a run of the caller's own stays as it is
            settings=self._settings(wandb),
        )
        try:
            fill(wandb, run)
        except BaseException:
            run.finish(exit_code=1)
            raise
        run.finish()
        (Path(run.dir).parent / _COMPLETE).touch()

    def _settings(self, wandb: ModuleType) -> Any:
        """Nothing printed, no system metrics, no code or environment captured: a run costs well under a second."""
        return wandb.Settings(
            mode=self.mode,
            silent=True,
            console="off",
            disable_git=True,
            disable_code=True,
            save_code=False,
            use_dot_wandb=False,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            init_timeout=self.timeout,
            login_timeout=self.timeout,
            finish_timeout=self.timeout,
        )

    def _fill(self, wandb: ModuleType, run: Any, cell: NamedCell) -> None:
        run.define_metric("curve/*", summary="none")
        for point in curve_points(cell):
            run.log(point)
        table = rows_table(cell, self.max_rows)
        total = len(_rows(cell))
        if total > len(table) and not self._told_of_cut:
            self._told_of_cut = True
            cut = "W&B tables hold the first %d rows of each method (here of %d); see tracking.max_rows"
            _log.info(cut, len(table), total)
        run.log({"rows": wandb.Table(columns=list(table.columns), data=_plain(table))})
        if cell.heatmaps:
            run.log({"heatmaps": wandb.Html(heatmap_page([cell]), inject=False)})
        run.summary.update({**summary(cell), "rows/logged": len(table), "rows/total": total})


@dataclass(frozen=True)
class Mirror:
    """What a W&B run is called and where it belongs."""

    identifier: str
    directory: Path
    group: str
    name: str
    tags: tuple[str, ...]
    config: Mapping[str, Any]


def fill_with_tables(wandb: ModuleType, run: Any, tables: Sequence[Table], folder: Path) -> None:
    """The tables as `table/NAME`, what they mean as `sentences/NAME` in the summary, and their pictures as `figure/NAME`."""
    for table in tables:
        run.log({f"table/{table.name}": wandb.Table(columns=list(table.rows.columns), data=_plain(table.rows))})
        picture = folder / f"table-{slug(table.name)}.png"
        if picture.exists():
            run.log({f"figure/{table.name}": wandb.Image(str(picture))})
    run.summary.update({f"sentences/{table.name}": " ".join(table.sentences) for table in tables if table.sentences})


def run_id(parts: Sequence[Any]) -> str:
    """Identifier of a W&B run: a digest of the comparison's name and of what is mirrored."""
    return digest(parts)[:12]


def run_config(cell: NamedCell) -> dict[str, Any]:
    """The cell's configuration and the facts of its record."""
    facts = finite(cell.record.to_json())
    return {"config": cell.stored.config, **{key: facts[key] for key in _RECORD_FACTS}}


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


def _rows(cell: NamedCell) -> pd.DataFrame:
    """All rows; none for a method that could not serve."""
    columns = ["evaluation", "metric", "uid", "x", "value"]
    return pd.DataFrame(columns=columns) if cell.dash else cell.rows[columns]


def rows_table(cell: NamedCell, limit: int) -> pd.DataFrame:
    """The first `limit` of the cell's rows: evaluation, metric, uid, x, value."""
    return _rows(cell).head(limit)


def _plain(table: pd.DataFrame) -> list[list[Any]]:
    """The rows as Python lists, None for NaN (W&B's tables know no NaN x)."""
    columns = [[None if value != value else value for value in table[name].tolist()] for name in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]
