"""What an experiment sets, and how much of it holds where the command chooses other parts than the experiment does.

An experiment names methods, tests, analyses, a task and a model, and sets some of their settings. A command that chooses
among them (`methods=[rollout,random]`, `model=hf`) takes the settings of what it chose; those of the others go with them.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, open_dict

logger = logging.getLogger(__name__)

Plain = Mapping[str, Any]

_LISTS = ("methods", "evaluations", "analyses")
_SINGLE = ("task", "model")
_ALL = "all"


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


def experiment_of(config_name: str | None, overrides: Sequence[str], directory: str | None) -> Experiment | None:
    """The experiment that overrides choose, over what the configuration itself chooses; None where there is none."""
    names = [_names(text) for text in overrides if key_of(text) == "experiment"]
    if not names or config_name is None:
        return None
    found = _read(Path(f"{config_name}.yaml"), directory)
    for name in names[-1]:
        found = _read(Path("experiment", f"{name}.yaml"), directory).over(found)
    return found


def as_chosen(
    config: DictConfig, experiment: Experiment, overrides: Sequence[str], option: Callable[[str, str], DictConfig]
) -> DictConfig:
    """A composed configuration without what the experiment sets of parts that the command did not choose.

    What the command sets itself stays, so that a mistake in it is found, and what is left out of a task or a model is told.
    A command that adds to a list (`+analyses=over_seeds`) chooses all that the experiment has.

    Args:
        config: composed, changed in place.
        experiment: that was chosen.
        overrides: of the command.
        option: what a group's option holds by itself.
    """
    chosen = {
        key_of(text): text
        for text in overrides
        if key_of(text) in (*_LISTS, *_SINGLE)
        and "@" not in text.partition("=")[0]  # a part of a part, such as the task whose examples a task is made of
        and not (text.startswith("+") and key_of(text) in _LISTS)
    }
    typed = [key_of(text) for text in overrides]

    def is_typed(path: str) -> bool:
        return any(key == path or key.startswith(f"{path}.") for key in typed)

    with open_dict(config):
        for group, text in chosen.items():
            keys = [key for key in experiment.parts.get(group, {}) if not is_typed(f"{group}.{key}")]
            if group in _LISTS:
                _leave_out(config, group, keys, _names(text))
            elif [experiment.options.get(group)] != (names := _names(text)) and len(names) == 1:
                _put_back(config, group, keys, option(group, names[0]))
                if keys:
                    said = ", ".join(f"{group}.{key}={experiment.parts[group][key]}" for key in keys)
                    _tell(f"{group}={names[0]} is not the experiment's {group}, whose settings are left out: {said}")
    return config


@cache  # a command composes its configuration more than once
def _tell(line: str) -> None:
    logger.warning("%s", line)


def _leave_out(config: DictConfig, group: str, keys: Sequence[str], names: Sequence[str]) -> None:
    held = config.get(group) or {}
    for key in keys:
        has_class = key in held and isinstance(held[key], DictConfig) and "_target_" in held[key]
        if key in held and key not in names and not (has_class and _ALL in names):
            del held[key]


def _put_back(config: DictConfig, group: str, keys: Sequence[str], option: DictConfig) -> None:
    held = config.get(group) or {}
    for key in keys:
        if key in option:
            held[key] = option._get_node(key)  # an interpolation stays one
        elif key in held:
            del held[key]


def key_of(override: str) -> str:
    """What an override sets, without the signs before and the package behind it."""
    return override.partition("=")[0].lstrip("+~").partition("@")[0]


def _names(override: str) -> list[str]:
    """The options that an override chooses; none where it chooses several lists, or its value is no list of names."""
    try:
        value = yaml.safe_load(override.partition("=")[2] or "[]")
    except yaml.YAMLError:
        return []
    return [str(name) for name in (value if isinstance(value, list) else [value])]


def _read(file: Path, directory: str | None) -> Experiment:
    """What a YAML chooses and sets, with the experiments that it begins with."""
    content = _content(file, directory)
    found = Experiment()
    options: dict[str, str] = {}
    for entry in content.get("defaults") or ():
        if isinstance(entry, str) and entry != "_self_" and file.parent.name:
            found = _read(file.with_name(f"{entry.rpartition('/')[2]}.yaml"), directory).over(found)
        options |= dict(_single(entry))
    parts = {group: content[group] for group in (*_LISTS, *_SINGLE) if isinstance(content.get(group), Mapping)}
    return Experiment(options, parts).over(found)


def _single(entry: Any) -> Iterator[tuple[str, str]]:
    """Group and option of an entry of a defaults list, where the group has one option."""
    for key, value in entry.items() if isinstance(entry, Mapping) else ():
        group = str(key).removeprefix("override").strip().lstrip("/")
        if group in _SINGLE and isinstance(value, str):
            yield group, value


def _content(file: Path, directory: str | None) -> dict[str, Any]:
    """What a YAML holds; nothing where it is not there or broken, which composing it says."""
    places = [*([Path(directory) / file] if directory else []), files("conf") / str(file)]
    for place in places:
        if place.is_file():
            try:
                content = yaml.safe_load(place.read_text(encoding="utf-8"))
            except yaml.YAMLError:
                return {}
            return content if isinstance(content, dict) else {}
    return {}
