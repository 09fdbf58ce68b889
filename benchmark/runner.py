"""One comparison: task × model × methods × evaluations, from configuration to leaderboard (DESIGN, "Run folder")."""

import logging
import platform
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import DictConfig, OmegaConf

from benchmark import store
from benchmark.cache import atomic_path
from benchmark.cells import Cell, Data, evaluation_digest, versions
from benchmark.configuration import check, compose, make
from benchmark.errors import NotApplicable, UserError
from benchmark.heatmaps import export_eraser, heatmaps
from benchmark.models import Classifier, load_model
from benchmark.report import write_report
from benchmark.types import Batch, Evaluation, Example, Method, Task

logger = logging.getLogger(__name__)

CONTROL_SAMPLE = 2000
"""How many training examples a method with a `fit` sees."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison left: its folder with the report, and the run folders of its methods."""

    folder: Path
    cells: tuple[Path, ...]


def compare(*overrides: str) -> Comparison:
    """Run the comparison that these Hydra overrides describe, as `python -m benchmark` does.

    Raises:
        UserError: a mistake in the configuration or in the data; one line that says which and what to do.
    """
    return run_comparison(compose("config", overrides))


def run_comparison(config: DictConfig) -> Comparison:
    """Explain, test and report; finished cells are reused and an interrupted one is carried on with."""
    check(config)
    out = Path(config.out)
    store.require_writable(out)
    methods: dict[str, Method] = {name: make(config.methods[name]) for name in config.methods}
    evaluations: dict[str, Evaluation] = {name: make(config.evaluations[name]) for name in config.evaluations}
    tracker = make(config.tracking)
    task: Task = make(config.task)
    examples = sample(task.split(config.split), config.limit, config.seed)
    source = make(config.model)
    if source.threads is not None:
        torch.set_num_threads(source.threads)
    model = load_model(source.resolve(task), dtype=source.dtype, device=source.device)
    data = encode(config, task, model, examples)
    name = comparison_name(config, data, model, methods, evaluations)
    cells = []
    for index, (method_name, method) in enumerate(methods.items(), start=1):
        logger.info("%s (%d of %d)", method_name, index, len(methods))
        fitted = method.fit(training_sample(task)) if hasattr(method, "fit") else method
        cell = make_cell(config, out, task, model, data, method_name, fitted)
        finish(cell, evaluations)
        tracker.log_cell(cell.folder, name)
        cells.append(cell.folder)
    folder = out / "comparisons" / name
    store.write_json(folder / "comparison.json", {"cells": [str(path.relative_to(out)) for path in cells]})
    write_report(cells, folder)
    return Comparison(folder, tuple(cells))


def sample(examples: Sequence[Example], limit: int | None, seed: int) -> list[Example]:
    """`limit` examples drawn without replacement by the seed, in the order of the data set; all without a limit."""
    if limit is None or limit >= len(examples):
        return list(examples)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(examples))[:limit])
    return [examples[int(index)] for index in chosen]


def training_sample(task: Task) -> Sequence[Example]:
    """What a method with a `fit` sees: the first examples of the training split."""
    return task.split("train")[:CONTROL_SAMPLE]


def encode(config: DictConfig, task: Task, model: Classifier, examples: Sequence[Example]) -> Data:
    """Encode the scored examples in batches of similar length, and say how much lies beyond the model's window."""
    label_map = model.label_map(task.labels)

    def batches(chosen: Sequence[Example]) -> list[Batch]:
        ordered = sorted(chosen, key=_length)
        size = config.batch_size
        return [model.encode_examples(ordered[i : i + size], label_map) for i in range(0, len(ordered), size)]

    def calibration(split: str, count: int) -> list[Batch]:
        scored = {example.uid for example in examples}
        chosen = [example for example in task.split(split) if example.uid not in scored][:count]
        if not chosen:
            raise UserError(f"calibration.split={split} has no example that is not scored; use another split or `same`")
        if (split, count) not in kept:
            kept[split, count] = batches(chosen)
        return kept[split, count]

    kept: dict[tuple[str, int], list[Batch]] = {}
    scored = batches(examples)
    total = sum(int(batch.n_units.sum()) for batch in scored)
    if lost := sum(int(batch.lost_units.sum()) for batch in scored):
        logger.warning(
            "%d of %d words (%.1f %%) lie beyond the window of %d tokens", lost, total, 100 * lost / total, model.window
        )
    facts = {
        "name": task.name,
        "version": task.version,
        "split": config.split,
        "limit": config.limit,
        "seed": config.seed,
        "n": len(examples),
        "fingerprint": task.fingerprint,
        "units": total,
        "lost_units": lost,
    }
    return Data(batches=scored, calibration=calibration, facts=facts, labels=tuple(task.labels))


def _length(example: Example) -> tuple[int, str]:
    parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
    return sum(len(part) for part in parts if isinstance(part, str | Sequence)), example.uid


def make_cell(
    config: DictConfig, out: Path, task: Task, model: Classifier, data: Data, name: str, method: Method
) -> Cell:
    """The cell of one method: its run folder's name ends in the hash of what the attributions depend on."""
    settings = OmegaConf.to_container(config.methods[name], resolve=True)
    identity = {
        "task": {k: v for k, v in data.facts.items() if k not in ("units", "lost_units")},
        "model": model.fingerprint,
        "dtype": str(model.dtype),
        "method": settings,
        "versions": versions(method),
    }
    key = store.digest(identity)
    folder = out / task.name / model.name / f"{name}-{key[:8]}"
    described = {
        "task": OmegaConf.to_container(config.task, resolve=True),
        "model": OmegaConf.to_container(config.model, resolve=True),
        "method": settings,
        "split": config.split,
        "limit": config.limit,
        "seed": config.seed,
    }
    return Cell(
        folder=folder,
        name=name,
        method=method,
        model=model,
        data=data,
        identity={**identity, "hash": key},
        config=described,
        checkpoint_seconds=float(config.checkpoint_seconds),
    )


def finish(cell: Cell, evaluations: Mapping[str, Evaluation]) -> None:
    """Bring a cell up to date: tests whose figures are stored are reused, the others are run; the record comes last."""
    record_path = cell.folder / "record.json"
    old = store.read_record(cell.folder) if record_path.exists() else {}
    tested: dict[str, Any] = dict(old.get("evaluations", {}))
    stale = {name: e for name, e in evaluations.items() if tested.get(name, {}).get("digest") != evaluation_digest(e)}
    kept = [store.read_rows(cell.folder)] if old else []  # also where nothing is to be done: a reused cell is whole
    if old and not stale:
        store.clean(cell.folder)
        return
    rows = [table[~table.evaluation.isin(list(stale))] for table in kept]
    for name, evaluation in stale.items():
        tested[name], table = test(cell, evaluation)
        rows.append(table.assign(evaluation=name))
    columns = list(store.ROW_COLUMNS)
    everything = pd.concat([table[columns] for table in rows if len(table)] or [pd.DataFrame(columns=columns)])
    with atomic_path(cell.folder / "config.yaml") as path:
        path.write_text(OmegaConf.to_yaml(OmegaConf.create(dict(cell.config))), encoding="utf-8")
    store.write_table(cell.folder / "rows.parquet", everything.astype({"x": float, "value": float}))
    store.write_json(record_path, record(cell, tested))
    store.clean(cell.folder)


def test(cell: Cell, evaluation: Evaluation) -> tuple[dict[str, Any], pd.DataFrame]:
    """What the record says of one evaluation, and its rows (none where it cannot serve: then the reason is kept)."""
    start = time.perf_counter()
    facts: dict[str, Any] = {
        "version": evaluation.version,
        "digest": evaluation_digest(evaluation),
        "target": evaluation.target,
        "metrics": {name: asdict(metric) for name, metric in evaluation.metrics.items()},
    }
    try:
        rows = cell.test(evaluation)
        figures = [asdict(figure) for figure in evaluation.reduce(rows)]
        reason = None
    except NotApplicable as answer:
        rows, figures, reason = pd.DataFrame(columns=list(store.ROW_COLUMNS)), [], str(answer)
    return {**facts, "figures": figures, "dash": reason, "seconds": time.perf_counter() - start}, rows


def record(cell: Cell, tested: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the report needs of a finished cell."""
    model, reasons = cell.model, {facts["dash"] for facts in tested.values()}
    try:
        attributions = cell.explain("predicted")
        store.write_json(cell.folder / "heatmap.json", heatmaps(cell, attributions))
        export_eraser(cell, attributions)
        cost: Mapping[str, float] = attributions.cost
    except NotApplicable:
        cost = {}
    return {
        "schema": store.SCHEMA,
        "hash": cell.identity["hash"],
        "task": dict(cell.data.facts),
        "model": {
            "name": model.name,
            "fingerprint": model.fingerprint,
            "dtype": str(model.dtype).removeprefix("torch."),
            "n_layers": model.n_layers,
            "n_heads": model.n_heads,
            "labels": list(model.labels),
        },
        "method": {
            "name": cell.name,
            "versions": cell.identity["versions"],
            "version": cell.method.version,
            "class_specific": cell.method.class_specific,
        },
        "versions": {name: version(name) for name in ("torch", "transformers", "numpy")}
        | {"python": platform.python_version(), "benchmark": version("attention-explainer-benchmark")},
        "git_commit": git_commit(),
        "dash": next(iter(reasons)) if len(reasons) == 1 else None,
        "cost": {**cost, "peak_memory_bytes": peak_memory()},
        "evaluations": dict(tested),
    }


def peak_memory() -> int:
    """Bytes: the most that the GPU's allocator held, or, without a GPU, the process's high-water mark so far."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def git_commit() -> str | None:
    """The commit that the code is at, with "-dirty" where files differ; None outside a repository."""
    here = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=here, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return commit.stdout.strip() or None


def comparison_name(
    config: DictConfig,
    data: Data,
    model: Classifier,
    methods: Mapping[str, Method],
    evaluations: Mapping[str, Evaluation],
) -> str:
    """`<name>-<hash>`: the same settings give the same folder."""
    parts = [
        data.facts,
        model.fingerprint,
        str(model.dtype),
        {name: [OmegaConf.to_container(config.methods[name]), versions(method)] for name, method in methods.items()},
        {name: evaluation_digest(evaluation) for name, evaluation in evaluations.items()},
    ]
    return f"{config.name}-{store.digest(parts)[:8]}"
