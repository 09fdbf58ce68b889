"""Make a submission: the bundle is opened, the method checked, and its explanations of all examples stored and tested."""

import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from benchmark.bundles.bundle import Bundle, files_below
from benchmark.bundles.making import copy_run
from benchmark.bundles.opening import open_bundle, tests_of
from benchmark.bundles.sources import SCORES, package_of, source_of
from benchmark.bundles.submission import RUN, Kind, Submission, check_method_name, class_of
from benchmark.checking.methods import check
from benchmark.checking.report import Report
from benchmark.errors import UserError, one_line
from benchmark.results import bounded, store
from benchmark.results.cache import atomic_path
from benchmark.run.steps import finish
from benchmark.settings.defaults import whole
from benchmark.settings.identity import identity
from benchmark.settings.making import make
from benchmark.types import Method, as_compared

_FATAL = (("form", "fail"), ("class", "fail"))
"""Checks without which nothing can be computed, or would be told wrongly."""


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
    check_method_name(name)
    method = as_compared(make(OmegaConf.create({name: dict(settings)})[name]))
    if not isinstance(method, Method):
        raise UserError(f"{name} explains no single examples, which a submission holds")
    target = class_of(identity(method))
    settings = {**settings, "_target_": target}  # where the class is defined, and not where it can be had as well
    kind: Kind = "scores" if target == SCORES else "method"
    report = None if kind == "scores" else check(method, name=name)
    if report is not None and (failed := [one for one in report.outcomes if (one.check, one.status) in _FATAL]):
        raise UserError(
            f"{name} cannot be submitted, as {failed[0]}; mend it, or what its class declares (class_specific)"
        )
    setting, tests = open_bundle(bundle, folder, overrides), tests_of(bundle)
    with tempfile.TemporaryDirectory(prefix="submit-") as scratch:
        setting.config.out = scratch
        cell = setting.cell(name, method, whole(dict(settings)))
        finish(cell, tests)
        record = store.read_record(cell.folder)
        if record.dash is not None or not record.evaluations:
            raise UserError(f"{name} gives no explanations here: {record.dash}")
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
                target=target,
                package=package_of(target),
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
