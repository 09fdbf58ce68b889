"""Bring a cell up to date: run the tests that are missing, and write the record that the report reads."""

import platform
import resource
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from omegaconf import OmegaConf

from benchmark import store
from benchmark.cache import atomic_path
from benchmark.cells import Cell, evaluation_digest
from benchmark.errors import NotApplicable
from benchmark.graphs import graphs, stored_target
from benchmark.heatmaps import export_eraser, heatmaps
from benchmark.types import Evaluation

SAME_FOR_EVERY_CLASS = "1 by construction: the method does not look at the class"


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
    store.write_json(record_path, record(cell, tested, everything))
    store.clean(cell.folder)


def test(cell: Cell, evaluation: Evaluation) -> tuple[dict[str, Any], pd.DataFrame]:
    """What the record says of one evaluation, and its rows (none where it cannot serve: then the reason is kept).

    A `remark` says what must be known of its figures; tables show it as a footnote.
    """
    start = time.perf_counter()
    facts: dict[str, Any] = {
        "class": type(evaluation).__name__,
        "settings": asdict(evaluation) if is_dataclass(evaluation) else {},
        "version": evaluation.version,
        "digest": evaluation_digest(evaluation),
        "target": evaluation.target,
        "metrics": {name: asdict(metric) for name, metric in evaluation.metrics.items()},
    }
    told = evaluation.reads == "classes" and not cell.method.class_specific
    try:
        rows = cell.test(evaluation)
        figures = [asdict(figure) for figure in evaluation.reduce(rows)]
        reason, remark = None, SAME_FOR_EVERY_CLASS if told else None
    except NotApplicable as answer:
        reason, remark = str(answer), None
        rows, figures = pd.DataFrame(columns=list(store.ROW_COLUMNS)), []
    found = {"figures": figures, "dash": reason, "remark": remark, "seconds": time.perf_counter() - start}
    return {**facts, **found}, rows


def record(cell: Cell, tested: Mapping[str, Any], rows: pd.DataFrame) -> dict[str, Any]:
    """Everything that the report needs of a finished cell."""
    model, reasons = cell.model, {facts["dash"] for facts in tested.values()}
    try:
        attributions = cell.explain("predicted")
        store.write_json(cell.folder / "heatmap.json", heatmaps(cell, attributions))
        export_eraser(cell, tested, rows)
        cost: Mapping[str, float] = attributions.cost
    except NotApplicable:
        cost = {}
    if (which := stored_target(cell)) is not None and model.streams.count == 1:  # graphs of one sequence of tokens
        store.write_json(cell.folder / "graphs.json", graphs(cell, which))
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


@cache
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
