"""Trained once: a checkpoint in the cache under a digest of everything that it depends on."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmark.results.cache import atomic_path, cache_directory
from benchmark.results.locks import beside

_OF_CHECKPOINTS = (".safetensors", ".bin", ".json", ".txt", ".model")


def checkpoint_directory(name: str, covered: Sequence[Any]) -> Path:
    """Where the cache keeps a checkpoint; `covered` is everything that its weights depend on, in a form that JSON writes."""
    key = json.dumps(covered, sort_keys=True)
    return cache_directory() / "models" / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def trained_once(directory: Path, what: str, train: Callable[[Path], None]) -> str:
    """The directory, which `train` fills where the cache does not have it; of several processes one trains.

    Nothing half-written is found there, and the random state of the process is left as it was.

    Args:
        directory: of `checkpoint_directory`.
        what: is trained, for those who wait.
        train: writes the checkpoint to the folder that it is given.
    """
    if directory.is_dir():
        return str(directory)
    with beside(directory, what):
        if not directory.is_dir():  # another process may have trained it
            with atomic_path(directory) as temporary, torch.random.fork_rng(devices=[]):
                train(temporary)
    return str(directory)


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
