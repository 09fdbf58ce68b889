"""Trained once: a checkpoint in the cache under a digest of everything that it depends on.

Its name can be known beforehand, and a disk may fail: it is used where every file is what was written, by this user,
and nobody else may write it. Else it is trained anew, with a line.
"""

import hashlib
import json
import logging
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from benchmark.errors import Missing, UserError, one_line
from benchmark.results import store
from benchmark.results.cache import atomic_path, cache_directory
from benchmark.results.digests import sealed
from benchmark.results.locks import beside

logger = logging.getLogger(__name__)

_OF_CHECKPOINTS = (".safetensors", ".bin", ".json", ".txt", ".model")


def checkpoint_directory(name: str, covered: Sequence[Any]) -> Path:
    """Where the cache keeps a checkpoint; `covered` is everything that its weights depend on, in a form that JSON writes."""
    key = json.dumps(covered, sort_keys=True)
    return cache_directory() / "models" / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def trained_once(directory: Path, what: str, train: Callable[[Path], None]) -> str:
    """The directory, which `train` fills where the cache has none that can be trusted; of several processes one trains.

    Nothing half-written is found there, and the random state of the process is left as it was.

    Args:
        directory: of `checkpoint_directory`.
        what: is trained, for those who wait.
        train: writes the checkpoint to the folder that it is given.

    Raises:
        UserError: what lies there cannot be trusted, nor removed.
    """
    if not is_whole(directory):
        with beside(directory, what):
            if not is_whole(directory):  # another process may have trained it
                discard(directory, what)
                with atomic_path(directory, _OTHERS_WRITE) as temporary, torch.random.fork_rng(devices=[]):
                    train(temporary)
                    finish(temporary)
        _warn_of_modes(directory)
    return str(directory)


_DIGESTS = "digests.json"
"""SHA-256 of every other file of a checkpoint, and the name of its folder, sealed."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_WHOLE: dict[Path, tuple[Any, ...]] = {}
"""Checkpoints that this process has compared with their digests, with size and time of each of their files."""


def is_whole(directory: Path) -> bool:
    """Whether a checkpoint of the cache is there and can be trusted; its files are read once per process."""
    return flaw(directory) is None


def finish(folder: Path) -> None:
    """Write the digests of all files of a checkpoint beside them; the folder has its last name already."""
    files = {path.relative_to(folder).as_posix(): store.hash_of(path) for path in _files(folder)}
    store.write_json(folder / _DIGESTS, sealed({"name": folder.name, "files": files}))


def flaw(directory: Path) -> str | None:
    """Why a checkpoint of the cache is not used as it lies there; None where it is what was written."""
    if not os.path.lexists(directory):
        return "it is not there"
    places = [directory, *directory.rglob("*")]
    if reason := next(filter(None, map(_distrust, places)), None):
        return reason
    seen = tuple((str(path), *_state(path)) for path in places)
    if _WHOLE.get(directory) == seen:
        return None
    try:
        said = store.read_sealed(directory / _DIGESTS)
        expected = (said["name"], said["files"])
    except (UserError, LookupError) as error:
        missing = isinstance(error, Missing)
        return "it has no digests" if missing else f"its digests cannot be read ({one_line(error)})"
    found = {path.relative_to(directory).as_posix(): store.hash_of(path) for path in _files(directory)}
    if (directory.name, found) != expected:
        differ = sorted(name for name in {*found, *expected[1]} if found.get(name) != expected[1].get(name))
        return f"{differ[0]} is not what was written" if differ else "it was written for another model"
    _WHOLE[directory] = seen
    return None


def discard(directory: Path, what: str) -> None:
    """Remove what cannot be trusted from the cache, and say why; its lock must be held.

    Raises:
        UserError: it cannot be removed.
    """
    if (reason := flaw(directory)) is None or not os.path.lexists(directory):
        return
    logger.warning("%s in the cache is trained anew, as %s (%s)", what, reason, directory)
    if directory.is_symlink() or not directory.is_dir():
        with suppress(OSError):
            directory.unlink()
    shutil.rmtree(directory, ignore_errors=True)
    if os.path.lexists(directory):
        raise UserError(
            f"{directory}: {reason}, and it cannot be removed; set ATTENTION_BENCHMARK_CACHE to a folder of your own"
        )


def forget(directory: Path, what: str) -> None:
    """Remove a checkpoint of the cache that nobody will ask for again."""
    with beside(directory, what):
        shutil.rmtree(directory, ignore_errors=True)


def discard_foreign(work: Path) -> None:
    """Remove the state of an unfinished training where somebody else may have written it."""
    if os.path.lexists(work) and any(map(_distrust, [work, *work.rglob("*")])):
        logger.warning("%s: the state of an unfinished training is not used, as others may have written it", work)
        if work.is_symlink():
            work.unlink()
        shutil.rmtree(work, ignore_errors=True)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _DIGESTS)


def _state(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _distrust(path: Path) -> str | None:
    """Why somebody else may have written a file or folder: its kind, its owner (root is trusted) or its mode."""
    found = path.lstat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return f"{path.name} is no regular file"
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path.name} belongs to another user"
    return f"others may write {path.name}" if found.st_mode & _OTHERS_WRITE else None


def _warn_of_modes(directory: Path) -> None:
    if reason := flaw(directory):
        logger.warning(
            "%s: %s, though it was just written; set ATTENTION_BENCHMARK_CACHE to a folder of a file system that keeps "
            "owners and modes, or it is trained anew every time",
            directory,
            reason,
        )


def write_record(directory: Path, record: dict[str, Any]) -> None:
    """`training.json` beside the weights: how they came about."""
    (directory / "training.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def source_digest(source: str) -> str:
    """SHA-256 over names and contents of a checkpoint's files; of an id of the hub that id."""
    folder = Path(source)
    if not folder.is_dir():
        return source
    state = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.suffix in _OF_CHECKPOINTS):
        content = file.read_bytes()
        state.update(f"{file.name}\0{len(content)}\0".encode() + content)
    return state.hexdigest()
