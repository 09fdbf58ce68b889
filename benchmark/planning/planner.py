"""Plans a comparison: a pilot on a few examples, and from it what each method takes."""

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
from benchmark.planning.disk import run_folder_bytes
from benchmark.planning.forecast import Forecaster
from benchmark.planning.memory_peaks import high_water
from benchmark.planning.pilot import Pilot
from benchmark.planning.reporting import report_seconds
from benchmark.planning.sampling import FEW, typical
from benchmark.results import store
from benchmark.results.plans import Plan, PlannedCell, plan_path
from benchmark.run.cell import Cell
from benchmark.run.steps import pending
from benchmark.settings.identity import digests_of
from benchmark.settings.latex_settings import LatexSettings
from benchmark.settings.making import make
from benchmark.types import Batch

LEAST_SECONDS = 20.0
"""What the rounds of a pilot may take, however small the comparison; the smallest ones may take longer."""

SHARE = 0.1
"""Of the comparison, what they may take where that is more."""

_MOST_BATCHES = 4
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
    latex = LatexSettings.read(config.get("report", {}).get("latex"))
    make(config.tracking), make(config.engine, Engine)
    opened = open_comparison(config)
    opening = time.perf_counter() - start
    with progress.step("timing one forward and backward pass"):
        (batch,) = typical(opened.setting.data, 1).batches
        unit = seconds_of_pass(opened.setting.model, batch)
    cells = opened.cells()
    left = {name: cell for name, cell in cells.items() if pending(cell, opened.evaluations)}
    examples = opened.setting.data.facts.n
    if not left:
        reused = tuple(PlannedCell(name, note=REUSED) for name in cells)
        return Plan(examples, unit, opening, 0.0, 0, reused, (), time.perf_counter() - start)
    with TemporaryDirectory(prefix="plan-") as place:
        pilot = _piloted(left, opened, Path(place), config.batch_size)
        forecaster = Forecaster(pilot, opened.evaluations)
        memory = high_water(pilot)
        planned = tuple(
            _planned(pilot, forecaster, cell, memory[name]) if name in left else PlannedCell(name, note=REUSED)
            for name, cell in cells.items()
        )
        with progress.step("timing tables and figures"):
            report, size = report_seconds(pilot, digests_of(opened.evaluations), latex, examples)
    analyses = ", ".join(opened.analyses)
    lacking = [f"analyses ({analyses}), whose cost shows when they run"] if analyses else []
    lacking += [f"what the report says of {len(cells) - len(left)} finished methods"] if len(left) < len(cells) else []
    piloted = sum(each.data.facts.n for each in pilot.rounds)
    took = time.perf_counter() - start
    plan = Plan(examples, unit, opening, report, size, planned, tuple(lacking), took, piloted)
    plan.write(plan_path(Path(config.out), opened.hash))
    return plan


def _piloted(cells: Mapping[str, Cell], opened: Opened, place: Path, batch_size: int) -> Pilot:
    """A pilot of as many examples as the time allows, and in its second round twice `FEW` at least."""
    pilot, start, worked = Pilot(cells, opened.evaluations, place), time.perf_counter(), time.process_time()
    pilot.begin()
    elapsed = time.perf_counter() - start
    on_cpu = opened.setting.model.device.type == "cpu"
    own = min(1.0, (time.process_time() - worked) / elapsed) if on_cpu else 1.0  # the rest went to other processes
    first, data = pilot.rounds[0], opened.setting.data
    laps = sum(lap.seconds for taken in first.taken.values() for laps in taken.laps.values() for lap in laps)
    around = sum(taken.around for taken in first.taken.values())
    tokens = sum(batch.units.numel() for batch in first.data.batches)
    whole = around + laps * sum(batch.units.numel() for batch in data.batches) / tokens
    allowed = max(LEAST_SECONDS / own, SHARE * whole) - elapsed

    def cost(size: int, growing: float) -> float:
        """Seconds of a batch of so many examples, of which a share is taken to grow with its tokens."""
        times = max(1.0, sum(batch.units.numel() for batch in typical(data, size).batches) / tokens)
        return laps * (1 - growing + growing * times)

    sizes = [size for size in (batch_size, batch_size // 2) if size > 2 * FEW]  # below that it is twice `FEW`
    size = next((size for size in sizes if around + cost(size, 1 / 3) <= allowed), min(batch_size, 2 * FEW))
    count = int((allowed - around) / cost(size, 1)) if size == batch_size and laps else 1
    pilot.go_on(size, min(max(1, count), _MOST_BATCHES))
    return pilot


def _planned(pilot: Pilot, forecaster: Forecaster, cell: Cell, memory: int) -> PlannedCell:
    forecast = forecaster(cell)
    forward, backward = forecast.passes
    record = store.find_record(pilot.rounds[-1].cells[pilot.like[cell.name]].folder)
    return PlannedCell(
        method=cell.name,
        forward_passes=forward,
        backward_passes=backward,
        seconds=forecast.seconds,
        shared_seconds=forecast.of_batches,
        chain_seconds=forecast.chain,
        shards=sum(len(stage.seconds) for stage in forecast.stages.values()),
        memory_bytes=memory,
        disk_bytes=run_folder_bytes(pilot, cell),
        note="" if record is None or record.dash is None else record.dash,
    )


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
