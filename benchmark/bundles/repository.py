"""A repository of results: `results/<bundle>@<major>/<method>/<hash>/`, with its history; bundles lie beside it."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from benchmark.bundles import history
from benchmark.bundles.bundle import METHODS, Bundle, files_below, find_bundles, read_sealed, tree_digest
from benchmark.bundles.submission import CHECK, Submission
from benchmark.errors import UserError
from benchmark.results import bounded, store
from benchmark.results.digests import sealed
from benchmark.results.record import Record

AUDIT, WITHDRAWN = "audit.json", "withdrawn.json"
AUDIT_SCHEMA = WITHDRAWN_SCHEMA = 1

Level = Literal["reference", "retested", "recomputed", "not reproduced"]
"""How a row is known: built with the bundle; computed from submitted explanations; explained again as well; or explained
again with other scores."""


@dataclass(frozen=True)
class Result:
    """A method in a bundle.

    Attributes:
        bundle: that it is a row of.
        run: its run folder.
        folder: that holds the run folder, relative to the results; empty of what the bundle itself has.
        submission: who made it; None of what the bundle itself has.
        audit: what explaining again found; empty where nobody did.
        withdrawn: why and when it was withdrawn; empty where it was not.
        check: the report of `attention-benchmark check`; empty where there is none.
    """

    bundle: Bundle
    run: Path
    folder: str
    submission: Submission | None
    audit: Mapping[str, Any]
    withdrawn: Mapping[str, Any]
    check: Mapping[str, Any]

    @cached_property
    def record(self) -> Record:
        """What its run folder says."""
        return store.read_record(self.run)

    @property
    def level(self) -> Level:
        """How the row is known."""
        if self.submission is None:
            return "reference"
        if not self.audit:
            return "retested"
        return "recomputed" if self.audit["ok"] else "not reproduced"


class Repository:
    """Results and the bundles beside them.

    Args:
        root: the folder of results.
        bundles: the folder of bundles; `bundles` beside the results where it is None.
    """

    def __init__(self, root: Path, bundles: Path | None = None) -> None:
        self.root = root
        self.bundles = root.resolve().parent / "bundles" if bundles is None else bundles

    def newest(self) -> dict[str, tuple[Bundle, Path]]:
        """The newest version of each major version of a bundle, by `NAME@MAJOR`.

        Raises:
            UserError: there is no bundle, or one is not what it was.
        """
        found = {}
        for folder in find_bundles(self.bundles).values():
            bundle = Bundle.read(folder)
            found[bundle.place] = bundle, folder
        if not found:
            raise UserError(f"{self.bundles} has no bundle; name the folder of bundles with bundles=FOLDER")
        return found

    def results(self) -> list[Result]:
        """Every row of every bundle, those of the bundles themselves first.

        Raises:
            UserError: something was changed since it was taken, or lies there and was never taken.
        """
        self.check()
        return [result for bundle, folder in self.newest().values() for result in self._of(bundle, folder)]

    def _of(self, bundle: Bundle, folder: Path) -> Iterator[Result]:
        for run in sorted((folder / METHODS).glob("*/record.json")):
            yield Result(bundle, run.parent, "", None, {}, {}, {})
        for path in sorted((self.root / bundle.place).glob("*/*/submission.json")):
            place = path.parent
            submission = Submission.read(place)
            yield Result(
                bundle=bundle,
                run=submission.run(place),
                folder=place.relative_to(self.root).as_posix(),
                submission=submission,
                audit=_sealed(place / AUDIT, AUDIT_SCHEMA),
                withdrawn=_sealed(place / WITHDRAWN, WITHDRAWN_SCHEMA),
                check=bounded.parse_json(bounded.read_bytes(place / CHECK)) if (place / CHECK).is_file() else {},
            )

    def submissions(self) -> list[Submission]:
        """All that were taken, of all bundles."""
        return [Submission.read(path.parent) for path in sorted(self.root.glob("*/*/*/submission.json"))]

    def check(self) -> None:
        """Every result is what its last event in the history says, and every event's folder is there.

        Raises:
            UserError: one is not.
        """
        trees = history.last_trees(history.read(self.root))
        for place, tree in trees.items():
            if not (self.root / place).is_dir():
                raise UserError(
                    f"{self.root / place} is gone, and the history names it; nothing is deleted: withdraw it instead"
                )
            if self.tree(place) != tree:
                raise UserError(
                    f"{self.root / place} is not what was taken: a file of it was changed since; take the folder from the "
                    "repository again"
                )
        there = {path.parent.relative_to(self.root).as_posix() for path in self.root.glob("*/*/*/submission.json")}
        if strange := sorted(there - set(trees)):
            raise UserError(
                f"{self.root / strange[0]} was never taken: the history does not name it; merge its submission"
            )

    def tree(self, place: str) -> str:
        """SHA-256 over the paths and contents of a result's files."""
        return tree_digest(files_below(self.root / place))

    def put(self, bundle: Bundle, submission: Submission, made: Path) -> str:
        """Move the folder of a result to its place, which it replaces; the place, relative to the results."""
        place = f"{bundle.place}/{submission.method}/{submission.hash[:16]}"
        target = self.root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        before = target.with_name(f".{target.name}.before")
        shutil.rmtree(before, ignore_errors=True)
        if target.exists():
            target.replace(before)
        made.replace(target)
        shutil.rmtree(before, ignore_errors=True)
        return place

    def note(self, date: str, what: str, place: str, why: str = "") -> None:
        """Write what happened to a result into the history."""
        history.add(self.root, date, what, place, self.tree(place), why)

    def withdraw(self, place: str, why: str, date: str) -> None:
        """Mark a result as withdrawn; nothing of it is deleted.

        Raises:
            UserError: there is no such result, or it is withdrawn already.
        """
        self.check()
        folder = self.root / place
        if not (folder / "submission.json").is_file():
            raise UserError(f"{folder} is no result; give its folder below {self.root}, as history.jsonl names it")
        if (folder / WITHDRAWN).is_file():
            raise UserError(f"{folder} is withdrawn already")
        store.write_json(folder / WITHDRAWN, sealed({"schema": WITHDRAWN_SCHEMA, "why": why, "date": date}))
        self.note(date, "withdrawn", place, why)


def _sealed(path: Path, schema: int) -> Mapping[str, Any]:
    return read_sealed(path, schema, "") if path.is_file() else {}
