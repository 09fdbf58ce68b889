"""What was run: task, model, versions, settings, digests and reasons of what is missing."""

import json
from collections.abc import Sequence
from typing import Any

from benchmark.report.arrangement import ordered_tests
from benchmark.report.cells import NamedCell, answers_line, passages_line
from benchmark.results.record import ROWS, Origin


def provenance(cells: Sequence[NamedCell]) -> dict[str, Any]:
    """The facts of one task and model, for the part of the page that says how to compute it again."""
    record = cells[0].record
    task, model = record.task, record.model
    facts = {
        "task": f"{task.name}, version {task.version}, split {task.split}",
        "examples": _examples(cells),
        "model": f"{model.name}, {model.dtype}, {model.n_layers} layers of {model.n_heads} heads",
        "classes": ", ".join(model.labels) or "the tokens of the vocabulary",
        "data, SHA-256": task.fingerprint,
        "weights, SHA-256": model.fingerprint,
        "versions": _spread([", ".join(f"{k} {v}" for k, v in sorted(o.versions.items())) for o in _origins(cells)]),
        "code": _spread([origin.git_commit or "no commit known" for origin in _origins(cells)]),
    }
    if answered := answers_line(cells):
        facts["answers"] = answered
    if shared_ones := passages_line(cells):
        facts["passages"] = shared_ones
    shared = {key: cells[0].stored.config.get(key) for key in ("task", "model", "split", "limit", "seed")}
    return {
        "facts": facts,
        "settings": _text({key: value for key, value in shared.items() if value is not None}),
        "methods": [_method(cell) for cell in cells],
        "tests": _tests(cells),
        "dashes": _dashes(cells),
    }


def _origins(cells: Sequence[NamedCell]) -> list[Origin]:
    """Under what attributions and the rows of the tests shown were computed."""
    return [
        origin
        for cell in cells
        for origin in (Origin(cell.record.versions, cell.record.git_commit), *_shown(cell).values())
    ]


def _shown(cell: NamedCell) -> dict[str, Origin]:
    """Of the record's origins those of files, and of the rows of its tests."""
    tests = {f"{ROWS}{test.name}" for test in cell.record.evaluations.values()}
    tests |= {f"{ROWS}{test.name}-{test.digest[:8]}" for test in cell.record.evaluations.values()}
    return {name: origin for name, origin in cell.record.origins.items() if not name.startswith(ROWS) or name in tests}


def _computed(cell: NamedCell) -> str:
    """Under what which file was computed, where that is not the same for all; else empty."""
    names: dict[str, list[str]] = {}
    for name, origin in _shown(cell).items():
        said = f"rows of {name.removeprefix(ROWS)}" if name.startswith(ROWS) else name
        names.setdefault(str(origin), []).append(said)
    return "; ".join(f"{', '.join(files)}: {origin}" for origin, files in names.items()) if len(names) > 1 else ""


def _spread(values: Sequence[str]) -> str:
    """The value that all share, or all values that there are."""
    return " | ".join(dict.fromkeys(values))


def _examples(cells: Sequence[NamedCell]) -> str:
    task = cells[0].record.task
    part = "all of the split" if task.limit is None else f"limit {task.limit}, seed {task.seed}"
    lost = f", {task.lost_units} of {task.units} words beyond the model's window" if task.lost_units else ""
    return f"{task.n} ({part}{lost})"


def _text(settings: Any) -> str:
    return json.dumps(settings, indent=1, ensure_ascii=False, default=str)


def _part(identity: Any, place: int) -> Any:
    """Class (0), version (1) or settings (2) of an identity; empty of one that has another form."""
    return identity[place] if isinstance(identity, list | tuple) and len(identity) > place else ""


def _method(cell: NamedCell) -> dict[str, Any]:
    return {
        "name": cell.method,
        "class": _part(cell.record.method.identity, 0),
        "version": cell.record.method.version,
        "hash": cell.record.hash,
        "computed": _computed(cell),
        "settings": _text(cell.stored.config.get("method", {})),
    }


def _tests(cells: Sequence[NamedCell]) -> list[dict[str, Any]]:
    """Each test once: its class, version, explained class and settings."""
    return [
        {
            "name": name,
            "class": _part(test.identity, 0),
            "version": test.version,
            "target": test.target,
            "statistics": test.statistics,
            "hash": test.digest,
            "settings": _text(_part(test.identity, 2)),
        }
        for name, test in ordered_tests(cells).items()
    ]


def _dashes(cells: Sequence[NamedCell]) -> list[list[str]]:
    """Method, test and reason of what could not be served; method, test and remark of what must be known."""
    rows = []
    for cell in cells:
        if cell.dash:
            rows.append([cell.method, "all tests", cell.dash])
            continue
        for name in cell.evaluations:
            test = cell.evaluation(name)
            reasons = (test.dash, test.remark) if test is not None else ()
            rows += [[cell.method, name, reason] for reason in reasons if reason]
    return rows
