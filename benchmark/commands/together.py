"""The comparisons of a sweep (`-m KEY=A,B,...`) together: one report over all values, when the last job is done.

Each job is a comparison with a report of its own, perhaps in a process or on a machine of its own. It leaves a note of its
folder under the sweep's name in `out`; the command that began the sweep reads the notes.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

_SWEEP = "ATTENTION_BENCHMARK_SWEEP"
"""Variable that tells a job the name of its sweep."""


@contextmanager
def named(words: Sequence[str]) -> Iterator[str]:
    """The name of the sweep that these words describe, which its jobs know meanwhile; the same words give the same name."""
    name = os.environ[_SWEEP] = sha256("\0".join(words).encode()).hexdigest()[:8]
    try:
        yield name
    finally:
        del os.environ[_SWEEP]


def folder_of(out: Path, name: str) -> Path:
    """Where the report of a sweep goes."""
    return out / "sweeps" / name


def forget(out: Path, name: str) -> None:
    """Take away what jobs of an earlier run of the same words left: their data or their model may have been others."""
    for job in (folder_of(out, name) / "jobs").glob("*.json"):
        job.unlink(missing_ok=True)


def note(out: Path, comparison: Path) -> None:
    """Leave word of a finished comparison where it is a job of a sweep."""
    if name := os.environ.get(_SWEEP):
        from benchmark.results import store  # slow to import, and not needed by most commands

        store.write_json(folder_of(out, name) / "jobs" / f"{comparison.name}.json", {"comparison": comparison.name})


def report(out: Path, name: str, look: Any) -> Path | None:
    """Write the report of all comparisons of a sweep that are done; its page, None where there are fewer than two.

    Raises:
        UserError: a run folder or a comparison is corrupt.
    """
    from benchmark.report import load_cells, write_report
    from benchmark.results.comparison_folders import Compared
    from benchmark.settings.report_settings import ReportSettings

    place = folder_of(out, name)
    places = [out / "comparisons" / job.stem for job in sorted((place / "jobs").glob("*.json"))]
    compared = [Compared.read(folder) for folder in places]
    if len(compared) < 2:
        return None
    folders = sorted({out / cell for one in compared for cell in one.cells})
    same = all(one.tests == compared[0].tests for one in compared)
    write_report(load_cells(folders, compared[0].tests if same else None), place, ReportSettings.read(look))
    return place / "index.html"
