"""The words of a command line, told apart before Hydra sees them: flags, settings, and what is neither."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from benchmark.errors import UserError, near
from benchmark.settings.configuration import ALL, GROUPS, KEYED, options, own_options
from benchmark.settings.own_folder import own_folder, refuse_empty
from benchmark.settings.ways_out import other_option, typed

_DIRECTORY = ("--config-dir", "-cd")
_SHOW = ("--cfg", "-c")
_SWEEP = ("--multirun", "-m")
_VALUED = (*_DIRECTORY, *_SHOW, "--package", "-p")
_PLAIN = (*_SWEEP, "--resolve", "--hydra-help", "--run", "-r", "--shell-completion", "-sc")
_TOLD = ("--help", "--version", "--config-dir", "--cfg", "--resolve", "--multirun", "-m")
_OF_THE_CONSOLE = (
    "run", "train", "check", "report", "bundle", "submit", "merge", "audit", "withdraw", "site", "list", "show",
)  # fmt: skip
_SHOWN = ("job", "hydra", "all")


@dataclass(frozen=True)
class Arguments:
    """A command line.

    Attributes:
        flags: those of Hydra, each value a word of its own.
        overrides: the settings, as they were typed.
        directory: the folder of further YAMLs, absolute.
    """

    flags: tuple[str, ...]
    overrides: tuple[str, ...]
    directory: str | None

    @property
    def sweep(self) -> bool:
        """Whether a comparison is run for each of several values."""
        return bool({*_SWEEP} & {*self.flags})

    @property
    def runs(self) -> bool:
        """Whether there is one comparison to run: no flag asks Hydra for anything else."""
        return all(flag in _DIRECTORY for flag in self.flags[::2])


def read_arguments(words: Sequence[str]) -> Arguments:
    """Flags and settings, in any order.

    Raises:
        UserError: a flag does not exist or lacks its value, or a folder is not there or has a wrong name in it.
    """
    flags: list[str] = []
    overrides: list[str] = []
    directory: str | None = None
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            overrides.append(word)
            continue
        name, has_value, value = word.partition("=")
        if name in _PLAIN and not has_value:
            flags.append(name)
            continue
        if name not in _VALUED:
            raise UserError(_wrong_flag(word, rest))
        if not (value := value if has_value else next(rest, "")):
            raise UserError(f"{name} lacks its value; write {name} VALUE")
        if name in _DIRECTORY:
            directory = value = own_folder(value)
        if name in _SHOW and value not in _SHOWN:
            raise UserError(f"{name} {value}: allowed are {', '.join(_SHOWN)}; --cfg job prints the configuration")
        flags += [name, value]
    return Arguments(tuple(flags), tuple(overrides), directory)


def _wrong_flag(word: str, rest: Iterator[str]) -> str:
    """What is wrong with a word that begins with a dash: mostly a setting, for those have none."""
    name, has_value, value = word.partition("=")
    bare = name.lstrip("-").replace("-", "_")
    following = value if has_value else next(rest, "")
    matches = near(name, _TOLD)
    if has_value or (following and "=" not in following and not following.startswith("-")):
        return f"{word} is no flag; settings have no dashes: {bare}={following or 'VALUE'}"
    return f"{word} is no flag; {matches}"


def parsed(text: str, directory: str | None, others: Sequence[str] = ()) -> tuple[str, Override]:
    """An override as Hydra takes it, and what Hydra makes of it.

    `experiment=NAME` gets the plus sign that Hydra asks for, and a list with `all` in it is `all`.

    Args:
        text: as it was typed.
        directory: one more folder of YAMLs.
        others: all overrides of the command; an experiment among them may have methods of its own.

    Raises:
        UserError: it is no setting, or chooses an option that its group does not have.
    """
    if text.startswith("experiment="):
        text = f"+{text}"
    override = _override(text)
    group = override.key_or_group
    if group in GROUPS and not override.is_sweep_override():
        named = override.value()
        names = [str(name) for name in named] if isinstance(named, list) else [str(named)]
        allowed = options(group, directory)
        if group in KEYED:
            allowed += [*own_options(others, group, directory), ALL]
        if override.is_delete() and named is None:
            return text, override
        for name in names:
            if name not in allowed:
                way_out = _misplaced(group, name, directory) or other_option(group, name, allowed)
                raise UserError(f"{group}={name} does not exist; {way_out}")
            refuse_empty(group, name, directory)
        if ALL in names and len(names) > 1:
            return parsed(f"{text.partition('=')[0]}={ALL}", directory, others)
    return text, override


def _misplaced(group: str, name: str, directory: str | None) -> str:
    """What to do with a file of this name that a folder of YAMLs holds where it is not read; empty where there is none."""
    if directory is None:
        return ""
    place, stem = Path(directory, group), name.removesuffix(".yaml").removesuffix(".yml").rpartition("/")[2]
    if (place / f"{stem}.yaml").is_file():
        return f"choose it by its name: {stem}"
    if (place / f"{stem}.yml").is_file():
        return f"{place / stem}.yml is not read; call it {stem}.yaml"
    beside = (Path(directory, f"{stem}{ending}") for ending in (".yaml", ".yml"))
    found = next((path for path in beside if stem and path.is_file()), None)
    return "" if found is None else f"{found} lies beside the folder of its group; move it to {place / stem}.yaml"


def _override(text: str) -> Override:
    try:
        override: Override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise UserError(_no_setting(text)) from error
    return override


def _no_setting(text: str) -> str:
    key, equals, value = text.partition("=")
    if text in _OF_THE_CONSOLE:
        way_out = f"it is a word of the console command (attention-benchmark {text} ...); leave it out here"
    elif text == "plan":
        way_out = "it comes first: python -m benchmark plan ..."
    elif not equals and not text.startswith("~"):
        way_out = "write NAME=VALUE; --help lists names"
    elif value.startswith(("[", "{")) and any(value.count(a) != value.count(b) for a, b in ("[]", "{}")):
        example = "{NAME: VALUE}" if value.startswith("{") else "[A, B]"
        way_out = f'a bracket is open; write it without spaces, or all of it in quotation marks: "{key}={example}"'
    else:
        quoted = _quoted(key, value)
        way_out = (
            f"{key!r} is no name of one; write NAME=VALUE; --help lists names"
            if quoted is None
            else f"put all of it in quotation marks, and what has special characters in others: {quoted}"
        )
    return f"'{text}' is no setting; {way_out}"


def _quoted(key: str, value: str) -> str | None:
    """The setting as it can be typed; None where it is not the value that Hydra does not read."""
    items = [_bare(item) for item in value[1:-1].split(",")] if value[:1] == "[" and value[-1:] == "]" else None
    spelled = typed(key, _bare(value) if items is None else items)
    try:
        OverridesParser.create().parse_override(shlex.split(spelled or "")[0])
    except (HydraException, IndexError):
        return None
    return spelled


def _bare(value: str) -> str:
    """A value without white space and a pair of quotation marks around it."""
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
