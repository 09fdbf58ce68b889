"""Finished cells (task × model × method) as the report reads them, with the names that its tables show."""

import logging
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.errors import UserError, printable
from benchmark.report.labels import Facts, distinguish, named, natural
from benchmark.report.run_folders import Record, Stored, read_cleaned, read_stored, unreadable
from benchmark.results.store import UNSEALED, of_comparison

CONTROLS = ("oracle", "random", "inverted", "position", "frequency")
"""Methods that test the tests, in the order in which tables show them; they are never ranked.

Defined in docs/protocols.md, section 11.
"""

_log = logging.getLogger(__name__)
_NOT_OF_THE_METHOD = ("task", "model", "split", "limit", "seed")  # sections of config.yaml


@dataclass(frozen=True)
class NamedCell:
    """One finished run folder under the names that tables show.

    Attributes:
        stored: what the folder holds.
        task: name of the task, with split, limit or seed where the compared cells differ in them.
        model: name of the model, with precision or fingerprint where they differ.
        method: name of the method, with the settings in which the cells of this method differ.
        evaluations: name shown -> name in the record (they differ where cells were tested with other settings).
    """

    stored: Stored
    task: str
    model: str
    method: str
    evaluations: Mapping[str, str]

    @property
    def record(self) -> Record:
        """The content of `record.json`."""
        return self.stored.record

    @property
    def kind(self) -> str:
        """Name of the method without settings: what tells a control."""
        return str(self.record["method"]["name"])

    @property
    def dash(self) -> str | None:
        """Why the method could not serve at all, or None."""
        reason = self.record.get("dash")
        return None if reason is None else str(reason)

    def evaluation(self, shown: str) -> Record:
        """The record's entry of an evaluation, by the name shown; empty where it was not run."""
        entry: Record = self.record["evaluations"].get(self.evaluations.get(shown, ""), {})
        return entry

    @property
    def rows(self) -> pd.DataFrame:
        """Per-example values: uid, evaluation (as in the record), metric, x, value, draw."""
        return self.stored.rows

    @cached_property
    def scalar_rows(self) -> dict[tuple[str, str], pd.DataFrame]:
        """The rows of each scalar metric, by the evaluation's name in the record and the metric's name."""
        scalars = self.rows[self.rows["x"].isna()]
        return {(str(key[0]), str(key[1])): part for key, part in scalars.groupby(["evaluation", "metric"], sort=False)}

    @cached_property
    def heatmaps(self) -> list[dict[str, Any]]:
        """The examples of `heatmap.json`; empty where there is none."""
        return self._examples("heatmap.json", "words")

    @cached_property
    def graphs(self) -> list[dict[str, Any]]:
        """The examples of `graphs.json`; empty where there is none."""
        return self._examples("graphs.json", "graph")

    def _examples(self, name: str, key: str) -> list[dict[str, Any]]:
        path = self.stored.folder / name
        if not path.exists():
            if name in self.record.get("files", ()):
                _log.warning("%s is missing; the comparison that made the folder restores it", path)
            return []
        content = read_cleaned(path)
        if not isinstance(content, list) or not all(isinstance(item, dict) and key in item for item in content):
            raise unreadable(path, "not a list of examples")
        return content


def _task_facts(cell: Stored) -> Facts:
    task = cell.record["task"]
    return {key: task[key] for key in ("split", "limit", "seed", "version")} | {"data": str(task["fingerprint"])[:8]}


def _model_facts(cell: Stored) -> Facts:
    model = cell.record["model"]
    return {"dtype": model["dtype"], "weights": str(model["fingerprint"])[:8]}


def _method_facts(cell: Stored) -> Facts:
    """Settings of the cell, those of the method first."""
    last = {key: value for key, value in cell.config.items() if key.split(".", 1)[0] in _NOT_OF_THE_METHOD}
    first = {key: value for key, value in cell.config.items() if key not in last}
    facts = {**first, "version": cell.record["method"]["version"], **last}
    return {**facts, "hash": str(cell.record["hash"])[:8]}


def _evaluation_facts(entry: Record) -> Facts:
    settings = entry.get("digest")
    facts = {key: entry.get(key) for key in ("target", "version")}
    return {**facts, "settings": None if settings is None else str(settings)[:8], "statistics": entry.get("statistics")}


def _label(
    cells: Sequence[Stored],
    group: Callable[[Stored], Hashable],
    name: Callable[[Stored], str],
    facts: Callable[[Stored], Facts],
) -> dict[Path, str]:
    """Name of each cell, told apart within the cells of one group that share the name."""
    members: dict[Hashable, list[Stored]] = {}
    for cell in cells:
        members.setdefault((group(cell), name(cell)), []).append(cell)
    labels: dict[Path, str] = {}
    for alike in members.values():
        details = distinguish([facts(cell) for cell in alike])
        labels |= {cell.folder: named(name(cell), detail) for cell, detail in zip(alike, details, strict=True)}
    return labels


def _evaluation_labels(alike: Sequence[Stored]) -> dict[Path, dict[str, str]]:
    """Name shown -> name in the record, for the cells of one task and model."""
    labels: dict[Path, dict[str, str]] = {cell.folder: {} for cell in alike}
    every: dict[str, list[tuple[Stored, str, Record]]] = {}
    for cell in alike:
        for key, entry in cell.record["evaluations"].items():
            every.setdefault(str(entry.get("name", key)), []).append((cell, key, entry))
    for name, having in sorted(every.items()):
        details = distinguish([_evaluation_facts(entry) for _, _, entry in having])
        for (cell, key, _), detail in zip(having, details, strict=True):
            labels[cell.folder][named(name, detail)] = key
    return labels


def _only(cell: Stored, evaluations: Mapping[str, str] | None) -> Stored:
    """The cell with these tests; with all of them for None."""
    if evaluations is None:
        return cell
    record, rows = of_comparison(cell.record, cell.rows, evaluations)
    return replace(cell, record=record, rows=rows)


def _unique(folders: Sequence[Path], evaluations: Mapping[str, str] | None) -> list[Stored]:
    """The cells, each once, in an order that does not depend on how they were given."""
    stored = [_only(read_stored(folder), evaluations) for folder in sorted({folder.resolve() for folder in folders})]
    first: dict[str, Stored] = {}
    for cell in stored:
        kept = first.setdefault(str(cell.record["hash"]), cell)
        if kept is not cell:
            told = f"{cell.folder} holds the same cell as {kept.folder} and is left out"
            _log.warning("%s", printable(told))
    return sorted(first.values(), key=lambda cell: str(cell.record["hash"]))


def load_cells(folders: Sequence[Path], evaluations: Mapping[str, str] | None = None) -> list[NamedCell]:
    """Read run folders and name them; sorted by task, model and method, controls last.

    Args:
        folders: run folders.
        evaluations: name and identity (`digest_of`) of the tests that are read, None for all that the folders hold. A run
            folder that several comparisons share holds the tests of all of them.

    Raises:
        UserError: there are no folders, or one is corrupt; the message names it.
    """
    if not folders:
        raise UserError("there are no finished run folders to report on; run `python -m benchmark` first")
    stored = _unique(folders, evaluations)
    if unsealed := [cell.folder for cell in stored if cell.record["schema"] == UNSEALED]:
        _log.info("%d run folders hold no digests, as of version 0.2.0: damage to them is not seen", len(unsealed))
    tasks = _label(stored, lambda c: "", lambda c: str(c.record["task"]["name"]), _task_facts)
    models = _label(stored, lambda c: tasks[c.folder], lambda c: str(c.record["model"]["name"]), _model_facts)
    places = {c.folder: (tasks[c.folder], models[c.folder]) for c in stored}
    methods = _label(stored, lambda c: places[c.folder], lambda c: str(c.record["method"]["name"]), _method_facts)
    shown: dict[Path, dict[str, str]] = {}
    for place in set(places.values()):
        shown |= _evaluation_labels([cell for cell in stored if places[cell.folder] == place])
    cells = [NamedCell(c, *places[c.folder], methods[c.folder], shown[c.folder]) for c in stored]
    return sorted(
        cells,
        key=lambda cell: (natural(cell.task), natural(cell.model), control_order(cell.kind), natural(cell.method)),
    )


def control_order(kind: str) -> int:
    """0 for real methods, then the controls in their order; `random_3` is the control `random` with a seed of its own."""
    base = re.sub(r"_\d+$", "", kind)
    return CONTROLS.index(base) + 1 if base in CONTROLS else 0
