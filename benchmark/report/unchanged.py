"""Whether the report that lies in a folder is the one that would be written there, so that nothing is drawn twice.

`drawn/report.json`, written last, holds a digest of all that the report was made from and the SHA-256 of each of its files.
A report that a kill left half-written, a file that was changed or removed, other inputs and other code all differ from it.
"""

import platform
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmark.errors import Corrupt, Missing
from benchmark.report.cells import NamedCell
from benchmark.results import store
from benchmark.results.digests import digest, sealed

_NOTE = Path("drawn", "report.json")
_PACKAGE = Path(__file__).parents[1]
_DRAWING = (
    "matplotlib", "numpy", "pandas", "scipy", "pillow", "contourpy", "kiwisolver", "fonttools", "jinja2", "networkx",
)  # fmt: skip
_READ = ("heatmap.json", "graphs.json")
"""Files of a run folder that a report reads after its record and rows."""


def inputs(cells: Sequence[NamedCell], *others: Any) -> str:
    """Digest of what a report is made from: the cells, these further values, the code, and the packages that draw."""
    return digest([[_of_cell(cell) for cell in cells], *others, _code(), _versions()])


def unchanged(folder: Path, made_from: str) -> list[Path] | None:
    """The files of the report in `folder`; None where it was made from anything else, or is not all there as written."""
    if not (folder / _NOTE).is_file():
        return None
    try:
        said = store.read_sealed(folder / _NOTE)
    except (Corrupt, Missing):
        return None
    files: Mapping[str, str] = said["files"]
    whole = said["inputs"] == made_from and all(_is(folder / name, known) for name, known in files.items())
    return [folder / name for name in files] if whole else None


def note(folder: Path, made_from: str, contents: Mapping[str, bytes]) -> None:
    """Say of which inputs the report in `folder` was made; all of its files lie there already."""
    files = {name: sha256(content).hexdigest() for name, content in contents.items()}
    store.write_json(folder / _NOTE, sealed({"inputs": made_from, "files": files}))


def _is(path: Path, known: str) -> bool:
    return path.is_file() and store.hash_of(path) == known


def _of_cell(cell: NamedCell) -> list[Any]:
    """What a report reads of a cell. Rows are those of its record, which was compared with them when they were read."""
    folder = cell.stored.folder
    read = {name: store.hash_of(folder / name) for name in _READ if (folder / name).is_file()}
    tests = [list(cell.evaluations.items()), list(cell.record.evaluations)]  # in their order
    return [cell.task, cell.model, cell.method, str(folder), cell.record.to_json(), tests, read]


@cache
def _code() -> str:
    """Digest of the package: of its modules, templates and scripts."""
    paths = sorted(path for path in _PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest([[path.relative_to(_PACKAGE).as_posix(), store.hash_of(path)] for path in paths])


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _DRAWING:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
