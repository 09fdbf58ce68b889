"""Plans a comparison: one batch of each method is run, and tells what the others take."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from omegaconf import DictConfig

from benchmark import progress
from benchmark.engines.base import Engine
from benchmark.models import Classifier
from benchmark.models.embeddings import embedding_modules, observing_embeddings
from benchmark.opened import Opened, open_comparison
from benchmark.planning.forecast import forecast
from benchmark.planning.measuring import Measured, mean_batch, measured
from benchmark.planning.reporting import report_seconds
from benchmark.progress.spent import Spent
from benchmark.results import store
from benchmark.results.plans import Plan, PlannedCell, plan_path
from benchmark.run.cell import Cell
from benchmark.run.stages import PREDICTED, WITH_EDGES, Stage, Testing
from benchmark.run.steps import pending
from benchmark.settings.identity import digests_of
from benchmark.settings.making import make
from benchmark.settings.report_settings import ReportSettings
from benchmark.types import Batch, Evaluation

logger = logging.getLogger(__name__)

REUSED = "finished already"


def make_plan(config: DictConfig) -> Plan:
    """What a comparison would take; kept in `out` for its report where something is left to do.

    Args:
        config: a configuration that `benchmark.settings.checking.check` let pass.

    Raises:
        UserError: a mistake in the configuration or in the data; or `out` cannot be written to.
    """
    start = time.perf_counter()
    if (refusal := store.refusal(Path(config.out))) is not None:
        raise refusal
    look = ReportSettings.read(config.get("report"))
    make(config.tracking), make(config.engine, Engine)
    opened = open_comparison(config)
    look.check_metrics(opened.scalars)
    opening = time.perf_counter() - start
    with progress.step("timing one forward and backward pass"):
        batch = opened.setting.data.batches[mean_batch(opened.setting.data.lengths)]
        unit = seconds_of_pass(opened.setting.model, batch.select([len(batch) // 2]))
    cells = opened.cells()
    told = progress.duration(unit * opened.setting.data.facts.n)
    logger.info("one forward and backward pass over all %d examples takes %s", opened.setting.data.facts.n, told)
    left = {name: cell for name, cell in cells.items() if pending(cell, opened.evaluations)}
    examples = opened.setting.data.facts.n
    planned = {name: PlannedCell(name, note=REUSED) for name in cells}
    if not left:
        return Plan(examples, unit, opening, 0.0, 0, tuple(planned.values()), (), time.perf_counter() - start)
    logger.info("one batch of each method (%d) is run now, and kept; the plan follows", len(left))
    with TemporaryDirectory(prefix="plan-") as place:
        found, given_up = measured(left, opened.evaluations, Path(place))
        memory, report, size = high_water(found, left), 0.0, 0
        planned |= {name: PlannedCell(name, note=why) for name, why in given_up.items()}
        with progress.step("counting what is left"):
            planned |= {name: _planned(each, left[name], opened, memory[name]) for name, each in found.items()}
        if found:
            with progress.step("timing tables and figures"):
                parts = [each.cell for each in found.values()]
                report, size = report_seconds(parts, digests_of(opened.evaluations), look)
    foretold = opened.foretold(cells, spent_of(found, opened.evaluations, examples, unit))
    analyses = ", ".join(name for name, seconds in foretold.items() if seconds is None)
    lacking = [f"analyses ({analyses}), whose cost shows when they run"] if analyses else []
    lacking += [f"what the report says of {len(cells) - len(left)} finished methods"] if len(left) < len(cells) else []
    tried = max((each.cell.data.facts.n for each in found.values()), default=0)
    took = time.perf_counter() - start
    known = tuple((name, seconds) for name, seconds in foretold.items() if seconds is not None)
    plan = Plan(examples, unit, opening, report, size, tuple(planned.values()), tuple(lacking), took, tried, known)
    plan.write(plan_path(Path(config.out), opened.hash))
    return plan


def spent_of(found: Mapping[str, Measured], evaluations: Mapping[str, Evaluation], examples: int, unit: float) -> Spent:
    """Seconds of one example by each method and by each test, from the batches that were run."""
    explaining: dict[str, float] = {}
    testing: dict[str, list[float]] = {}
    for name, each in found.items():
        laps, count = each.taken.laps, each.cell.data.facts.n

        def seconds(stage: Stage, laps: Any = laps, count: int = count) -> float | None:
            return sum(lap.seconds for lap in laps[stage.name]) / count if laps.get(stage.name) else None

        if (one := seconds(PREDICTED) or seconds(WITH_EDGES)) is not None:
            explaining[name] = one
        for test, evaluation in evaluations.items():
            if (own := seconds(Testing(evaluation))) is not None:
                testing.setdefault(test, []).append(own)
    return Spent(examples, unit, explaining, {test: sum(own) / len(own) for test, own in testing.items()})


def _planned(one: Measured, cell: Cell, opened: Opened, memory: int) -> PlannedCell:
    found = forecast(one, cell, opened.evaluations)
    record = store.find_record(one.cell.folder)
    return PlannedCell(
        method=cell.name,
        forward_passes=found.passes[0],
        backward_passes=found.passes[1],
        seconds=found.seconds,
        shared_seconds=found.of_batches,
        chain_seconds=found.chain,
        shards=sum(map(len, found.stages.values())),
        memory_bytes=memory,
        disk_bytes=found.disk_bytes,
        note="" if record is None or record.dash is None else record.dash,
    )


def high_water(found: Mapping[str, Measured], cells: Mapping[str, Cell]) -> dict[str, int]:
    """The process's high-water mark when each method of the comparison is done, in bytes.

    What a method added to what was held before it grows with the tokens of the largest batch; at most so, since methods cut
    batches that would take more than the memory budget.
    """
    base, mark, marks = min((each.before for each in found.values()), default=0), 0, {}
    for name, each in found.items():
        largest, here = (max(map(sum, data.lengths)) for data in (cells[name].data, each.cell.data))
        mark = max(mark, base + round((each.peak - each.before) * max(1.0, largest / here)))
        marks[name] = mark
    return marks


def seconds_of_pass(model: Classifier, batch: Batch, rounds: int = 3) -> float:
    """Seconds of one F+B of the batch, the unit of cost: the median of several, after one that warms up.

    F+B is one plain forward and backward pass to the input embeddings, with eager attention. Nothing of ours is between the
    model and its passes; the wrapped model is left as it was.
    """
    wrapped: Any = model.model
    implementation = wrapped.config._attn_implementation
    wrapped.set_attn_implementation("eager")
    try:
        times = [_timed(model, batch) for _ in range(rounds + 1)]
    finally:
        wrapped.set_attn_implementation(implementation)
    return median(times[1:])


def _timed(model: Classifier, batch: Batch) -> float:
    _wait(model)
    start = time.perf_counter()
    embeddings: list[torch.Tensor] = []
    modules = embedding_modules(model.model, model.family, model.name)
    with torch.enable_grad(), observing_embeddings(modules, embeddings, None, wants_grad=True):
        logits = model.model(**batch.tensors).logits
        torch.autograd.grad(logits[:, 0].sum(), embeddings[0])
    _wait(model)
    return time.perf_counter() - start


def _wait(model: Classifier) -> None:
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
