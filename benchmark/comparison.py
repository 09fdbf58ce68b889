"""One comparison: task × model × methods × evaluations, from configuration to leaderboard.

Defined in docs/protocols.md, section 15.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from omegaconf import DictConfig

from benchmark.analyses.context import Analysis, Context, ReadsElsewhere
from benchmark.errors import NotApplicable, UserError
from benchmark.models import Classifier
from benchmark.report import load_cells, write_report
from benchmark.report.cells import NamedCell, named_cells
from benchmark.report.latex_settings import LatexSettings
from benchmark.report.run_folders import read_stored
from benchmark.results import commits, statistics, store
from benchmark.results.comparison_folders import ComparisonFolder
from benchmark.results.digests import digest, sealed
from benchmark.results.locks import beside
from benchmark.results.tables import not_applicable
from benchmark.run.cell import Cell
from benchmark.run.records import finish
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.checking import check
from benchmark.settings.configuration import compose, make
from benchmark.settings.identity import digests_of, identity
from benchmark.types import Compared, Evaluation

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """What a comparison left.

    Attributes:
        folder: with the report.
        cells: the run folders of its methods.
        loaded: what they hold of the tests that it ran; a run folder may hold others too.
    """

    folder: Path
    cells: tuple[Path, ...]
    loaded: Sequence[NamedCell] = field(compare=False, repr=False)


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
    config = compose("config", overrides)
    check(config)
    return run_comparison(config, f"benchmark.compare({', '.join(map(repr, overrides))})")


def run_comparison(config: DictConfig, command: str = "") -> Comparison:
    """Explain, test and report; finished cells are reused and an interrupted one is carried on with.

    Several processes may share an `out`, equal or not: each cell is computed by one of them, see `finish_all`. In an `out`
    that cannot be written to, what an equal comparison left there is shown.

    Args:
        config: a configuration that `benchmark.settings.configuration.check` let pass.
        command: what a person wrote to run it; kept in the comparison's folder.

    Raises:
        UserError: a mistake in the configuration or in the data; or `out` cannot be written to and has no such comparison.
    """
    out = Path(config.out)
    refusal = store.refusal(out)
    if refusal is not None and not (out / "comparisons").is_dir():
        raise refusal
    methods: dict[str, Compared] = {name: make(settings, Compared) for name, settings in config.methods.items()}
    evaluations: dict[str, Evaluation] = {name: make(part, Evaluation) for name, part in config.evaluations.items()}
    analyses: dict[str, Analysis] = {name: make(settings, Analysis) for name, settings in config.analyses.items()}
    latex = LatexSettings.read(config.get("report", {}).get("latex"))
    tracker, setting, tests = make(config.tracking), open_setting(config), digests_of(evaluations)
    _check_model(methods, setting.model)
    identified = comparison_hash(setting, methods, evaluations, analyses)
    place = ComparisonFolder(out / "comparisons", config.name, setting.data.facts.name, setting.model.name, identified)
    if refusal is not None:
        if (found := place.find()) is None or (earlier := _earlier(found, tests)) is None:
            raise refusal
        return earlier
    folder = place.make(command)
    name = folder.name
    cells = {method_name: setting.cell(method_name, method) for method_name, method in methods.items()}
    tracking = beside(out / "tracking", "tracking")
    stored = []
    for cell in finish_all(cells, evaluations):
        stored.append(read_stored(cell.folder.resolve(), tests))
        with tracking:  # W&B names what it writes by the second
            tracker.log_cell(*named_cells(stored[-1:]), name)
    loaded, folders = named_cells(stored), [cell.folder for cell in cells.values()]
    with beside(folder, f"comparison {name}"):
        commits.clean(folder)
        store.write_json(
            folder / "comparison.json", {"cells": [str(path.relative_to(out)) for path in folders], "tests": tests}
        )
        analyse(analyses, Context(setting, cells, evaluations), folder)
        write_report(loaded, folder, latex)
        with tracking:
            tracker.log_analyses(folder, name)
    return Comparison(folder, tuple(folders), loaded)


@runtime_checkable
class _ChecksModel(Protocol):
    """A method that can say, before it explains anything, that a setting does not suit a model."""

    def check_model(self, model: Classifier) -> None:
        """UserError that begins with the setting."""
        ...


def _check_model(methods: Mapping[str, Compared], model: Classifier) -> None:
    for name, method in methods.items():
        if isinstance(method, _ChecksModel):
            try:
                method.check_model(model)
            except UserError as error:
                raise UserError(f"methods.{name}.{error}") from error


def _earlier(folder: Path, tests: Mapping[str, str]) -> Comparison | None:
    """What an equal comparison left in its folder; None where it is not there in whole."""
    if not (folder / "index.html").is_file():  # the last file of a report
        return None
    out = folder.parents[1]
    cells = tuple(out / str(cell) for cell in store.read_json(folder / "comparison.json")["cells"])
    if not all(map(Path.is_dir, cells)):
        return None
    logger.info("%s cannot be written to; shown is what an equal comparison left there", out)
    return Comparison(folder, cells, load_cells(cells, tests))


def finish_all(cells: Mapping[str, Cell], evaluations: Mapping[str, Evaluation]) -> Iterator[Cell]:
    """Finish every cell, and yield it when it is; those that other processes work on are left for later.

    Only where nothing else is left to do is another process waited for.
    """
    pending = list(cells)
    while pending:
        busy: list[str] = []
        for index, name in enumerate(pending, start=1):
            if len(pending) == len(cells):
                logger.info("%s (%d of %d)", name, index, len(cells))
            if finish(cells[name], evaluations, wait=False):
                yield cells[name]
            else:
                busy.append(name)
        if len(busy) == len(pending):
            first = busy.pop(0)
            finish(cells[first], evaluations)
            yield cells[first]
        pending = busy


def analyse(analyses: Mapping[str, Analysis], context: Context, folder: Path) -> None:
    """Run the analyses of a comparison; tables are reused where they are of the same models and data.

    What is not in the comparison's name, since it lies elsewhere (`ReadsElsewhere`), is written beside the tables.
    """
    for index, (name, analysis) in enumerate(analyses.items(), start=1):
        path = folder / "analyses" / f"{name}.json"
        reads = analysis.reads(context) if isinstance(analysis, ReadsElsewhere) else {}
        if path.exists() and store.read_sealed(path)["reads"] == reads:
            continue
        logger.info("%s (analysis %d of %d)", name, index, len(analyses))
        try:
            tables = analysis(context)
        except NotApplicable as answer:
            tables = [not_applicable(name, str(answer))]
        store.write_json(path, sealed({"tables": [table.to_json() for table in tables], "reads": reads}))


def comparison_hash(
    setting: Setting,
    methods: Mapping[str, Compared],
    evaluations: Mapping[str, Evaluation],
    analyses: Mapping[str, Analysis],
) -> str:
    """Of everything that the comparison depends on: the same settings give the same folder (`ComparisonFolder`)."""
    parts = [asdict(setting.data.facts), setting.model.fingerprint, str(setting.model.dtype)]
    parts += [identity(dict(named)) for named in (methods, evaluations, analyses)]
    return digest([*parts, statistics.VERSION])[:8]
