"""Where a method comes from: its package, and the digest of its source."""

import inspect
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.utils import get_object

from benchmark.results import store
from benchmark.types import Compared

SCORES = "methods.given_scores.Scores"
"""Reads explanations that were made elsewhere."""


def package_of(target: str) -> str:
    """Package and version that a class was installed from; empty where it lies in a folder."""
    top = target.partition(".")[0]
    names = packages_distributions().get(top, [])
    return ", ".join(f"{name} {version(name)}" for name in sorted(set(names)))


def source_of(method: Compared, settings: Mapping[str, Any]) -> str:
    """SHA-256 of the Python files that a method comes from, or of a file of scores."""
    if settings["_target_"] == SCORES:
        return store.hash_of(Path(str(settings["path"])))
    files = sorted({path for target in targets_of(settings) for path in files_of(target)})
    hasher = sha256()
    for path in files:
        hasher.update(path.name.encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()


def targets_of(settings: Any) -> list[str]:
    """Every `_target_` in settings, and in those within them."""
    if isinstance(settings, Mapping):
        own = [str(settings["_target_"])] if "_target_" in settings else []
        return own + [target for value in settings.values() for target in targets_of(value)]
    if isinstance(settings, list | tuple):
        return [target for value in settings for target in targets_of(value)]
    return []


def files_of(target: str) -> list[Path]:
    """The Python files of the package that a class comes from; of a module, and of the benchmark's methods, its own."""
    top = target.partition(".")[0]
    spec = find_spec(top)
    if top not in ("methods", "benchmark") and spec is not None and spec.submodule_search_locations:
        return sorted(path for place in spec.submodule_search_locations for path in Path(place).rglob("*.py"))
    source = inspect.getsourcefile(get_object(target))
    return [] if source is None else [Path(source)]
