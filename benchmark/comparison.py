"""One comparison: task × model × methods × evaluations, from configuration to leaderboard.

Defined in docs/protocols.md, section 15.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import DictConfig

from benchmark.analyses.context import Analysis, Context, ReadsElsewhere
from benchmark.errors import NotApplicable, UserError
from benchmark.report import write_report
from benchmark.results import commits, store
from benchmark.results.digests import digest, sealed
from benchmark.results.locks import beside
from benchmark.results.tables import not_applicable
from benchmark.run.cell import Cell
from benchmark.run.records import finish, statistics_version
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.configuration import check, compose, make
from benchmark.settings.identity import digests_of, identity
from benchmark.types import Compared, Evaluation

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """What a comparison left.

    Attributes:
        folder: with the report.
        cells: the run folders of its methods.
        evaluations: name and identity of the tests that it ran; a run folder may hold others too.
    """

    folder: Path
    cells: tuple[Path, ...]
    evaluations: Mapping[str, str] = field(default_factory=dict)


def compare(*overrides: str) -> Comparison:
    """Run the comparison that these Hydra overrides describe, as `python -m benchmark` does.

    Raises:
        UserError: a mistake in the configuration or in the data; one line that says which and what to do.
    """
    return run_comparison(compose("config", overrides))


def run_comparison(config: DictConfig) -> Comparison:
    """Explain, test and report; finished cells are reused and an interrupted one is carried on with.

    Several processes may share an `out`, equal or not: each cell is computed by one of them, see `finish_all`.
    """
    check(config)
    out = Path(config.out)
    try:
        store.require_writable(out)
    except UserError:
        if (shown := _finished(config)) is None:
            raise
        return shown
    methods: dict[str, Compared] = {name: make(config.methods[name]) for name in config.methods}
    evaluations: dict[str, Evaluation] = {name: make(config.evaluations[name]) for name in config.evaluations}
    tracker = make(config.tracking)
    setting = open_setting(config)
    name = comparison_name(setting, methods, evaluations)
    tests = digests_of(evaluations)
    cells = {method_name: setting.cell(method_name, method) for method_name, method in methods.items()}
    tracking = beside(out / "tracking", "tracking")
    for cell in finish_all(cells, evaluations):
        with tracking:  # W&B names what it writes by the second
            tracker.log_cell(cell.folder, name, tests)
    folder = out / "comparisons" / name
    folders = [cell.folder for cell in cells.values()]
    with beside(folder, f"comparison {name}"):
        commits.clean(folder)
        store.write_json(folder / "comparison.json", {"cells": [str(path.relative_to(out)) for path in folders]})
        analyse(config, setting, cells, folder)
        write_report(folders, folder, tests)
        with tracking:
            tracker.log_analyses(folder, name)
    return Comparison(folder, tuple(folders), tests)


def _finished(config: DictConfig) -> Comparison | None:
    """What an equal comparison left in an `out` that cannot be written to; None where it is not there in whole."""
    out = Path(config.out)
    if not (out / "comparisons").is_dir():
        return None
    methods: dict[str, Compared] = {name: make(config.methods[name]) for name in config.methods}
    evaluations: dict[str, Evaluation] = {name: make(config.evaluations[name]) for name in config.evaluations}
    folder = out / "comparisons" / comparison_name(open_setting(config), methods, evaluations)
    if not (folder / "index.html").is_file():  # the last file of a report
        return None
    cells = tuple(out / str(cell) for cell in store.read_json(folder / "comparison.json")["cells"])
    logger.info("%s cannot be written to; shown is what an equal comparison left there", out)
    tests = digests_of(evaluations)
    return Comparison(folder, cells, tests) if all(map(Path.is_dir, cells)) else None


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


def analyse(config: DictConfig, setting: Setting, cells: Mapping[str, Cell], folder: Path) -> None:
    """Run the analyses of a comparison; tables are reused where they are of the same models and data.

    What is not in the comparison's name, since it lies elsewhere (`ReadsElsewhere`), is written beside the tables.
    """
    for index, name in enumerate(config.analyses, start=1):
        path = folder / "analyses" / f"{name}.json"
        analysis: Analysis = make(config.analyses[name])
        context = Context(setting, cells)
        reads = analysis.reads(context) if isinstance(analysis, ReadsElsewhere) else {}
        if path.exists() and store.read_sealed(path)["reads"] == reads:
            continue
        logger.info("%s (analysis %d of %d)", name, index, len(config.analyses))
        try:
            tables = analysis(context)
        except NotApplicable as answer:
            tables = [not_applicable(name, str(answer))]
        store.write_json(path, sealed({"tables": [table.to_json() for table in tables], "reads": reads}))


def comparison_name(setting: Setting, methods: Mapping[str, Compared], evaluations: Mapping[str, Evaluation]) -> str:
    """`<name>-<hash>`: the same settings give the same folder."""
    config = setting.config
    parts = [
        setting.data.facts,
        setting.model.fingerprint,
        str(setting.model.dtype),
        {name: identity(method) for name, method in methods.items()},
        {name: identity(evaluation) for name, evaluation in evaluations.items()},
        {name: identity(make(config.analyses[name])) for name in config.analyses},
        statistics_version(),
    ]
    return f"{config.name}-{digest(parts)[:8]}"
