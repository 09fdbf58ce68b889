"""One comparison: task × model × methods × evaluations, from configuration to leaderboard.

Defined in docs/protocols.md, section 15.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from benchmark import progress
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.engines.base import Engine
from benchmark.errors import Corrupt, Missing, NotApplicable, UserError
from benchmark.models.guard import is_ours, watched_apart
from benchmark.opened import open_comparison
from benchmark.planning.spending import followed
from benchmark.report import load_cells, write_report
from benchmark.report.cells import NamedCell, named_cells
from benchmark.report.run_folders import Stored, read_stored
from benchmark.results import commits, store
from benchmark.results.comparison_folders import Compared, ComparisonFolder
from benchmark.results.digests import digest, sealed
from benchmark.results.locks import Lock, beside, lack_of_locks
from benchmark.results.plans import plan_path
from benchmark.results.tables import Table, not_applicable
from benchmark.run.cell import STEPS, Cell, Step
from benchmark.run.steps import UnfinishedError, finish_all, pending
from benchmark.run.workbench import steps_of
from benchmark.settings.checking import check
from benchmark.settings.configuration import compose
from benchmark.settings.identity import digests_of
from benchmark.settings.making import make
from benchmark.settings.report_settings import ReportSettings
from benchmark.types import Evaluation

logger = logging.getLogger(__name__)


FORM = 2
"""How tables of analyses are stored: raised where figures come to have what they lacked, so that they are computed again."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison left.

    Attributes:
        folder: with the report.
        cells: the run folders of its methods.
        loaded: what they hold of the tests that it ran; a run folder may hold others too. There is none before `reduce`.
        step: the last that was taken.
    """

    folder: Path
    cells: tuple[Path, ...]
    loaded: Sequence[NamedCell] = field(compare=False, repr=False)
    step: Step = "reduce"


def compare(*overrides: str) -> Comparison:
    """Run the comparison that these Hydra overrides describe, as `python -m benchmark` does.

    Raises:
        UserError: a mistake in the configuration or in the data; one line that says which and what to do.

    Example:
        >>> data = ("task=text_classification", f"task.files={{test: {table}}}", "task.label_names=[bad,good]")
        >>> chosen = ("methods=[rollout,random]", "evaluations=[aopc]", "tracking=none", f"out={folder}")
        >>> comparison = benchmark.compare(*data, "model=hf", f"model.path={checkpoint}", *chosen)
        >>> sorted(set(benchmark.leaderboard(comparison.folder)["method"]))
        ['random', 'rollout']
    """
    from benchmark.progress.bar import shown

    config = compose("config", overrides)
    check(config)
    with shown():
        return run_comparison(config, f"benchmark.compare({', '.join(map(repr, overrides))})")


def run_comparison(config: DictConfig, command: str = "") -> Comparison:
    """Explain, test and report; finished cells are reused and an interrupted one is carried on with.

    Several processes may share an `out`, equal or not: each cell is computed by one of them, see `finish_all`. In an `out`
    that cannot be written to, what an equal comparison left there is shown. Where the work of a method failed time and again
    in an engine's workers, the report is of the others, without analyses, which need all of them.

    Args:
        config: a configuration that `benchmark.settings.checking.check` let pass.
        command: what a person wrote to run it; kept in the comparison's folder.

    Raises:
        UserError: a mistake in the configuration or in the data; or `out` cannot be written to and has no such comparison.
        UnfinishedError: methods were given up; raised when everything else is done.
    """
    out, start = Path(config.out), time.perf_counter()
    refusal = _refusal(out)
    look = ReportSettings.read(config.get("report"))
    tracker, engine = make(config.tracking), make(config.engine, Engine)
    opened = open_comparison(config)
    opening = time.perf_counter() - start
    setting, evaluations = opened.setting, opened.evaluations
    look.check_metrics(opened.scalars)
    look.check_names({name: [*test.metrics] for name, test in evaluations.items()})
    tests, identified = digests_of(evaluations), opened.hash
    place = ComparisonFolder(out / "comparisons", config.name, setting.data.facts.name, setting.model.name, identified)
    if refusal is not None:
        return _earlier(place.find(), tests, refusal)
    folder = place.make(command)
    cells, steps = opened.cells(), steps_of(config)
    announce(cells, evaluations, opened.analyses)
    tracking = Tracking(tracker, beside(out / "tracking", "tracking"), folder.name)
    stored: dict[str, Stored] = {}
    given_up: UnfinishedError | None = None
    with (
        engine.opened(setting.model) as setting.data.runner,
        followed(plan_path(out, identified), folder, setting.model, setting.data.runner, opening) as spending,
    ):
        try:
            for cell in finish_all(cells, evaluations):
                if steps[-1] == "reduce":
                    spending.finished(cell)
                    stored[cell.name] = read_stored(cell.folder.resolve(), tests)
                    tracking.log_cell(*named_cells([stored[cell.name]]))
        except UnfinishedError as error:
            given_up = error
            if not stored:
                raise
        if steps[-1] != "reduce":
            return Comparison(folder, tuple(cell.folder for cell in cells.values()), (), steps[-1])
        finished = [name for name in cells if name in stored]
        comparison = Comparison(
            folder, tuple(cells[name].folder for name in finished), named_cells([stored[name] for name in finished])
        )
        with beside(folder, f"comparison {folder.name}"):
            commits.clean(folder)
            Compared(tuple(str(path.relative_to(out)) for path in comparison.cells), tests).write(folder)
            if given_up is None:
                entire = {name: replace(cell, steps=STEPS) for name, cell in cells.items()}
                analyse(opened.analyses, Context(setting.entire(), entire, evaluations, folder), folder, command)
            spending.analysed()
            start = time.monotonic()
            with progress.scope("report", "tables and figures"):
                files = write_report(comparison.loaded, folder, look)
            spending.reported()
            logger.info("tables and figures: %d files in %s", len(files), progress.duration(time.monotonic() - start))
            tracking.log_comparison(folder, comparison.loaded)
    if given_up is not None:
        raise given_up
    return comparison


@dataclass(frozen=True)
class Tracking:
    """Where a comparison is mirrored; one process of an `out` at a time, since W&B names what it writes by the second.

    Attributes:
        tracker: the setting `tracking`, made.
        lock: held meanwhile.
        name: of the comparison.
    """

    tracker: Any
    lock: Lock
    name: str

    def log_cell(self, cell: NamedCell) -> None:
        """Mirror a finished cell."""
        with progress.step("tracking"), self.lock:
            self.tracker.log_cell(cell, self.name)

    def log_comparison(self, folder: Path, cells: Sequence[NamedCell]) -> None:
        """Mirror the finished comparison."""
        with progress.step("tracking"), self.lock:
            self.tracker.log_comparison(folder, cells, self.name)


def _refusal(out: Path) -> UserError | None:
    """Why nothing can be written to `out`, where equal comparisons may lie all the same; a lack of locks is said.

    Raises:
        UserError: nothing can be written, and no comparison lies there.
    """
    refusal = store.refusal(out)
    if refusal is not None and not (out / "comparisons").is_dir():
        raise refusal
    if refusal is None and (lack := lack_of_locks(out)) is not None:
        logger.warning("%s: the file system has no locks (%s); run one process at a time on it", out, lack)
    return refusal


def _earlier(folder: Path | None, tests: Mapping[str, str], refusal: UserError) -> Comparison:
    """What an equal comparison left in its folder.

    Raises:
        UserError: it is not there in whole, so that the refusal to write stands.
    """
    if folder is None or not (folder / "index.html").is_file():  # the last file of a report
        raise refusal
    out = folder.parents[1]
    cells = tuple(out / cell for cell in Compared.read(folder).cells)
    if not all(map(Path.is_dir, cells)):
        raise refusal
    logger.info("%s cannot be written to; shown is what an equal comparison left there", out)
    return Comparison(folder, cells, load_cells(cells, tests))


def announce(
    cells: Mapping[str, Cell], evaluations: Mapping[str, Evaluation], analyses: Mapping[str, Analysis]
) -> None:
    """Tell what is left to do, where somebody listens.

    An analysis and the report count as one step over the examples each.
    """
    if not progress.watched():
        return
    examples = max((cell.data.facts.n for cell in cells.values()), default=0)
    whole = all("reduce" in cell.steps for cell in cells.values())
    parts: dict[progress.Scope, Mapping[str, int]] = {
        ("cell", name): {stage.name: count for stage, count in pending(cell, evaluations).items()}
        for name, cell in cells.items()
    }
    if whole:
        parts |= {("analysis", name): {"analysis": examples} for name in analyses}
        parts["report", "tables and figures"] = {"report": examples}
    progress.emit(progress.Planned(parts))


_NOTHING = "nothing to show"


def analyse(analyses: Mapping[str, Analysis], context: Context, folder: Path, command: str = "") -> None:
    """Run the analyses of a comparison; tables are reused where they are of the same models and data.

    What is not in the comparison's name, since it lies elsewhere (`Analysis.reads`), is written beside the tables. Of an
    analysis that every comparison has (`says_nothing`) nothing is told where it has no table, unless the command names it
    or is not known.
    """
    ordered = in_order(analyses)
    for index, (name, analysis) in enumerate(ordered, start=1):
        start = time.monotonic()
        if analysis.reads_tables:
            context = replace(context, tables={other: _stored(folder, other) for other, _ in ordered[: index - 1]})
        with progress.scope("analysis", name):
            done = _analyse(analysis, name, context, _file(folder, name))
        took = f" in {progress.duration(time.monotonic() - start)}" if done == "computed" else ""
        if not done.startswith(_NOTHING) or name in command or not command:
            logger.info("%s: %s%s (analysis %d of %d)", name, done, took, index, len(analyses))


def in_order(analyses: Mapping[str, Analysis]) -> list[tuple[str, Analysis]]:
    """As they are given, but those at the end that read the tables of the others, and behind them those that read theirs."""
    return sorted(analyses.items(), key=lambda item: (item[1].reads_tables, item[1].reads_their_tables))


def _file(folder: Path, name: str) -> Path:
    return folder / "analyses" / f"{name}.json"


def _stored(folder: Path, name: str) -> list[Table]:
    """The tables that an analysis left."""
    return [Table.from_json(facts) for facts in store.read_sealed(_file(folder, name))["tables"]]


def _before(path: Path) -> Mapping[str, Any]:
    """What the analysis left, and what it had read; empty where the file is damaged or of another form.

    The analysis is then computed again.
    """
    try:
        content: Mapping[str, Any] = store.read_sealed(path)
        return content if content.get("form") == FORM else {}
    except (Corrupt, Missing) as error:
        logger.warning(
            "%s", f"{path} is computed again: {error.reason if isinstance(error, Corrupt) else 'it is gone'}"
        )
        return {}


def _analyse(analysis: Analysis, name: str, context: Context, path: Path) -> str:
    """Run an analysis, unless its tables are there; what was done."""
    reads = dict(analysis.reads(context))
    if analysis.reads_tables:
        reads |= {
            f"tables of {other}": digest([t.to_json() for t in tables]) for other, tables in context.tables.items()
        }
    if path.exists() and (before := _before(path)).get("reads") == reads:
        return str(before.get("nothing") or "reused")
    nothing = None
    model, methods = context.setting.model, [cell.method for cell in context.cells.values()]
    try:
        with (
            nullcontext() if all(map(is_ours, methods)) else watched_apart(f"a method that analyses.{name} asks", model)
        ):
            tables = analysis(context)
    except NotApplicable as answer:
        tables = [] if analysis.says_nothing else [not_applicable(name, str(answer))]
        nothing = f"{_NOTHING}, as {answer}" if analysis.says_nothing else None
    content = {"tables": [table.to_json() for table in tables], "reads": reads, "nothing": nothing, "form": FORM}
    store.write_json(path, sealed(content))
    return nothing or "computed"
