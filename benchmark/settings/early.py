"""Conditions of a setting that need more than its value: a file on the disk, another setting, or the comparison's names.

They stand in annotations beside choices and ranges, and are looked at when a configuration is read, before any work. An
object that is made in Python is not held to them: what it needs of the disk or of a comparison, it says when it needs it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, get_args, runtime_checkable

from benchmark.errors import UserError, near
from benchmark.settings.sources import read_module

SPLITS = ("train", "validation", "test")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Surroundings:
    """What a setting stands in.

    Attributes:
        siblings: the settings of its object, with the defaults of those that are left out.
        names: of what the comparison has, by group (`methods`, `evaluations`, `analyses`).
        opens: raises UserError for overrides that open no task and model.
    """

    siblings: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Collection[str]] = field(default_factory=dict)
    opens: Callable[[Sequence[str]], None] = lambda _: None


@runtime_checkable
class Early(Protocol):
    """A condition that is looked at when the configuration is read."""

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """What is wrong with `setting=value`, in one line with the way out; None where nothing is."""
        ...


def early_conditions(hint: Any) -> Iterator[Early]:
    """All such conditions of an annotation, those of its parts too."""
    for part in get_args(hint):
        if isinstance(part, Early) and not isinstance(part, type):
            yield part
        yield from early_conditions(part)


@dataclass(frozen=True)
class ExistingFolder:
    """The path of a folder, null aside."""

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """Whether it is there."""
        if value is None or Path(value).expanduser().is_dir():
            return None
        found = "is a file and not a directory" if Path(value).expanduser().exists() else "is not a directory"
        return f"{setting}={value} {found}; give the path of a folder that exists"


@dataclass(frozen=True)
class ExistingFile:
    """The path of a file, null and some words aside."""

    words: tuple[str, ...] = ()

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """Whether it is there."""
        if value is None or value in self.words or Path(value).expanduser().is_file():
            return None
        found = "is a folder" if Path(value).expanduser().is_dir() else "is no file that exists"
        allowed = "".join(f"{word}, or " for word in self.words)
        return f"{setting}={value} {found}; allowed are null, {allowed}the path of a file"


@dataclass(frozen=True)
class FilesBelow:
    """The file of each split, which lies in the folder of another setting where that is given.

    Attributes:
        folder: the setting with the folder.
        instead: the setting that is read in place of the files where it is given and the folder is not.
    """

    folder: str
    instead: str
    allowed: ClassVar[str] = "null, and the file of each split, {test: FILE}"

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """The first that is not there."""
        if unknown := [name for name in value or () if name not in SPLITS]:
            return f"{setting} has the unknown split {unknown[0]!r}; allowed are {', '.join(SPLITS)}"
        root = surroundings.siblings.get(self.folder)
        if not value or (root is None and surroundings.siblings.get(self.instead) is not None):
            return None
        for name, file in value.items():
            if "://" in str(file):
                return f"{setting}.{name}={file} is an address, and files alone are read; download it and name the file"
            path = Path(root or ".").expanduser() / Path(file).expanduser()
            if not path.is_file():
                found = "is a folder" if path.is_dir() else "is missing"
                return f"{path} {found}; set {setting}.{name} to the table of the {name} split"
        return None


@dataclass(frozen=True)
class OrGiven:
    """A setting of which one, or another of some, has to be given.

    Attributes:
        others: the settings that do as well.
    """

    others: tuple[str, ...]

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """Whether all are null."""
        if value is not None or any(surroundings.siblings.get(other) is not None for other in self.others):
            return None
        path = setting.rpartition(".")[0]
        return f"{setting} is not set; give it, or {' or '.join(f'{path}.{other}' for other in self.others)}"


@dataclass(frozen=True)
class NameIn:
    """A name that a module has; nothing is said where the module is not installed.

    Attributes:
        module: dotted.
    """

    module: str

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """Whether the module lacks it."""
        read = read_module(self.module)
        if read is None or value in read.names_bound:
            return None
        return f"{setting}={value} is not in {self.module}; {near(value, sorted(read.names_bound))}"


@dataclass(frozen=True)
class AtMostSetting:
    """A number that may not exceed another setting.

    Attributes:
        other: the setting that bounds it.
    """

    other: str

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """Whether it does."""
        bound = surroundings.siblings[self.other]
        return None if value <= bound else f"{setting}={value}: allowed are numbers up to {self.other}={bound}"


@dataclass(frozen=True)
class OneAbove:
    """A number that is another setting plus one, up to rounding.

    Attributes:
        other: the other setting.
    """

    other: str

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """Whether it is not."""
        other = surroundings.siblings[self.other]
        if abs(value - other - 1) <= _ROUNDING:
            return None
        path = setting.rpartition(".")[0]
        together = f"{setting}={value} and {path}.{self.other}={other} do not go together"
        return f"{together}: {setting.rpartition('.')[2]} - {self.other} = 1 is allowed"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's folder, or the name of one on the Hugging Face hub, which cannot be looked up here.

    Attributes:
        kind: what else it may be of, in words.
    """

    kind: str = "checkpoint"

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """Whether what can only be a path leads to a folder."""
        path = Path(value).expanduser()
        only_a_path = value.startswith((".", "/", "~")) or value.count("/") > 1 or path.exists()
        if not only_a_path or path.is_dir():
            return None
        return f"{setting}={value} is not a directory; give a {self.kind}'s directory or a hub id"


@dataclass(frozen=True)
class OfComparison:
    """One name or several of what the comparison has.

    Attributes:
        group: `methods`, `evaluations` or `analyses`.
    """

    group: str

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """The first name that the comparison lacks."""
        there = surroundings.names.get(self.group)
        missing = [name for name in _names(value) if there is not None and name not in there]
        if not missing or there is None:
            return None
        here = ", ".join(there)
        return f"{setting} names {', '.join(missing)}, which the comparison does not have ({self.group}: {here})"


@dataclass(frozen=True)
class ReadsOneOf:
    """Tests of the comparison that an analysis reads; without all of them it has nothing to say.

    Attributes:
        beside: other settings of the analysis that name tests which it reads.
    """

    beside: tuple[str, ...] = ()

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """Whether the comparison has none."""
        there = surroundings.names.get("evaluations")
        read = [*_names(value), *(name for key in self.beside for name in _names(surroundings.siblings.get(key)))]
        if there is None or {*there} & {*read}:
            return None
        way_out = f"add one: evaluations=[{','.join([*there, read[0]])}]" if read else near("", list(there))
        analysis = setting.rpartition(".")[0]
        return (
            f"{analysis} reads the tests {', '.join(dict.fromkeys(read))}, none of which the comparison has; {way_out}"
        )


def opening(overrides: str | Sequence[str] | None) -> list[str]:
    """The overrides that open a model: those given, or of a text, which names a checkpoint, those of its encoder."""
    if isinstance(overrides, str):
        escaped = overrides.replace("\\", "\\\\").replace("'", "\\'")
        return ["model=encoder", f"model.path='{escaped}'"]
    return [] if overrides is None else list(overrides)


@dataclass(frozen=True)
class Openings:
    """Names with the overrides that open a task and its model.

    Null leaves one out, a text is that of an encoder, and a number the seed of another training of the comparison's model.
    """

    def mistake(self, setting: str, value: Any, surroundings: Surroundings) -> str | None:
        """What is wrong with the first that cannot be opened."""
        for name, overrides in value.items():
            if isinstance(overrides, int):
                continue
            try:
                surroundings.opens(opening(overrides))
            except UserError as error:
                return f"{setting}.{name}: {error}"
        return None


def _names(value: Any) -> list[str]:
    """Names in a setting: itself, its items, or of a mapping's values the first of the first, which the others follow."""
    if isinstance(value, Mapping):
        return next((_names(part)[:1] for part in value.values() if part), [])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [str(name) for name in value]
    return [] if value is None else [str(value)]
