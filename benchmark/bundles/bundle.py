"""A bundle: one task, one model and some tests in which methods are compared, as a folder that is checked when it is read.

`NAME@MAJOR.MINOR/` holds `bundle.json`, `outputs.parquet` (uid, label, prediction and logits of each example),
`texts.sha256` (uid and the SHA-256 of the example's words), where it is small and was trained here the model, and the run
folders of the methods that the bundle begins with (`methods/<name>-<hash>/`). MAJOR rises where rows of before and after
may not stand in one column: other examples, other weights, another version or setting of a test. MINOR rises where methods
or columns are added.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from benchmark.errors import UserError, near, shorter
from benchmark.results import bounded, store
from benchmark.results.annotated import as_dataclass, as_json
from benchmark.results.digests import DAMAGE, check_seal, digest, sealed
from benchmark.results.record import Version
from benchmark.results.trust import Trust

Kind = TypeVar("Kind")

SCHEMA = 1
FILE, OUTPUTS, TEXTS, WORDS, METHODS, TRUST, MODEL = (
    "bundle.json",
    "outputs.parquet",
    "texts.sha256",
    "texts.jsonl",
    "methods",
    "trust.json",
    "model",
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
KEY = re.compile(rf"{_NAME.pattern}@{_VERSION.pattern}")
"""What a bundle's folder is called, and a submission names."""

ASKED = "???"
"""In settings of a bundle: a folder of whoever opens it, which is given on the command line."""


@dataclass(frozen=True)
class File:
    """A file of a folder that is passed on."""

    sha256: str
    bytes: int

    @staticmethod
    def of(path: Path) -> "File":
        """Of a file that is there."""
        return File(store.hash_of(path), path.stat().st_size)


def files_below(folder: Path, *but: str) -> dict[str, File]:
    """Every file below a folder by its path, sorted, without those of these names at its top.

    Raises:
        UserError: something there is no plain file and no folder; a link could lead anywhere, and change without a trace.
    """
    found = sorted(folder.rglob("*"))
    for path in found:
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UserError(f"{path} is no plain file; a folder that is passed on has no links and no devices")
    named = {path.relative_to(folder).as_posix(): path for path in found if path.is_file()}
    return {name: File.of(path) for name, path in named.items() if name not in but}


def check_files(folder: Path, files: Mapping[str, File], *but: str) -> None:
    """Every file is there and is what it was, and there is no other.

    Raises:
        UserError: one is not, or nobody wrote it; the message names it.
    """
    there = files_below(folder, *but)
    for name, file in files.items():
        if name not in there:
            raise UserError(f"{folder} names {shorter(name, 80)}, which is missing; get the folder again")
        if there[name].sha256 != file.sha256:
            raise UserError(f"{folder / name} is not what was written: its SHA-256 is another; get the folder again")
    if strange := sorted(set(there) - set(files)):
        raise UserError(f"{folder / strange[0]} is none of the files that {folder} names; leave it out")


@dataclass(frozen=True)
class BundledTask:
    """The examples: what a `TaskRecord` says, their identifiers in the order of the run, and the settings of the task."""

    name: str
    version: Version
    split: str
    limit: int | None
    seed: int | None
    n: int
    fingerprint: str
    uids: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class BundledModel:
    """The classifier: what a `ModelRecord` says, and the settings that open it."""

    name: str
    fingerprint: str
    dtype: str
    labels: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class BundledTest:
    """A column's test: its version, digest and statistics, and the settings that make it."""

    name: str
    version: Version
    digest: str
    statistics: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Harness:
    """Of which release and commit the rows are."""

    version: str
    commit: str | None


@dataclass(frozen=True)
class Bundle:
    """What a bundle is.

    Attributes:
        name, version: of the bundle; together they are `key`.
        task, model, tests: what methods are compared in.
        harness: release and commit that computed the rows.
        environment: versions of libraries.
        licence: of the texts or images, in words.
        texts: whether they are part of the bundle: the run folders then have their heatmaps.
        date: when it was made.
        command: that computed the run folders, where it is known.
        files: every other file of the folder.
    """

    name: str
    version: str
    task: BundledTask
    model: BundledModel
    tests: tuple[BundledTest, ...]
    harness: Harness
    environment: Mapping[str, str]
    licence: str
    texts: bool
    date: str
    command: str
    files: Mapping[str, File] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """`NAME@MAJOR.MINOR`, which its folder is called."""
        return f"{self.name}@{self.version}"

    @property
    def place(self) -> str:
        """`NAME@MAJOR`: what results are kept under, since rows of one major version stand in one column."""
        return f"{self.name}@{self.major}"

    @property
    def major(self) -> int:
        """The number that rises where columns are no longer the same."""
        return int(self.version.partition(".")[0])

    @property
    def digests(self) -> dict[str, str]:
        """The identity of each test by its name."""
        return {test.name: test.digest for test in self.tests}

    @cached_property
    def seal(self) -> str:
        """Of its content."""
        return str(sealed(self.to_json())["seal"])

    def to_json(self) -> dict[str, Any]:
        """The content of `bundle.json` without its seal."""
        return {"schema": SCHEMA, **as_json(self)}

    def write(self, folder: Path) -> None:
        """Write `bundle.json`, sealed."""
        store.write_json(folder / FILE, sealed(self.to_json()))

    @staticmethod
    def read(folder: Path) -> "Bundle":
        """The bundle of a folder, every file of it compared with its SHA-256.

        Raises:
            UserError: there is none, or something of it is not what it was.
        """
        lacking = f"{folder} is no bundle; give a folder NAME@MAJOR.MINOR of bundles/"
        bundle = read_as(Bundle, folder / FILE, SCHEMA, lacking)
        check_name(bundle.name, bundle.version)
        if folder.resolve().name != bundle.key:
            raise UserError(f"{folder} holds the bundle {bundle.key}; a bundle's folder is called after it")
        check_files(folder, bundle.files, FILE)
        return bundle


def read_sealed(path: Path, schema: int, lacking: str) -> Mapping[str, Any]:
    """The content of a sealed JSON file of a schema.

    Raises:
        UserError: it is not there (with the words `lacking`), or is something else.
    """
    if not path.is_file():
        raise UserError(lacking)
    try:
        content = bounded.parse_json(bounded.read_bytes(path))
        check_seal(content)
    except DAMAGE as error:
        raise UserError(f"{path} is corrupt ({error}); get it again") from error
    if content.get("schema") != schema:
        raise UserError(f"{path} is of schema {content.get('schema')}, and this version reads {schema}")
    sealed_content: Mapping[str, Any] = content
    return sealed_content


def read_as(kind: type[Kind], path: Path, schema: int, lacking: str) -> Kind:
    """The same as an object of a dataclass.

    Raises:
        UserError: likewise, or a field is missing or of another type.
    """
    content = read_sealed(path, schema, lacking)
    try:
        found: Kind = as_dataclass(kind, content, "")
    except ValueError as error:
        raise UserError(f"{path} is no {kind.__name__.lower()}: {error}") from error
    return found


def check_name(name: str, version: str) -> None:
    """UserError where they cannot be a bundle's."""
    if not _NAME.fullmatch(name):
        raise UserError(f"name={name}: allowed are small letters, digits, - and _")
    if not _VERSION.fullmatch(version):
        raise UserError(f"version={version}: give two numbers, such as 1.0")


def find_bundles(root: Path) -> dict[str, Path]:
    """Folders of bundles by `NAME@MAJOR.MINOR`, in the order of names and then of versions."""
    found = [path.parent for path in root.glob(f"*/{FILE}")] if root.is_dir() else []
    keys = {folder: folder.name.rpartition("@") for folder in found}
    numbers = {
        folder: tuple(map(int, version.split(".")))
        for folder, (_, _, version) in keys.items()
        if _VERSION.fullmatch(version)
    }
    return {folder.name: folder for folder in sorted(numbers, key=lambda folder: (keys[folder][0], numbers[folder]))}


def newest(root: Path, name: str) -> tuple[Bundle, Path]:
    """The newest version of a bundle.

    Raises:
        UserError: there is none of that name.
    """
    folders = [folder for key, folder in find_bundles(root).items() if key.rpartition("@")[0] == name]
    if not folders:
        names = sorted({key.rpartition("@")[0] for key in find_bundles(root)})
        way_out = near(name, names) if names else "say where they are with bundles=FOLDER"
        raise UserError(f"{root} has no bundle '{name}'; {way_out}")
    return Bundle.read(folders[-1]), folders[-1]


def read_trust(path: Path) -> dict[str, Trust]:
    """By `test.metric` what the bundle says of it: which test can be trusted on its examples."""
    content: Mapping[str, Any] = store.read_sealed(path)
    return {name: as_dataclass(Trust, said, name) for name, said in content["columns"].items()}


def words_digest(words: Sequence[str]) -> str:
    """SHA-256 of the words of an example, a line each."""
    return sha256("\n".join(words).encode()).hexdigest()


def tree_digest(files: Mapping[str, File]) -> str:
    """SHA-256 over the paths and contents of a folder's files."""
    return digest({name: file.sha256 for name, file in files.items()})
