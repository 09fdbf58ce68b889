"""The folder of a comparison: called after its name, task, model and day, and found again by its hash."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from benchmark.errors import Corrupt, UserError
from benchmark.results import store
from benchmark.results.cache import atomic_path
from benchmark.results.digests import sealed
from benchmark.results.locks import beside
from benchmark.results.wording import slug, without_fingerprint

COMMAND = "command.txt"
"""Holds the command that made the folder."""

FACTS = "comparison.json"
"""Holds which run folders and tests the comparison is of."""

_LETTERS = 40


@dataclass(frozen=True)
class Compared:
    """What a comparison is of.

    Attributes:
        cells: run folders of its methods, relative to `out`.
        tests: the identity of each of its tests by name.
    """

    cells: tuple[str, ...]
    tests: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """Write it to the comparison's folder, sealed."""
        store.write_json(folder / FACTS, sealed(asdict(self)))

    @staticmethod
    def read(folder: Path) -> "Compared":
        """What `write` wrote.

        Raises:
            UserError: it is something else, or was changed.
        """
        path = folder / FACTS
        try:
            return store.read_object(Compared, path)
        except Corrupt as error:
            told = f"{path} is corrupt ({error.reason}); the command of the comparison writes it again"
            raise UserError(told) from error


@dataclass(frozen=True)
class ComparisonFolder:
    """Where a comparison's report goes: `<name>-<task>-<model>-<year>-<month>-<day>-<hash>` in `root`.

    An equal comparison, one of the same name and hash, finds the folder whatever its day and however its model's folder is
    called now; and also one that an earlier version called `<name>-<hash>`.

    Attributes:
        root: the folder of all comparisons.
        name: that the settings give it.
        task: name of the task.
        model: name of the model; a fingerprint at its end is left out.
        hash: of everything that the comparison depends on.
    """

    root: Path
    name: str
    task: str
    model: str
    hash: str

    def find(self) -> Path | None:
        """The folder of an equal comparison, the oldest where there are several; None where there is none."""
        earlier = self.root / f"{self.name}-{self.hash}"
        return earlier if os.path.isdir(earlier) else next(self._dated(), None)

    def make(self, command: str = "") -> Path:
        """That folder, or a new one of today's; processes that make it at once get the same one.

        Args:
            command: what made the comparison; kept where the folder holds none yet.
        """
        with beside(self.root / self.hash, f"comparison {self.hash}"):
            called = _words(self.name, self.task, without_fingerprint(self.model), date.today().isoformat(), self.hash)
            folder = self.find() or self.root / called
            folder.mkdir(parents=True, exist_ok=True)
        if command and not (folder / COMMAND).exists():
            with atomic_path(folder / COMMAND) as temporary:
                temporary.write_text(command + "\n")
        return folder

    def _dated(self) -> Iterator[Path]:
        called = re.compile(rf"{re.escape(_words(self.name, self.task))}-.*\d{{4}}-\d\d-\d\d-{self.hash}")
        if self.root.is_dir():
            yield from sorted(path for path in self.root.iterdir() if called.fullmatch(path.name) and path.is_dir())


def _words(*parts: str) -> str:
    """What a folder is called; no part is so long that a file system would not take the whole."""
    return "-".join(filter(None, (slug(part)[:_LETTERS].strip("-") for part in parts)))
