"""Make a submission: the bundle is opened, the method checked, and its explanations of all examples stored and tested."""

import inspect
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.utils import get_object
from omegaconf import OmegaConf

from benchmark.bundles.bundle import Bundle, files_below
from benchmark.bundles.making import copy_run
from benchmark.bundles.opening import open_bundle, tests_of
from benchmark.bundles.submission import RUN, Kind, Submission
from benchmark.checking.methods import check
from benchmark.checking.report import Report
from benchmark.errors import UserError, one_line
from benchmark.results import bounded, store
from benchmark.results.cache import atomic_path
from benchmark.run.steps import finish
from benchmark.settings.defaults import whole
from benchmark.settings.making import make
from benchmark.types import Compared, Method, as_compared

SCORES = "methods.given_scores.Scores"
"""Reads explanations that were made elsewhere."""


@dataclass(frozen=True)
class Author:
    """Who submits, and under which licence; as they say it."""

    name: str
    licence: str


@dataclass(frozen=True)
class Submitted:
    """What was written.

    Attributes:
        folder: of the submission.
        report: of the method's check; None of scores that were made elsewhere.
        tests: names of the bundle's tests.
    """

    folder: Path
    report: Report | None
    tests: Sequence[str]


def read_method(path: Path) -> tuple[str, dict[str, Any]]:
    """Name and settings of the method in a YAML, which has the form of those in `conf/methods`.

    Raises:
        UserError: it holds something else than one method.
    """
    try:
        content = bounded.parse_yaml(bounded.read_bytes(path))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({one_line(error)}); give a YAML with one method: NAME: {{_target_: ...}}"
        ) from error
    if not isinstance(content, dict) or len(content) != 1 or not isinstance(next(iter(content.values())), dict):
        raise UserError(f"{path}: expected one method, NAME: {{_target_: package.Class, setting: value}}")
    ((name, settings),) = content.items()
    if "_target_" not in settings:
        raise UserError(f"{path}: {name} has no _target_, the class or the function that explains")
    return str(name), settings


def submit(
    name: str,
    settings: Mapping[str, Any],
    bundle: Bundle,
    folder: Path,
    out: Path,
    author: Author,
    date: str,
    command: str,
    overrides: Sequence[str] = (),
) -> Submitted:
    """Explain the examples of a bundle with a method, and write the submission to `out`.

    Args:
        name: of the method in the tables.
        settings: of the method, with `_target_`.
        bundle: that it is compared in, and `folder` where it lies.
        out: folder of the submission, which must not be there.
        author: who submits.
        date: as YYYY-MM-DD.
        command: that was typed.
        overrides: folders of this machine that the bundle asks for.

    Raises:
        UserError: the method cannot be made, explains nothing here, or the bundle cannot be opened as it was.
    """
    if out.exists():
        raise UserError(f"out={out} is there already; name another folder, or remove it")
    method = as_compared(make(OmegaConf.create({name: dict(settings)})[name]))
    if not isinstance(method, Method):
        raise UserError(f"{name} explains no single examples, which a submission holds")
    kind: Kind = "scores" if settings["_target_"] == SCORES else "method"
    setting, tests = open_bundle(bundle, folder, overrides), tests_of(bundle)
    report = None if kind == "scores" else check(method, name=name)
    with tempfile.TemporaryDirectory(prefix="submit-") as scratch:
        setting.config.out = scratch
        cell = setting.cell(name, method, whole(dict(settings)))
        finish(cell, tests)
        record = store.read_record(cell.folder)
        if record.dash is not None or not record.evaluations:
            raise UserError(f"{name} explains nothing here: {record.dash}")
        with atomic_path(out) as place:
            place.mkdir(parents=True)
            copy_run(cell.folder, place / RUN / cell.folder.name, texts=False)
            if report is not None:
                report.write(place)
            said = Submission(
                bundle=bundle.key,
                bundle_seal=bundle.seal,
                method=name,
                version=record.method.version,
                hash=record.hash,
                kind=kind,
                target=str(settings["_target_"]),
                package=package_of(str(settings["_target_"])),
                source=source_of(method, settings),
                author=author.name,
                licence=author.licence,
                command=command,
                machine=f"{platform.system()} {platform.machine()}",
                seconds=record.cost.seconds or 0.0,
                date=date,
                harness=version("attention-explainer-benchmark"),
            )
            replace(said, files=files_below(place)).write(place)
    return Submitted(out, report, list(tests))


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
