"""The leaderboard of a repository: per bundle its rows, with how each is known, as JSON of version 2."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.bundles import history
from benchmark.bundles.bundle import TRUST, Bundle, read_trust
from benchmark.bundles.ranking import Ranked, mean_ranks
from benchmark.bundles.repository import LEADERBOARD, Repository, Result
from benchmark.report.arrangement import is_control
from benchmark.report.cells import NamedCell, load_cells
from benchmark.report.leaderboard import MetricColumn, frame, headline_columns
from benchmark.report.pairs import MethodPairs, every_pair
from benchmark.report.write import SCHEMA, leaderboard_json
from benchmark.results import store
from benchmark.results.trust import Trust

VERSION = 2
SCHEMA_FILE = "leaderboard.schema.json"


@dataclass(frozen=True)
class Board:
    """The rows of one bundle.

    Attributes:
        bundle: that methods are compared in.
        folder: where it lies.
        results: what is shown; withdrawn results are not among them.
        trust: by `test.metric` which test can be trusted here.
        earlier: whether a later major version of the bundle is there.
    """

    bundle: Bundle
    folder: Path
    results: Sequence[Result]
    trust: Mapping[str, Trust]
    earlier: bool

    @cached_property
    def cells(self) -> list[NamedCell]:
        """The run folders as reports read them, with the bundle's tests alone."""
        return load_cells([result.run for result in self.results], self.bundle.digests)

    @cached_property
    def table(self) -> pd.DataFrame:
        """All figures (`leaderboard.frame`), with what is known of their tests."""
        return frame(self.cells, told=self.trust)

    @cached_property
    def pairs(self) -> Mapping[tuple[str, str], Sequence[MethodPairs]]:
        """Paired differences of all methods."""
        return every_pair(self.cells, self.table)

    @property
    def columns(self) -> list[MetricColumn]:
        """The headline metrics, those of tests that can be trusted first."""
        return headline_columns(self.table)

    def result_of(self, cell: NamedCell) -> Result:
        """The result that a cell is read from."""
        return next(result for result in self.results if result.run.resolve() == cell.stored.folder)

    @property
    def levels(self) -> dict[str, int]:
        """How many rows are known in which way."""
        names = ("reference", "recomputed", "retested", "not reproduced")
        counts = {name: sum(result.level == name for result in self.results) for name in names}
        return {name: count for name, count in counts.items() if count}

    @property
    def lacking(self) -> list[str]:
        """Tests that some rows do not have yet, in words: `merge --retest` computes them."""
        return [
            f"{test.name}: in {have} of {len(self.results)} methods"
            for test in self.bundle.tests
            if (have := sum(_has(result, test.name, test.digest) for result in self.results)) < len(self.results)
        ]


def _has(result: Result, name: str, digest: str) -> bool:
    return any((test.name, test.digest) == (name, digest) for test in result.record.evaluations.values())


def boards(repository: Repository) -> list[Board]:
    """One for each major version of each bundle that has rows.

    Raises:
        UserError: the repository is not what it was.
    """
    newest = repository.newest()
    by_place: dict[str, list[Result]] = {place: [] for place in newest}
    for result in repository.results():
        if not result.withdrawn:
            by_place[result.bundle.place].append(result)
    latest = {bundle.name: bundle.major for bundle, _ in newest.values()}
    return [
        Board(bundle, folder, by_place[place], read_trust(folder / TRUST), bundle.major < latest[bundle.name])
        for place, (bundle, folder) in newest.items()
        if by_place[place]
    ]


def leaderboard(found: Sequence[Board], head: str) -> dict[str, Any]:
    """The content of `leaderboard.json`, as `schema` says; `head` is SHA-256 of the history's last line."""
    comparisons = []
    order = ""
    for board in found:
        content = json.loads(leaderboard_json(board.cells, board.table))
        order = content["order"]
        (compared,) = content["comparisons"]
        by_name = {cell.method: board.result_of(cell) for cell in board.cells}
        compared["bundle"] = {"name": board.bundle.name, "version": board.bundle.version, "digest": board.bundle.seal}
        for method in compared["methods"]:
            method["provenance"] = provenance(by_name[method["shown"]])
        for name, test in compared["tests"].items():
            told = {
                metric: board.trust[f"{name}.{metric}"]
                for metric in test["metrics"]
                if f"{name}.{metric}" in board.trust
            }
            test["trust"] = {metric: {"verdict": one.verdict, "why": one.why} for metric, one in told.items()}
        comparisons.append(compared)
    return {"version": VERSION, "order": order, "history": head, "comparisons": comparisons}


def provenance(result: Result) -> dict[str, Any]:
    """How a row is known, and who made it."""
    submission = result.submission
    return {
        "level": result.level,
        "k": result.audit.get("k") if result.audit else None,
        "date": result.bundle.date if submission is None else submission.date,
        "submission": None if submission is None else submission.seal,
        "check": None if result.check is None else "pass" if result.check.ok else "fail",
    }


def schema() -> dict[str, Any]:
    """The schema of version 2: that of version 1 with bundle, provenance and trust."""
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    found["properties"]["version"]["const"] = VERSION
    found["properties"]["history"] = {"type": "string", "description": "SHA-256 of the last line of history.jsonl"}
    found["required"].append("history")
    text, maybe = {"type": "string"}, {"type": ["string", "null"]}
    defs = found["$defs"]
    additions = {
        "comparison": {"bundle": _object({"name": text, "version": text, "digest": text})},
        "method": {
            "provenance": _object(
                {
                    "level": {"enum": ["reference", "retested", "recomputed", "not reproduced"]},
                    "k": {"type": ["integer", "null"], "description": "examples that were explained anew"},
                    "date": text,
                    "submission": {**maybe, "description": "seal of the submission; null: part of the bundle"},
                    "check": {
                        "enum": ["pass", "fail", None],
                        "description": "attention-benchmark check, as it was submitted; null: none",
                    },
                }
            )
        },
        "test": {
            "trust": {
                "type": "object",
                "description": "by metric, what the analysis which_test says of it",
                "additionalProperties": _object({"verdict": text, "why": text}),
            }
        },
    }
    for kind, properties in additions.items():
        defs[kind]["properties"] |= properties
        defs[kind]["required"] += list(properties)
    return found


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def write_leaderboard(repository: Repository) -> Path:
    """Write `leaderboard.json` and its schema into the results.

    Raises:
        UserError: the repository is not what it was.
    """
    path = repository.root / LEADERBOARD
    with repository.held():
        store.write_json(path, leaderboard(boards(repository), history.heads(repository.root)[-1]))
        store.write_json(repository.root / SCHEMA_FILE, schema())
    return path


def rankings(found: Sequence[Board]) -> Iterator[tuple[MetricColumn, list[Ranked]]]:
    """By headline metric, mean ranks over the tasks and models of the bundles that have it; controls are not ranked.

    A bundle counts with its latest major version.
    """
    figures: dict[MetricColumn, dict[tuple[str, str], dict[str, float]]] = {}
    for board in found:
        for column in board.columns if not board.earlier else ():
            if column.higher_is_better is not None:
                figures.setdefault(column, {})[board.bundle.task.name, board.bundle.place] = dict(
                    _values(board, column)
                )
    for column, by_place in figures.items():
        yield column, mean_ranks(by_place, higher_is_better=bool(column.higher_is_better))


def _values(board: Board, column: MetricColumn) -> Iterator[tuple[str, float]]:
    """The figure of each method by its own name; of one that is there with several settings, none."""
    names = [cell.kind for cell in board.cells]
    by_shown = {cell.method: cell.kind for cell in board.cells if names.count(cell.kind) == 1}
    rows = board.table[(board.table["evaluation"] == column.evaluation) & (board.table["metric"] == column.metric)]
    for row in rows[rows["x"].isna() & rows["value"].notna()].to_dict("records"):
        if (name := by_shown.get(str(row["method"]))) is not None and not is_control(name):
            yield name, float(row["value"])
