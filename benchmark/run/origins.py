"""Under which versions and commit the files of a run folder were computed, which several commands may have added to."""

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

from benchmark.errors import Corrupt, Missing
from benchmark.results import store
from benchmark.results.annotated import as_dataclass
from benchmark.results.digests import sealed
from benchmark.results.record import ROWS, Origin, Record

_LIBRARIES = ("torch", "transformers", "numpy")
_UNFINISHED = Path("parts", "origins.json")


@cache
def today() -> Origin:
    """Those of this process."""
    versions = {name: version(name) for name in _LIBRARIES}
    return Origin(
        versions | {"python": platform.python_version(), "benchmark": version("attention-explainer-benchmark")},
        git_commit(),
    )


def keep(folder: Path, name: str) -> None:
    """Note that something of an unfinished cell was computed under those of this process."""
    noted = {**_noted(folder), name: today()}
    store.write_json(folder / _UNFINISHED, sealed({each: asdict(origin) for each, origin in noted.items()}))


def origins_of(folder: Path, old: Record | None, names: Mapping[str, str]) -> dict[str, Origin]:
    """Under what everything in a cell was computed, sorted by name.

    Args:
        folder: the run folder.
        old: its record as it was; one of an earlier version says the same of all of its files.
        names: of what is asked for, each with the name under which `keep` noted it: a file's own, of rows the test's digest.
    """
    noted, before = _noted(folder), {} if old is None else _before(old)
    return {name: noted.get(names[name]) or before.get(names[name]) or today() for name in sorted(names)}


def _before(old: Record) -> dict[str, Origin]:
    """What a record says of its files by their names, and of the rows of its tests by the tests' digests."""
    earlier = Origin(old.versions, old.git_commit)
    known = {} if old.origins else dict.fromkeys((*old.files, *(f"{ROWS}{name}" for name in old.evaluations)), earlier)
    digests = {f"{ROWS}{name}": test.digest for name, test in old.evaluations.items()}
    return {digests.get(name, name): origin for name, origin in {**known, **old.origins}.items()}


def _noted(folder: Path) -> dict[str, Origin]:
    """What `keep` noted; nothing of a damaged note."""
    try:
        content = store.read_sealed(folder / _UNFINISHED)
        return {name: as_dataclass(Origin, said, name) for name, said in content.items() if name != "seal"}
    except (Corrupt, Missing, ValueError):
        return {}


@cache
def git_commit() -> str | None:
    """The commit that the code is at, with "-dirty" where files differ; None outside a repository."""
    here = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=here, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return commit.stdout.strip() or None
