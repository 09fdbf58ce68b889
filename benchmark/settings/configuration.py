"""Compose configurations by name: what the command, the Python API and the tests share.

An experiment names methods, tests, analyses, a task and a model, and sets some of their settings. A command that chooses
among them (`methods=[rollout,random]`, `model=hf`) takes the settings of what it chose; those of the others go with them.
"""

import logging
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

import hydra
import yaml  # type: ignore[import-untyped]  # has no types
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from benchmark.errors import UserError, near, one_line
from benchmark.settings.defaults import additions
from benchmark.settings.ways_out import in_plain_words

logger = logging.getLogger(__name__)

CONFIG_MODULE = "conf"
GROUPS = ("task", "model", "methods", "evaluations", "analyses", "tracking", "engine", "experiment")
KEYED = ("methods", "evaluations", "analyses")
"""Groups of which a comparison has several, by name."""

ALL = "all"

Plain = Mapping[str, Any]

_SINGLE = ("task", "model")
"""Groups of which an experiment chooses one, and sets some of its settings."""
_OF_HYDRA = "hydra."
"""How settings of Hydra itself begin, those of a launcher among them."""


def compose(config_name: str | None, overrides: Sequence[str] = (), directory: str | None = None) -> DictConfig:
    """The configuration that these overrides describe.

    Args:
        config_name: a YAML of `conf/` without its ending, or None for the overrides alone.
        overrides: in Hydra's syntax.
        directory: one more folder of YAMLs, as `--config-dir` gives.

    Returns:
        The composed configuration, unresolved.

    Raises:
        UserError: an option, key or value does not exist; one line, with near matches.
    """
    return settled(config_name, overrides, directory)[1]


def settled(
    config_name: str | None, overrides: Sequence[str], directory: str | None = None
) -> tuple[list[str], DictConfig]:
    """The overrides as Hydra takes them, and the configuration that they compose to, see `compose`.

    Those of settings that a YAML leaves to its class get the form in which Hydra adds a setting.

    Raises:
        UserError: an option, key or value does not exist; one line, with near matches.
    """
    _tell_left_out(config_name, overrides, directory)
    if config_name is not None:
        overrides = _with_additions(config_name, overrides, directory)
    try:
        return list(overrides), _composed(config_name, overrides, directory)
    except _UnknownKey as error:
        (unknown,) = error.args
    if unknown.startswith(_OF_HYDRA):
        raise UserError(f"{unknown} is no setting of Hydra's; --cfg hydra prints those there are")
    others = [text for text in overrides if _key(text) != unknown and not _is_value(text)]
    try:
        plain = OmegaConf.to_container(_composed(config_name, others, directory), resolve=False)
    except _UnknownKey as error:
        raise UserError(f"{error.args[0]} is no setting") from error
    chosen: list[str] = []
    for text in overrides:
        of_class = _is_value(text) or _key(text) == unknown
        before = additions(cast(dict[str, Any], plain), _key(text)) if of_class else None
        chosen += [text] if before is None else [*before, f"++{text}"]
    try:
        return chosen, _composed(config_name, chosen, directory)
    except _UnknownKey as error:
        (key,) = error.args
        raise UserError(f"{key} has other settings; set each by itself: {key}._target_=..., {key}.NAME=...") from error


def _with_additions(config_name: str, overrides: Sequence[str], directory: str | None) -> list[str]:
    """The overrides, with two plus signs before a setting that is there already.

    Raises:
        UserError: a plus sign adds a setting beside all others, where nothing would read it.
    """
    added = [text for text in overrides if text.startswith("+") and _plain_key(text) not in GROUPS]
    if not added:
        return list(overrides)
    others = [text for text in overrides if text not in added and not _is_value(text)]
    try:
        config = _composed(config_name, others, directory)
    except (UserError, _UnknownKey):
        return list(overrides)  # composing all of them says it as well
    for text in added:
        name = _plain_key(text).partition(".")[0]
        if name not in (*config, *GROUPS, "hydra") and not any(f"${{{name}" in other for other in overrides):
            raise UserError(f"{text}: there is no setting '{name}'; {near(name, [*map(str, config), 'experiment'])}")
    return [
        f"++{text.lstrip('+')}" if text in added and _key(text).lstrip("+") in config else text for text in overrides
    ]


class _UnknownKey(Exception):  # noqa: N818 - an answer of Hydra's
    """No YAML has this key."""


def _composed(config_name: str | None, overrides: Sequence[str], directory: str | None) -> DictConfig:
    """A copy of what these overrides compose to, which a command asks for several times over."""
    composed: DictConfig = pickle.loads(_pickled(config_name, tuple(overrides), directory, _written(directory)))
    return composed


def _written(directory: str | None) -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every YAML in a further folder, which may change while the process lives; `conf/` does not."""
    found = []
    for folder, _, names in os.walk(directory) if directory else ():
        for name in names:
            if name.endswith(".yaml"):
                with suppress(FileNotFoundError):  # others may write there, and take away, meanwhile
                    stat = (path := Path(folder, name)).stat()
                    found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return tuple(sorted(found))


@lru_cache(maxsize=512)
def _pickled(
    config_name: str | None,
    overrides: tuple[str, ...],
    directory: str | None,
    written: tuple[tuple[str, int, int], ...],  # what is kept holds for these files
) -> bytes:
    """What these overrides compose to, pickled: to read it again takes less than a hundredth of composing it."""
    _offer_all(directory)
    try:
        with _own_hydra():
            searched = [f"hydra.searchpath=[file://{directory}]"] if directory else []
            experiment = _experiment_of(config_name, overrides, directory)
            _offer_own(experiment)
            config: DictConfig = hydra.compose(config_name, [*searched, *overrides])
        return pickle.dumps(config if experiment is None else _as_chosen(config, experiment, overrides, directory))
    except yaml.YAMLError as error:
        raise UserError(f"a YAML is broken: {one_line(error)}") from error
    except (HydraException, OmegaConfBaseException) as error:
        if unknown := re.match(r"Could not override '([^']+)'", str(error)):
            raise _UnknownKey(unknown[1]) from error
        raise UserError(in_plain_words(error, options)) from error


@contextmanager
def _own_hydra() -> Iterator[None]:
    """Hydra on `conf/`, whether or not the command has set it up already."""
    previous = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_module(version_base="1.3", config_module=CONFIG_MODULE, job_name="benchmark"):
            yield
    finally:
        GlobalHydra.instance().clear()
        if previous is not None:
            GlobalHydra.instance().initialize(previous)


def _key(override: str) -> str:
    """What stands before the equals sign of an override."""
    return override.partition("=")[0]


def _plain_key(override: str) -> str:
    """What an override sets, without the signs before and the package behind it."""
    return _key(override).lstrip("+~").partition("@")[0]


def _names(override: str) -> list[str]:
    """The options that an override chooses; none where it chooses several lists, or its value is no list of names."""
    try:
        value = yaml.safe_load(override.partition("=")[2] or "[]")
    except yaml.YAMLError:
        return []
    return [str(name) for name in (value if isinstance(value, list) else [value])]


def _is_value(override: str) -> bool:
    """Whether an override sets a value deep in the configuration, which others do not depend on."""
    key = _key(override)
    if key.startswith(_OF_HYDRA):
        return False
    return "." in key and "@" not in key and key[0] not in "+~" and not key.endswith("._target_")


@dataclass(frozen=True)
class Experiment:
    """What YAMLs of `conf/experiment` say.

    Attributes:
        options: of groups with one option: which one is chosen.
        parts: by group, what is set there.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Plain] = field(default_factory=dict)

    def own(self, group: str) -> dict[str, Plain]:
        """The methods, tests or analyses that the experiment itself makes, by name, rather than choosing them."""
        named = self.parts.get(group, {})
        return {name: part for name, part in named.items() if isinstance(part, Mapping) and "_target_" in part}

    def over(self, other: "Experiment") -> "Experiment":
        """This one, read after another."""
        groups = {*self.parts, *other.parts}
        parts = {group: {**other.parts.get(group, {}), **self.parts.get(group, {})} for group in groups}
        return Experiment({**other.options, **self.options}, parts)


def held_to_choice(config: DictConfig, overrides: Sequence[str], directory: str | None = None) -> DictConfig:
    """A configuration that Hydra composed by itself, as for a job of a sweep, as `compose` gives it."""
    experiment = _experiment_of("config", overrides, directory)
    return config if experiment is None else _as_chosen(config, experiment, overrides, directory)


def own_options(overrides: Sequence[str], group: str, directory: str | None = None) -> list[str]:
    """Names of the methods, tests or analyses that the experiment in these overrides makes itself."""
    experiment = _experiment_of("config", overrides, directory)
    return [] if experiment is None else list(experiment.own(group))


def _experiment_of(config_name: str | None, overrides: Sequence[str], directory: str | None) -> Experiment | None:
    """The experiment that overrides choose, over what the configuration itself chooses; None where there is none."""
    names = [_names(text) for text in overrides if _plain_key(text) == "experiment"]
    if not names or config_name is None:
        return None
    found = _read(config_name, directory)
    for name in names[-1]:
        found = _read(f"experiment/{name}", directory).over(found)
    return found


def _offer_own(experiment: Experiment | None) -> None:
    """Make what an experiment makes itself an option, so that a command can choose it among others."""
    if experiment is None:
        return
    for group in KEYED:
        for name, part in experiment.own(group).items():
            ConfigStore.instance().store(group=group, name=name, node={name: part}, provider="benchmark")


def _as_chosen(
    config: DictConfig, experiment: Experiment, overrides: Sequence[str], directory: str | None
) -> DictConfig:
    """The configuration, changed in place: without what the experiment sets of parts that the command did not choose.

    What the command sets itself stays, so that a mistake in it is found. A command that adds to a list
    (`+analyses=over_seeds`) chooses all that the experiment has.
    """
    with open_dict(config):
        for group, names, keys in _not_chosen(experiment, overrides):
            if group in KEYED:
                _leave_out(config, group, keys, names)
            else:
                _put_back(config, group, keys, compose(None, [f"+{group}={names[0]}"], directory)[group])
    return config


def _not_chosen(experiment: Experiment, overrides: Sequence[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Groups in which a command chooses for itself, what it chooses there, and what it does not set of the experiment's."""
    typed = [_plain_key(text) for text in overrides]
    chosen = {
        key: _names(text)
        for key, text in zip(typed, overrides, strict=True)
        if key in (*KEYED, *_SINGLE)
        and "@" not in text.partition("=")[0]  # a part of a part, such as the task whose examples a task is made of
        and not (text.startswith("+") and key in KEYED)
    }

    def is_typed(path: str) -> bool:
        return any(key == path or key.startswith(f"{path}.") for key in typed)

    for group, names in chosen.items():
        if group in KEYED or ([experiment.options.get(group)] != names and len(names) == 1):
            yield group, names, [key for key in experiment.parts.get(group, {}) if not is_typed(f"{group}.{key}")]


def _tell_left_out(config_name: str | None, overrides: Sequence[str], directory: str | None) -> None:
    """Tell which settings of an experiment's task or model do not hold, since the command chooses another one."""
    if (experiment := _experiment_of(config_name, overrides, directory)) is None:
        return
    for group, names, keys in _not_chosen(experiment, overrides):
        if keys and group in _SINGLE:
            said = ", ".join(f"{group}.{key}={experiment.parts[group][key]}" for key in keys)
            _tell(f"{group}={names[0]} is not the experiment's {group}, whose settings are left out: {said}")


@cache  # a command composes its configuration more than once
def _tell(line: str) -> None:
    logger.warning("%s", line)


def _leave_out(config: DictConfig, group: str, keys: Sequence[str], names: Sequence[str]) -> None:
    """Delete what an experiment sets (`keys`) in a group of which the command chose these names."""
    held = config.get(group) or {}
    for key in keys:
        has_class = key in held and isinstance(held[key], DictConfig) and "_target_" in held[key]
        if key in held and key not in names and not (has_class and ALL in names):
            del held[key]


def _put_back(config: DictConfig, group: str, keys: Sequence[str], option: DictConfig) -> None:
    """Give what an experiment sets (`keys`) in a group the values that the chosen option has by itself."""
    held = config.get(group) or {}
    for key in keys:
        if key in option:
            held[key] = option._get_node(key)  # an interpolation stays one
        elif key in held:
            del held[key]


def _read(name: str, directory: str | None) -> Experiment:
    """What a YAML chooses and sets, with the experiments that it begins with."""
    content = _content(name, directory)
    folder = name.rpartition("/")[0]
    found = Experiment()
    chosen: dict[str, str] = {}
    for entry in content.get("defaults") or ():
        if isinstance(entry, str) and entry != "_self_" and folder:
            found = _read(f"{folder}/{entry.rpartition('/')[2]}", directory).over(found)
        chosen |= dict(_single(entry))
    parts = {group: content[group] for group in (*KEYED, *_SINGLE) if isinstance(content.get(group), Mapping)}
    return Experiment(chosen, parts).over(found)


def _single(entry: Any) -> Iterator[tuple[str, str]]:
    """Group and option of an entry of a defaults list, where the group has one option."""
    for key, value in entry.items() if isinstance(entry, Mapping) else ():
        group = str(key).removeprefix("override").strip().lstrip("/")
        if group in _SINGLE and isinstance(value, str):
            yield group, value


def _content(name: str, directory: str | None) -> Plain:
    """What a YAML holds; nothing where it is not there or broken, which composing it says."""
    file = yaml_of(name, directory)
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except yaml.YAMLError:
        return {}
    return content if isinstance(content, Mapping) else {}


def options(group: str, directory: str | None = None) -> list[str]:
    """Names of the YAMLs in a group of `conf/`, and of a further folder."""
    folders = [files(CONFIG_MODULE) / group, *([Path(directory, group)] if directory else [])]
    names = [entry.name for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    return sorted({name.removesuffix(".yaml") for name in names if name.endswith(".yaml")})


def yaml_of(name: str, directory: str | None = None) -> Traversable:
    """The file of a name such as `methods/rollout`: that of a further folder where it has one, else that of `conf/`."""
    own = Path(directory or ".", f"{name}.yaml")
    return own if directory and own.is_file() else files(CONFIG_MODULE) / f"{name}.yaml"


def _offer_all(directory: str | None) -> None:
    """Make `methods=all` stand for every YAML of the group, likewise `evaluations=all` and `analyses=all`.

    What cannot run without a setting that has to be given, such as the path of a file, is left out.
    """
    for group in KEYED:
        names = [name for name in options(group, directory) if not _is_asking(group, name, directory)]
        if _STANDS_FOR.get(group) != names:
            ConfigStore.instance().store(group=group, name=ALL, node={"defaults": [*names]}, provider="benchmark")
            _STANDS_FOR[group] = names


_STANDS_FOR: dict[str, list[str]] = {}
"""What `all` of each group stands for in Hydra's store, which this process shares."""


def _is_asking(group: str, name: str, directory: str | None) -> bool:
    """Whether a YAML leaves a setting to the user (`???`)."""
    return "???" in yaml_of(f"{group}/{name}", directory).read_text(encoding="utf-8")


def resolved(config: DictConfig) -> dict[str, Any]:
    """The configuration as plain values.

    Raises:
        UserError: a value refers to a setting that does not exist.
    """
    try:
        return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))
    except OmegaConfBaseException as error:
        raise UserError(
            f"{getattr(error, 'full_key', None) or 'a setting'}: {in_plain_words(error, options)}"
        ) from error


def needed_keys(config: DictConfig) -> list[str]:
    """Settings of a comparison that have to be given: missing ones of its parts, and those that a part refers to."""
    plain: Any = OmegaConf.to_container(config, resolve=False)
    named = set(re.findall(r"\$\{([\w.]+)\}", str({key: value for key, value in plain.items() if key in GROUPS})))
    return [key for key in missing_keys(config) if key.partition(".")[0] in GROUPS or key in named]


def missing_keys(config: DictConfig) -> list[str]:
    """Settings that have to be given (`???`), sorted; interpolations are left alone, for they may lead to one."""

    def walk(node: Any, path: str) -> Iterator[str]:
        if node == "???":
            yield path
        elif isinstance(node, dict):
            for key, value in node.items():
                yield from walk(value, f"{path}.{key}" if path else str(key))

    return sorted(walk(OmegaConf.to_container(config, resolve=False), ""))
