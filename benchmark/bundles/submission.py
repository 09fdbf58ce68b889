"""A submission: the explanations of one method for the examples of a bundle, with who made them and how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmark.bundles.bundle import File, check_files, read_sealed
from benchmark.errors import UserError
from benchmark.results import store
from benchmark.results.annotated import as_dataclass, as_json
from benchmark.results.digests import sealed
from benchmark.results.record import Version

SCHEMA = 1
FILE, RUN, CHECK = "submission.json", "run", "check.json"

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
    def read(folder: Path) -> "Submission":
        """The submission of a folder, every file of it compared with its SHA-256.

        Raises:
            UserError: there is none, or something of it is not what it was.
        """
        lacking = f"{folder} is no submission; give the folder that `attention-benchmark submit` wrote"
        content = read_sealed(folder / FILE, SCHEMA, lacking)
        try:
            found: Submission = as_dataclass(Submission, content, "")
        except ValueError as error:
            raise UserError(f"{folder / FILE} is no submission: {error}") from error
        check_files(folder, found.files)
        return found

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
