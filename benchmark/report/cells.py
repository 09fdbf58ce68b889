"""Finished cells (task × model × method) as the report reads them, with the names that its tables show."""

import json
import logging
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmark.errors import Missing, UserError, printable
from benchmark.report.run_folders import Stored, read_cleaned, read_stored, unreadable
from benchmark.results.control_names import control_order
from benchmark.results.record import EvaluationRecord, Record
from benchmark.results.rows import StoredRows
from benchmark.results.statistics.proportions import wilson
from benchmark.results.wording import bounds, number

_log = logging.getLogger(__name__)
_NOT_OF_THE_METHOD = ("task", "model", "split", "limit", "seed")  # sections of config.yaml

Facts = Mapping[str, Hashable]
"""What may tell one of several variants apart, by its dotted key."""


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
        """What the cell is, and the figures of its tests."""
        return self.stored.record

    @property
    def kind(self) -> str:
        """Name of the method without settings: what tells a control."""
        return self.record.method.name

    @property
    def dash(self) -> str | None:
        """Why the method could not serve at all, or None."""
        return self.record.dash

    def evaluation(self, shown: str) -> EvaluationRecord | None:
        """What the record says of a test, by the name shown; None where it was not run."""
        return self.record.evaluations.get(self.evaluations.get(shown, ""))

    @property
    def rows(self) -> StoredRows:
        """Per-example values by evaluation (as in the record) and metric: uid, x, value, draw."""
        return self.stored.rows

    def values(self, evaluation: str, metric: str, x: float | None = None) -> pd.DataFrame:
        """The rows of a metric at one x (None: of a scalar), by the evaluation's name in the record."""
        rows = self.rows.read(evaluation, metric)
        return rows[rows["x"].isna() if x is None else rows["x"] == x]

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
            if not self.stored.folder.is_dir():
                raise Missing(path)
            if name in self.record.files:
                _log.warning("%s is missing; the comparison that made the folder restores it", path)
            return []
        content = read_cleaned(path)
        if not isinstance(content, list) or not all(isinstance(item, dict) and key in item for item in content):
            raise unreadable(path, "not a list of examples")
        return content


def answers_line(cells: Sequence[NamedCell]) -> str:
    """How often the model of these cells predicts the annotated class; empty where no record says so."""
    found = next(((cell.record.answers, cell.record.task.n) for cell in cells if cell.record.answers is not None), None)
    if found is None:
        return ""
    answers, n = found
    low, high = wilson(np.array([answers.right / n]), n)
    share = f"{number(answers.right / n)} {bounds(float(low[0]), float(high[0]))}"
    return (
        f"The model predicts the annotated class of {answers.right} of {n} examples: {share}. Naming the most frequent "
        f"class would be right in {number(answers.commonest / n)}."
    )


def passages_line(cells: Sequence[NamedCell]) -> str:
    """That several examples of these cells share a passage; empty where hardly any do, or no record says so."""
    return next((told for cell in cells if (told := cell.record.task.shared_passages)), "")


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """Each dotted key by its last part, or whole where two keys share it; `readout._target_` is named `readout`."""
    plain = {key: key.removesuffix("._target_") for key in keys}
    last = [name.rsplit(".", 1)[-1] for name in plain.values()]
    return {
        key: (part if last.count(part) == 1 else name) for (key, name), part in zip(plain.items(), last, strict=True)
    }


def _value(key: str, value: Hashable) -> str:
    """A setting's value as a person writes it: short floats, the last part of an import path."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.rsplit(".", 1)[-1] if key.endswith("_target_") else text


def differing_keys(variants: Sequence[Facts]) -> list[str]:
    """The keys, in order of appearance, that are needed to tell the variants apart.

    A key is taken when it separates variants that the keys before it do not; two keys that vary together give one.
    """
    order = list(dict.fromkeys(key for facts in variants for key in facts))
    chosen: list[str] = []
    separated = min(len(variants), 1)
    for key in order:
        parts = len({tuple(facts.get(name) for name in (*chosen, key)) for facts in variants})
        if parts > separated:
            chosen.append(key)
            separated = parts
    return chosen


def distinguish(variants: Sequence[Facts]) -> list[str]:
    """What sets each variant apart from the others, as `key=value, key=value`; empty where nothing does.

    Args:
        variants: one mapping per variant from setting (dotted key) to value; settings most worth showing come first.
    """
    chosen = differing_keys(variants)
    names = _short_names(chosen)
    return [
        ", ".join(f"{names[key]}={_value(key, facts[key])}" for key in chosen if facts.get(key) is not None)
        for facts in variants
    ]


def named(name: str, detail: str) -> str:
    """`name (detail)`, or the name alone where there is no detail."""
    return f"{name} ({detail})" if detail else name


def natural(name: str) -> tuple[tuple[int, float, str], ...]:
    """Sorting key in which numbers inside a name count as numbers: `steps=5` comes before `steps=10`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return tuple((0, float(part), "") if place % 2 else (1, 0.0, part) for place, part in enumerate(parts) if part)


def _task_facts(cell: Stored) -> Facts:
    task = cell.record.task
    facts = {"split": task.split, "limit": task.limit, "seed": task.seed, "version": task.version}
    return {**facts, "data": task.fingerprint[:8]}


def _model_facts(cell: Stored) -> Facts:
    model = cell.record.model
    return {"dtype": model.dtype, "weights": model.fingerprint[:8]}


def method_facts(cell: Stored) -> Facts:
    """Settings of a cell by dotted key, those of the method first: what tells variants of a method apart."""
    settings = dict(_flat(cell.config))
    last = {key: value for key, value in settings.items() if key.split(".", 1)[0] in _NOT_OF_THE_METHOD}
    first = {key: value for key, value in settings.items() if key not in last}
    return {**first, "version": cell.record.method.version, **last, "hash": cell.record.hash[:8]}


def _flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Hashable]]:
    """Leaves of nested mappings as (dotted key, value); a list is one value, written as JSON."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree if isinstance(tree, Hashable) else json.dumps(tree, default=str)


def _evaluation_facts(test: EvaluationRecord) -> Facts:
    settings = test.digest[:8]
    return {"target": test.target, "version": test.version, "settings": settings, "statistics": test.statistics}


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
    by_name: dict[str, list[tuple[Stored, str, EvaluationRecord]]] = {}
    for cell in alike:
        for key, test in cell.record.evaluations.items():
            by_name.setdefault(test.name, []).append((cell, key, test))
    for name, tests in sorted(by_name.items()):
        details = distinguish([_evaluation_facts(test) for _, _, test in tests])
        for (cell, key, _), detail in zip(tests, details, strict=True):
            labels[cell.folder][named(name, detail)] = key
    return labels


def _unique(cells: Sequence[Stored]) -> list[Stored]:
    """The cells, each once, in an order that does not depend on how they were given."""
    first: dict[str, Stored] = {}
    for cell in sorted(cells, key=lambda cell: cell.folder):
        same = first.setdefault(cell.record.hash, cell)
        if same is not cell:
            _log.warning("%s", printable(f"{cell.folder} holds the same cell as {same.folder} and is left out"))
    return sorted(first.values(), key=lambda cell: cell.record.hash)


def load_cells(folders: Sequence[Path], evaluations: Mapping[str, str] | None = None) -> list[NamedCell]:
    """The content of run folders, with names that tell them apart, see `named_cells`.

    Args:
        folders: run folders.
        evaluations: name and identity of the tests that are read, None for all, see `read_stored`.

    Raises:
        UserError: there are no folders, or one is corrupt; the message names it.
    """
    if not folders:
        raise UserError("there are no finished run folders to report on; run `python -m benchmark` first")
    return named_cells([read_stored(folder, evaluations) for folder in {folder.resolve() for folder in folders}])


def named_cells(cells: Sequence[Stored]) -> list[NamedCell]:
    """Run folders that were read, with the names that tell them apart; sorted by task, model and method, controls last."""
    stored = _unique(cells)
    tasks = _label(stored, lambda c: "", lambda c: c.record.task.name, _task_facts)
    models = _label(stored, lambda c: tasks[c.folder], lambda c: c.record.model.name, _model_facts)
    places = {c.folder: (tasks[c.folder], models[c.folder]) for c in stored}
    methods = _label(stored, lambda c: places[c.folder], lambda c: c.record.method.name, method_facts)
    shown: dict[Path, dict[str, str]] = {}
    for place in set(places.values()):
        shown |= _evaluation_labels([cell for cell in stored if places[cell.folder] == place])
    named_alike = [NamedCell(c, *places[c.folder], methods[c.folder], shown[c.folder]) for c in stored]
    return sorted(
        named_alike,
        key=lambda cell: (natural(cell.task), natural(cell.model), control_order(cell.kind), natural(cell.method)),
    )
