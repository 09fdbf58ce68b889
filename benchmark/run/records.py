"""Bring a cell up to date: run the tests that are missing, and write the record that the report reads."""

import logging
import platform
import re
import resource
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from omegaconf import OmegaConf

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.base import Averaged
from benchmark.results import commits, statistics, store
from benchmark.results.checks import NO_ROWS, TYPES, check_figures, rows_digest
from benchmark.results.digests import table_bytes
from benchmark.run.cell import Cell
from benchmark.run.graph_views import graphs, stored_target
from benchmark.run.heatmap_views import eraser_predictions, heatmaps
from benchmark.run.tested import rows_of_test
from benchmark.settings.identity import digest_of, identity
from benchmark.types import Evaluation, over

logger = logging.getLogger(__name__)

SAME_FOR_EVERY_CLASS = "1 by construction: the method does not look at the class"

_MADE_AGAIN = re.compile(r"config\.yaml|heatmap\.json|graphs\.json|eraser_predictions(-.*)?\.jsonl")
"""Names of files that follow from the others; one that is damaged is made again."""


def finish(cell: Cell, evaluations: Mapping[str, Evaluation], *, wait: bool = True) -> bool:
    """Bring a cell up to date under its lock: what is stored and still holds is reused; the record comes last.

    Rows are kept as long as the test's identity is the same; figures are reduced again from them where the statistics'
    version has changed. Figures whose rows are not there are computed again, and files that are missing are made again.

    Returns:
        False, with nothing done, where another process holds the cell and `wait` is false.

    Raises:
        UserError: the folder is damaged, or another cell's.
    """
    if not cell.lock.acquire(wait=wait):
        return False
    try:
        _finish(cell, evaluations)
        commits.clean(cell.folder)
    finally:
        cell.lock.release()
    return True


def _finish(cell: Cell, evaluations: Mapping[str, Evaluation]) -> None:
    old = _old_record(cell)
    lost = _lost(cell.folder, old)
    rows = _stored_rows(cell, old)
    tested = {
        name: facts for name, facts in old.get("evaluations", {}).items() if _holds(facts, rows.get(name, NO_ROWS))
    }
    keys = {name: _key(tested, name, test) for name, test in evaluations.items()}
    stale = [name for name, test in evaluations.items() if not _is_current(tested.get(keys[name]), test)]
    if old and not stale and not lost and set(tested) == set(old["evaluations"]):
        return
    if any(evaluations[name].reads == "edges" and evaluations[name].target == "predicted" for name in stale):
        cell.explain_with_edges()
    for name in stale:
        key = keys[name]
        known = rows.get(key, NO_ROWS) if _same_rows(tested.get(key), evaluations[name]) else None
        tested[key], rows[key] = test(cell, name, evaluations[name], known)
    everything = [table.assign(evaluation=name) for name, table in rows.items() if name in tested and len(table)]
    table = pd.concat([part[list(store.ROW_COLUMNS)] for part in everything] or [NO_ROWS], ignore_index=True)
    settings = OmegaConf.to_yaml(OmegaConf.create(dict(cell.config)))
    contents = {"rows.parquet": table_bytes(table.astype(TYPES)), **pages(cell, tested, table)}
    if "config.yaml" not in old.get("files", {}) or "config.yaml" in lost:  # what differs changes no number
        contents["config.yaml"] = settings.encode()
    commits.commit(cell.folder, contents, record(cell, tested))


def _old_record(cell: Cell) -> dict[str, Any]:
    """The record that the folder holds; empty where there is none that can be added to."""
    if not (cell.folder / "record.json").exists():
        return {}
    old = store.read_record(cell.folder)
    if old["schema"] != store.SCHEMA:
        return {}
    if old["hash"] != cell.identity["hash"]:
        raise UserError(f"{cell.folder} holds another cell, whose name is the same by chance; choose another out=")
    return old


def _lost(folder: Path, old: Mapping[str, Any]) -> set[str]:
    """Files that the record names and that are to be made again; UserError where one is damaged that cannot be."""
    lost = {"rows.parquet"} if "coming" in old else set()  # a kill between rows and record
    for name in old.get("files", {}):
        path = folder / name
        if not path.exists():
            lost.add(name)
        elif store.hash_of(path) not in store.listed(path):
            if not _MADE_AGAIN.fullmatch(name):
                raise store.corrupt(path, "it is not what was written: its SHA-256 is not the one in record.json")
            lost.add(name)
    if damaged := sorted(filter(_MADE_AGAIN.fullmatch, lost)):
        logger.warning("%s: %s missing or damaged; made again", folder, ", ".join(damaged))
    return lost


def _stored_rows(cell: Cell, old: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """The rows of each test; none where they are gone."""
    if not old or not (cell.folder / "rows.parquet").exists():
        return {}
    table = store.read_rows(cell.folder)
    if strange := set(table["uid"]) - set(cell.data.uids):
        raise store.corrupt(cell.folder / "rows.parquet", f"it holds the example {min(strange)!r}, which is not scored")
    return {str(name): part.reset_index(drop=True) for name, part in table.groupby("evaluation", sort=False)}


def _holds(facts: Mapping[str, Any], rows: pd.DataFrame) -> bool:
    """Whether figures and rows of a test belong together."""
    return facts.get("rows") == rows_digest(rows)


def _key(tested: Mapping[str, Any], name: str, evaluation: Evaluation) -> str:
    """Where the record keeps a test: under its name, and with its digest where another of that name is there.

    Jobs that give one name other settings share a folder without losing each other's figures. What an earlier version of
    the same class left is replaced.
    """
    digest = digest_of(evaluation)
    for key, facts in tested.items():
        if facts.get("name", key) == name and facts["digest"] == digest:
            return key
    old = tested.get(name)
    replaced = old is None or (old["identity"][0] == identity(evaluation)[0] and old["version"] != evaluation.version)
    return name if replaced else f"{name}-{digest[:8]}"


def _same_rows(facts: Mapping[str, Any] | None, evaluation: Evaluation) -> bool:
    """Whether the stored rows are those that the test would give; where it could not serve, it is asked again."""
    return facts is not None and facts["digest"] == digest_of(evaluation) and facts["dash"] is None


def _is_current(facts: Mapping[str, Any] | None, evaluation: Evaluation) -> bool:
    if facts is None or facts["digest"] != digest_of(evaluation):
        return False
    return bool(facts["statistics"] == statistics_version())


def statistics_version() -> int:
    """What figures depend on beside their rows."""
    return int(getattr(statistics, "VERSION", 0))


def test(
    cell: Cell, name: str, evaluation: Evaluation, known: pd.DataFrame | None
) -> tuple[dict[str, Any], pd.DataFrame]:
    """What the record says of one evaluation, and its rows (none where it cannot serve: then the reason is kept).

    A `remark` says what must be known of its figures; tables show it as a footnote. With `known` rows figures are only
    reduced again.
    """
    start = time.perf_counter()
    facts: dict[str, Any] = {
        "name": name,
        "version": evaluation.version,
        "digest": digest_of(evaluation),
        "identity": identity(evaluation),
        "statistics": statistics_version(),
        "target": evaluation.target,
        "metrics": {metric: asdict(declared) for metric, declared in evaluation.metrics.items()},
        "averaged": isinstance(evaluation, Averaged),
    }
    told = evaluation.reads == "classes" and not cell.method.class_specific
    derived: Mapping[str, Any] = {}
    try:
        scoped = over(evaluation, cell.data.batches)
        rows = rows_of_test(cell, evaluation) if known is None else known
        figures, derived = [asdict(figure) for figure in scoped.reduce(rows)], getattr(scoped, "parts", {})
        reason, remark = None, SAME_FOR_EVERY_CLASS if told else None
    except NotApplicable as answer:
        reason, remark = str(answer), None
        rows, figures = NO_ROWS, []
    found = {"figures": figures, "dash": reason, "remark": remark, "seconds": time.perf_counter() - start}
    facts |= {**found, "derived": derived, "rows": rows_digest(rows)}
    check_figures(name, facts, cell.data.facts["n"])
    return facts, rows


def pages(cell: Cell, tested: Mapping[str, Any], rows: pd.DataFrame) -> dict[str, bytes]:
    """What the folder holds for people and for other tools."""
    found: dict[str, bytes] = {}
    try:
        attributions = cell.explain("predicted")
        found["heatmap.json"] = store.json_bytes(heatmaps(cell, attributions))
        found |= eraser_predictions(cell, tested, rows)
    except NotApplicable:
        pass
    if (which := stored_target(cell)) is not None and cell.model.streams.count == 1:  # graphs of one sequence of tokens
        found["graphs.json"] = store.json_bytes(graphs(cell, which))
    return found


def record(cell: Cell, tested: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the report needs of a finished cell."""
    model, reasons = cell.model, {facts["dash"] for facts in tested.values()}
    try:
        cost: Mapping[str, float] = cell.explain("predicted").cost
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
            "identity": cell.identity["method"],
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
