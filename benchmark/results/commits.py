"""Changes of a run folder, after each of which, and after a kill in between, it reads as before or as after.

The folder's lock must be held.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from benchmark.results import store
from benchmark.results.digests import sealed
from benchmark.results.record import Record


def commit(folder: Path, contents: Mapping[str, bytes], record: Record) -> None:
    """Finish a cell, or replace files and record of a finished one; its lock must be held.

    The record is written last and makes the cell whole. Where there is one, it first announces the files that come, so that
    a kill at any moment leaves a cell that reads as before or as after.

    Args:
        folder: the run folder.
        contents: files by name.
        record: without the digests of files, which are added.
    """
    old = store.find_record(folder)
    known = {} if old is None else _known(folder, old)
    hashes = {name: sha256(content).hexdigest() for name, content in contents.items()}
    changed = [
        name for name, own in hashes.items() if not (folder / name).exists() or store.hash_of(folder / name) != own
    ]
    if old is not None and changed:
        write_record(folder, replace(old, files=known, coming={name: hashes[name] for name in changed}))
    for name in changed:
        store.write_bytes(folder / name, contents[name])
    there = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    for path in there:
        if path.name not in hashes and path.name != "record.json":
            hashes[path.name] = known.get(path.name) or store.hash_of(path)
    write_record(folder, replace(record, files=hashes, coming={}))


def _known(folder: Path, old: Record) -> dict[str, str]:
    """Digests of the files that the record knows; a kill may have left one that it only announced."""
    announced = old.coming.items()
    come = {name: own for name, own in announced if (folder / name).exists() and store.hash_of(folder / name) == own}
    return {**old.files, **come}


def note(path: Path) -> None:
    """Take a new file of a finished cell into its record; the cell's lock must be held."""
    if (record := store.find_record(path.parent)) is not None:
        write_record(path.parent, replace(record, files={**record.files, path.name: store.hash_of(path)}))


def write_record(folder: Path, record: Record) -> None:
    """Write `record.json` with its seal."""
    store.write_json(folder / "record.json", sealed(record.to_json()))


def clean(folder: Path) -> None:
    """Remove what only an unfinished cell needs, and what a kill left of files that were being written.

    The folder's lock must be held: then nobody else is writing here.
    """
    for path in (folder / "parts", *folder.glob(".*.*")):
        shutil.rmtree(path, ignore_errors=True)
