"""Changes of a run folder. After a kill at any moment of a change the folder reads as before it or as after it.

The folder's lock must be held, so that nobody else is writing there.
"""

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from benchmark.errors import UserError
from benchmark.results import bounded, store
from benchmark.results.digests import sealed
from benchmark.results.record import Record

logger = logging.getLogger(__name__)

_SHOWN = ("heatmap.json", "graphs.json")
"""Files that only show what others hold; a report does without."""


def commit(folder: Path, contents: Mapping[str, bytes | Path], record: Record) -> None:
    """Finish a cell, or replace files and record of a finished one.

    The record is written last and makes the cell whole. Where there is a record already, it first announces the new files.

    Args:
        folder: the run folder.
        contents: files by name: what they hold, or where they lie until they are put in place.
        record: without the digests of files, which are added.

    Raises:
        UserError: a file that the cell cannot be without would be too large to be read again; nothing has changed. One that
            only shows what others hold is left out with a warning.
    """
    contents = _readable(folder, contents, record)
    old = store.find_record(folder)
    recorded = {} if old is None else _recorded(folder, old)
    digests = {name: _digest(content) for name, content in contents.items()}
    changed = [name for name, digest in digests.items() if not _holds(folder / name, digest)]
    if old is not None and changed:
        write_record(folder, replace(old, files=recorded, coming={name: digests[name] for name in changed}))
    for name in changed:
        content = contents[name]
        if isinstance(content, Path):
            content.replace(folder / name)
        else:
            store.write_bytes(folder / name, content)
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")):
        if path.name not in digests and path.name != "record.json":
            digests[path.name] = recorded.get(path.name) or store.hash_of(path)
    write_record(folder, replace(record, files=dict(sorted(digests.items())), coming={}))


def _readable(folder: Path, contents: Mapping[str, bytes | Path], record: Record) -> dict[str, bytes | Path]:
    """The files that can be read again within the bounds of `benchmark.results.bounded`."""
    kept = dict(contents)
    for name, content in {**contents, "record.json": store.json_bytes(sealed(record.to_json()))}.items():
        try:
            bounded.check_written(name, content.stat().st_size if isinstance(content, Path) else len(content))
        except ValueError as error:
            if name not in _SHOWN:
                raise UserError(
                    f"{folder / name} could not be read again ({error}); test fewer examples or draws"
                ) from error
            logger.warning("%s is left out: %s", folder / name, error)
            del kept[name]
    return kept


@dataclass(frozen=True)
class Held:
    """What a run folder holds before something is added to it.

    Attributes:
        folder: the run folder.
        record: the content of `record.json`; None where the cell is not finished.
        names: of its files.
    """

    folder: Path
    record: bytes | None
    names: frozenset[str]

    @contextmanager
    def back_after(self, *errors: type[Exception]) -> Iterator[None]:
        """Whatever one of these errors ends leaves the folder as it was."""
        try:
            yield
        except errors:
            self.take_back()
            raise

    @staticmethod
    def of(folder: Path) -> "Held":
        """What it holds now."""
        path = folder / "record.json"
        names = frozenset(each.name for each in folder.iterdir()) if folder.is_dir() else frozenset()
        return Held(folder, path.read_bytes() if path.is_file() else None, names)

    def take_back(self) -> None:
        """Make the folder what it was before files were added; one without a record is removed, and its parts with it."""
        if self.record is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        store.write_bytes(self.folder / "record.json", self.record)
        for path in self.folder.iterdir():
            if path.is_file() and path.name not in self.names:
                path.unlink()
        clean(self.folder)


def _digest(content: bytes | Path) -> str:
    return store.hash_of(content) if isinstance(content, Path) else sha256(content).hexdigest()


def _recorded(folder: Path, old: Record) -> dict[str, str]:
    """Digests of the files that the record names, also of those that it only announced before a kill and that are there."""
    return {**old.files, **{name: digest for name, digest in old.coming.items() if _holds(folder / name, digest)}}


def _holds(path: Path, digest: str) -> bool:
    return path.exists() and store.hash_of(path) == digest


def note(path: Path) -> None:
    """Take a new file of a finished cell into its record."""
    if (record := store.find_record(path.parent)) is not None:
        write_record(path.parent, replace(record, files={**record.files, path.name: store.hash_of(path)}))


def write_record(folder: Path, record: Record) -> None:
    """Write `record.json` with its seal."""
    store.write_json(folder / "record.json", sealed(record.to_json()))


def clean(folder: Path) -> None:
    """Remove what only an unfinished cell needs, and what a kill left of files that were being written."""
    for path in (folder / "parts", *folder.glob(".*.*")):
        shutil.rmtree(path, ignore_errors=True)
