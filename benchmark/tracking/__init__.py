"""Weights & Biases as a mirror of the run folders: it reads what the store holds and never changes a comparison."""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Annotated, Any, Literal

from benchmark.report.analysis_tables import read_tables
from benchmark.report.cells import NamedCell
from benchmark.results.digests import digest
from benchmark.settings.declared import Above, configurable
from benchmark.tracking.method_run import fill_method_run, identity_of, method_config
from benchmark.tracking.summary_run import fill_summary_run, summary_config

Artifact = Literal["rows", "attributions", "report"]

_log = logging.getLogger(__name__)
_LONGEST_NAME = 128  # letters of a run or a group
_COMPLETE = "mirror-complete"  # an empty file in the W&B run's own folder: without it the run is logged again


@configurable
class Wandb:
    """One W&B run per method, and one for the whole comparison; docs/wandb.md says what each holds.

    W&B itself keeps a copy of tables and artifacts in its data folder ($WANDB_DATA_DIR) for `wandb sync`. What the folder
    of W&B's files already mirrors is not logged again, and wandb not even imported. Any failure (no wandb, no network, no
    API key, no space) is one warning, after which nothing more is mirrored.

    Attributes:
        mode: `offline` writes files that `wandb sync` sends later; `online` sends at once; `disabled` does nothing.
        project: W&B project.
        entity: W&B account or team; None: the account's default.
        directory: where W&B's folder `wandb` is made; None: the output folder that holds the comparison.
        artifacts: what is kept with the runs in whole: the rows of all tests and the attributions of each method, and the
            files of the report.
        timeout: seconds to wait for the server, at the start and at the end of each run (online only).
    """

    mode: Literal["online", "offline", "disabled"] = "offline"
    project: str = "attention-explainer-benchmark"
    entity: str | None = None
    directory: str | None = None
    artifacts: Sequence[Artifact] = ("rows", "attributions", "report")
    timeout: Annotated[float | int, Above(0)] = 30
    _failed: Event = field(default_factory=Event, init=False, repr=False, compare=False)

    def log_cell(self, cell: NamedCell, comparison: str) -> None:
        """Mirror one finished cell as one W&B run in the group `comparison`. Never raises an Exception."""
        self._guarded(lambda: self._log_cell(cell, comparison))

    def log_comparison(self, folder: Path, cells: Sequence[NamedCell], comparison: str) -> None:
        """Mirror leaderboard, analyses and report of a finished comparison as one W&B run. Never raises an Exception.

        Args:
            folder: of the comparison, with its report.
            cells: all of it.
            comparison: its name.
        """
        self._guarded(lambda: self._log_comparison(folder, cells, comparison))

    def _guarded(self, mirror: Callable[[], None]) -> None:
        if self.mode == "disabled" or self._failed.is_set():
            return
        state = random.getstate()
        try:
            mirror()
        except Exception as error:  # whatever goes wrong in a mirror must not touch the comparison
            self._failed.set()
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            way_out = "tracking.mode=offline needs no network, tracking.mode=disabled silences this"
            _log.warning("W&B tracking stopped, the comparison goes on (%s); %s", reason[:300], way_out)
        finally:
            random.setstate(state)  # libraries draw from it for names and ids

    def _log_cell(self, cell: NamedCell, comparison: str) -> None:
        mirror = Mirror(
            identifier=run_id([comparison, identity_of(cell)]),
            directory=Path(self.directory) if self.directory else cell.stored.folder.resolve().parents[2],
            group=comparison,
            kind="method",
            name=f"{cell.method} on {cell.task} with {cell.model}",
            tags=(cell.task, cell.model, cell.method),
            config=lambda: method_config(cell),
        )
        self._run(mirror, lambda wandb, run: fill_method_run(wandb, run, cell, self.artifacts))

    def _log_comparison(self, folder: Path, cells: Sequence[NamedCell], comparison: str) -> None:
        tables = read_tables(folder)
        task, model = cells[0].task, cells[0].model
        mirror = Mirror(
            identifier=run_id(
                [comparison, [identity_of(cell) for cell in cells], [table.to_json() for table in tables]]
            ),
            directory=Path(self.directory) if self.directory else folder.resolve().parents[1],
            group=comparison,
            kind="summary",
            name=f"leaderboard of {len(cells)} methods on {task} with {model}",
            tags=(task, model, "summary"),
            config=lambda: summary_config(cells, tables, comparison),
        )
        self._run(mirror, lambda wandb, run: fill_summary_run(wandb, run, cells, tables, folder, self.artifacts))

    def _run(self, mirror: "Mirror", fill: Callable[[ModuleType, Any], None]) -> None:
        directory = mirror.directory
        folders = "run-*" if self.mode == "online" else "*run-*"  # what was sent need not be kept offline as well
        if any((directory / "wandb").glob(f"{folders}-{mirror.identifier}/{_COMPLETE}")):
            return
        import wandb  # takes half a second, and may be missing

        if self.mode == "online" and wandb.run is None and not wandb.login(prompt=False):
            raise RuntimeError("no API key: run `wandb login` or set WANDB_API_KEY")
        directory.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            dir=directory,
            id=mirror.identifier,
            name=mirror.name[:_LONGEST_NAME],
            group=mirror.group[-_LONGEST_NAME:],  # its hash stands at the end
            job_type=mirror.kind,
            tags=[name[:64] for name in mirror.tags],
            config=dict(mirror.config()),
            reinit="create_new",  # a run of the caller's own stays as it is
            settings=self._settings(wandb),
        )
        try:
            fill(wandb, run)
        except BaseException:  # an interruption too ends the run; raised again
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


@dataclass(frozen=True)
class Mirror:
    """What a W&B run is called and where it belongs; `config` is made for a run that is logged."""

    identifier: str
    directory: Path
    group: str
    kind: Literal["method", "summary"]
    name: str
    tags: tuple[str, ...]
    config: Callable[[], Mapping[str, Any]]


def run_id(parts: Sequence[Any]) -> str:
    """Identifier of a W&B run: a digest of the comparison's name and of what is mirrored."""
    return digest(parts)[:12]
