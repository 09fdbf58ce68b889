"""A submission: the explanations of one method for the examples of a bundle, with who made them and how."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmark.bundles.bundle import KEY, File, check_files, read_as
from benchmark.errors import UserError, printable, shorter
from benchmark.results import store
from benchmark.results.annotated import as_json
from benchmark.results.digests import sealed
from benchmark.results.record import Version

SCHEMA = 1
FILE, RUN, CHECK = "submission.json", "run", "check.json"

METHOD = re.compile(r"[a-z0-9][a-z0-9_]{0,79}")
"""What a submitted method is called: it is part of paths and of links."""


def check_method_name(name: str) -> None:
    """UserError where a name cannot be that of a submitted method."""
    if not METHOD.fullmatch(name):
        raise UserError(
            f"{shorter(name, 60)!r} is no name of a method: allowed are small letters, digits and _, at most 80"
        )


MOST_LETTERS = 1000
"""Of what an author says."""


def class_of(identity: Any) -> str:
    """The class or function in a method's identity (`benchmark.settings.identity.identity`); empty where there is none."""
    found = identity[1] if isinstance(identity, list) and len(identity) > 1 and identity[0] == "partial" else identity
    return found[0] if isinstance(found, list) and found and isinstance(found[0], str) else ""


Kind = Literal["method", "scores"]
"""Whether a class explains, which can be asked again, or a file of scores does (`methods.given_scores.Scores`)."""


@dataclass(frozen=True)
class Submission:
    """What is said of a submission.

    Attributes:
        bundle: `NAME@MAJOR.MINOR` that it is for, and `bundle_seal` its seal.
        method: its name in the tables, and `version` and `hash` of the record.
        kind: see `Kind`.
        target: the class (or function) that explains; of scores that of the benchmark which reads them.
        package: what it is installed from, with its version; empty where the class lies in a folder.
        source: SHA-256 of the package's Python files, or of the file of scores.
        author, licence: as the author says them.
        command: that made the submission.
        machine: system and processor.
        seconds: that explaining took.
        date: when it was made.
        harness: release of the benchmark.
        files: every other file of the folder.
    """

    bundle: str
    bundle_seal: str
    method: str
    version: Version
    hash: str
    kind: str
    target: str
    package: str
    source: str
    author: str
    licence: str
    command: str
    machine: str
    seconds: float
    date: str
    harness: str
    files: Mapping[str, File] = field(default_factory=dict)

    @property
    def seal(self) -> str:
        """Of its content."""
        return str(sealed(self.to_json())["seal"])

    def to_json(self) -> dict[str, Any]:
        """The content of `submission.json` without its seal."""
        return {"schema": SCHEMA, **as_json(self)}

    def write(self, folder: Path) -> None:
        """Write `submission.json`, sealed."""
        store.write_json(folder / FILE, sealed(self.to_json()))

    @staticmethod
    def read(folder: Path, *but: str) -> "Submission":
        """The submission of a folder, every file of it compared with its SHA-256, without files of these names.

        Raises:
            UserError: there is none, or something of it is not what it was.
        """
        lacking = f"{folder} is no submission; give the folder that `attention-benchmark submit` wrote"
        found = read_as(Submission, folder / FILE, SCHEMA, lacking)
        found._check(folder / FILE)
        check_files(folder, found.files, FILE, *but)
        return found

    def _check(self, path: Path) -> None:
        """UserError where a field is of another form than `submit` writes."""
        forms = {
            "bundle": (self.bundle, KEY),
            "method": (self.method, METHOD),
            "hash": (self.hash, re.compile(r"[0-9a-f]{64}")),
            "kind": (self.kind, re.compile("method|scores")),
            "target": (self.target, re.compile(r"[A-Za-z_][\w.]{0,300}")),
            "harness": (self.harness, re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(\.\w{1,20})*")),
            "date": (self.date, re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
        }
        for name, (value, form) in forms.items():
            if not form.fullmatch(value):
                raise UserError(
                    f"{path}: {name}={shorter(value, 60)} is of another form than `submit` writes; submit again"
                )
        for name in ("package", "author", "licence", "command", "machine"):
            if len(value := getattr(self, name)) > MOST_LETTERS or printable(value) != value:
                raise UserError(f"{path}: {name} has more than {MOST_LETTERS} letters, or letters that cannot be shown")
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise UserError(f"{path}: seconds={self.seconds} is no time")

    def run(self, folder: Path) -> Path:
        """The run folder in the folder of the submission.

        Raises:
            UserError: there is none: numbers alone are refused.
        """
        found = sorted(path.parent for path in (folder / RUN).glob("*/record.json"))
        if len(found) != 1:
            raise UserError(
                f"{folder} has {len(found)} run folders in {RUN}/, and one is asked for: figures alone cannot be computed "
                "again and are refused; `attention-benchmark submit` puts the explanations there"
            )
        return found[0]
