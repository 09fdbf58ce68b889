"""Changes of a run folder, after each of which, and after a kill in between, it reads as before or as after.

The folder's lock must be held.
"""

import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmark.results import store
from benchmark.results.digests import sealed


def commit(folder: Path, contents: Mapping[str, bytes], record: Mapping[str, Any]) -> None:
    """Finish a cell, or replace files and record of a finished one; its lock must be held.

    The record is written last and makes the cell whole. Where there is one, it first announces the files that come, so that
    a kill at any moment leaves a cell that reads as before or as after.

    Args:
        folder: the run folder.
        contents: files by name.
        record: what `record.json` says beside the digests.
    """
    old = store.read_record(folder) if (folder / "record.json").exists() else {}
    known = _known(folder, old)
    hashes = {name: sha256(content).hexdigest() for name, content in contents.items()}
    changed = [
        name for name, own in hashes.items() if not (folder / name).exists() or store.hash_of(folder / name) != own
    ]
    if known and changed:
        write_record(folder, {**old, "files": known, "coming": {name: hashes[name] for name in changed}})
    for name in changed:
        store.write_bytes(folder / name, contents[name])
    there = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    for path in there:
        if path.name not in hashes and path.name != "record.json":
            hashes[path.name] = known.get(path.name) or store.hash_of(path)
    write_record(folder, {**record, "files": hashes})


def _known(folder: Path, old: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the files that the record knows; a kill may have left one that it only announced."""
    if old.get("schema") != store.SCHEMA:
        return {}
    announced = old.get("coming", {}).items()
    come = {name: own for name, own in announced if (folder / name).exists() and store.hash_of(folder / name) == own}
    return {**old["files"], **come}


def note(path: Path) -> None:
    """Take a new file of a finished cell into its record; the cell's lock must be held."""
    if (path.parent / "record.json").exists() and (record := store.read_record(path.parent))["schema"] == store.SCHEMA:
        write_record(path.parent, {**record, "files": {**record["files"], path.name: store.hash_of(path)}})


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write `record.json` with its seal."""
    store.write_json(folder / "record.json", sealed(record))


def clean(folder: Path) -> None:
    """Remove what only an unfinished cell needs, and what a kill left of files that were being written.

    The folder's lock must be held: then nobody else is writing here.
    """
    for path in (folder / "parts", *folder.glob(".*.*")):
        shutil.rmtree(path, ignore_errors=True)
