"""A repository of results: `results/<bundle>@<major>/<method>/<hash>/`, with its history; bundles lie beside it."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from benchmark.bundles import history
from benchmark.bundles.bundle import METHODS, Bundle, files_below, find_bundles, read_sealed, tree_digest
from benchmark.bundles.refusals import CheckReport
from benchmark.bundles.submission import FILE, Submission
from benchmark.errors import UserError, near, printable
from benchmark.results import bounded, store
from benchmark.results.digests import sealed
from benchmark.results.locks import beside
from benchmark.results.record import Record

AUDIT, WITHDRAWN, LEADERBOARD = "audit.json", "withdrawn.json", "leaderboard.json"
_PENDING = ".pending"
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
        check: the report of `attention-benchmark check` that was submitted; None where there is none.
    """

    bundle: Bundle
    run: Path
    folder: str
    submission: Submission | None
    audit: Mapping[str, Any]
    withdrawn: Mapping[str, Any]
    check: CheckReport | None

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
            raise UserError(f"{self.bundles} has no bundle; say where they are with bundles=FOLDER")
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
            yield Result(bundle, run.parent, "", None, {}, {}, None)
        for name in self._places():
            if name.partition("/")[0] == bundle.place:
                place = self.root / name
                submission = Submission.read(place, AUDIT, WITHDRAWN)
                audited, withdrawn = _sealed(place / AUDIT, AUDIT_SCHEMA), _sealed(place / WITHDRAWN, WITHDRAWN_SCHEMA)
                report = CheckReport.read(place)
                yield Result(bundle, submission.run(place), name, submission, audited, withdrawn, report)

    def submissions(self) -> list[Submission]:
        """All that were taken, of all bundles."""
        return [Submission.read(self.root / place, AUDIT, WITHDRAWN) for place in self._places()]

    def _places(self) -> list[str]:
        """Folders of results, relative to the root; what a kill left half-written begins with a dot."""
        found = (path.parent.relative_to(self.root) for path in self.root.glob(f"*/*/*/{FILE}"))
        return sorted(place.as_posix() for place in found if not any(part.startswith(".") for part in place.parts))

    def check(self) -> None:
        """Every result is what its last event in the history says, and every event's folder is there.

        Raises:
            UserError: one is not, or the history ends before what the leaderboard was written from.
        """
        trees = history.last_trees(history.read(self.root))
        for place, tree in trees.items():
            if not (self.root / place).is_dir():
                raise UserError(
                    f"{self.root / place} is gone, and the history names it; take it from the repository again, "
                    "and withdraw it there if it should not count"
                )
            if self.tree(place) != tree:
                raise UserError(
                    f"{self.root / place} is not what was taken: a file of it was changed since; take the folder from the "
                    "repository again"
                )
        if strange := sorted(set(self._places()) - set(trees)):
            raise UserError(
                f"{self.root / strange[0]} was never taken: the history does not name it; merge its submission"
            )
        written = self.root / LEADERBOARD
        known = bounded.parse_json(bounded.read_bytes(written)).get("history") if written.is_file() else None
        if known is not None and known not in history.heads(self.root):
            raise UserError(
                f"{self.root / history.FILE} lacks lines that {written.name} was written from; take it from the repository "
                "again"
            )

    def tree(self, place: str) -> str:
        """SHA-256 over the paths and contents of a result's files."""
        return tree_digest(files_below(self.root / place))

    @contextmanager
    def held(self, *, make: bool = False) -> Iterator[None]:
        """The repository for one process, with what a kill left behind finished or taken away, and checked.

        Args:
            make: whether a folder that is not there is made, once it is known that there are bundles.

        Raises:
            UserError: there is no such folder, or it is not what it was.
        """
        self.newest()
        if not make and not self.root.is_dir():
            raise UserError(
                f"there is no folder {self.root}; `attention-benchmark merge {self.root} SUBMISSION` makes it"
            )
        if self.root.exists() and not self.root.is_dir():
            raise UserError(f"{self.root} is no folder; name the folder of results")
        self.root.mkdir(parents=True, exist_ok=True)
        with beside(self.root / "changing", "the results"):
            for path in self.root.glob(".merging-*"):
                shutil.rmtree(path, ignore_errors=True)
            self._finish()
            self.check()
            yield

    def put(self, place: str, made: Path, date: str, what: str, why: str = "") -> None:
        """Move the folder of a result to its place, which it replaces, and write that into the history.

        The history is written between two moves, so that after a kill at any moment `held` finds what is to be done.
        """
        pending = self.root / _PENDING
        shutil.rmtree(pending, ignore_errors=True)
        made.replace(pending)
        history.add(self.root, date, what, place, tree_digest(files_below(pending)), printable(why))
        self._finish()

    def _finish(self) -> None:
        """Move what is pending to the place that the history's last line names; without such a line nothing had happened."""
        pending = self.root / _PENDING
        events = history.read(self.root)
        if not pending.is_dir():
            return
        if events and events[-1].tree == tree_digest(files_below(pending)):
            target = self.root / events[-1].place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target, ignore_errors=True)
            pending.replace(target)
        shutil.rmtree(pending, ignore_errors=True)

    @contextmanager
    def changed(self, place: str, date: str, what: str, why: str) -> Iterator[Path]:
        """A copy of a result's folder to be changed, which takes its place when the block succeeds."""
        with self.scratch() as scratch:
            made = scratch / "result"
            shutil.copytree(self.root / place, made)
            yield made
            self.put(place, made, date, what, why)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder on the disk of the results, so that what is made there can be moved; gone at the end."""
        self.root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".merging-", dir=self.root, ignore_cleanup_errors=True) as scratch:
            yield Path(scratch)

    def withdraw(self, place: str, why: str, date: str) -> None:
        """Mark a result as withdrawn; nothing of it is deleted.

        Raises:
            UserError: there is no such result, or it is withdrawn already.
        """
        with self.held():
            known = history.last_trees(history.read(self.root))
            if place not in known:
                raise UserError(f"{place} is no result; {near(place, sorted(known)) if known else 'there is none'}")
            if (self.root / place / WITHDRAWN).is_file():
                raise UserError(f"{place} is withdrawn already")
            with self.changed(place, date, "withdrawn", why) as made:
                store.write_json(
                    made / WITHDRAWN, sealed({"schema": WITHDRAWN_SCHEMA, "why": printable(why), "date": date})
                )


def _sealed(path: Path, schema: int) -> Mapping[str, Any]:
    return read_sealed(path, schema, "") if path.is_file() else {}
