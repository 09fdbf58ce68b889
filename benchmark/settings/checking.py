"""A configuration is looked at before a class is imported or anything is computed: the first mistake that it shows is told.

The settings of the comparison itself are known here, those of each object by the source of its class: their names and
values, which have to be given, files on the disk, and what refers to another setting or to a part of the comparison.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Annotated, Any, get_args

from omegaconf import DictConfig

from benchmark.errors import UserError, near
from benchmark.settings.configuration import KEYED, compose, missing_keys, needed_keys, options, resolved
from benchmark.settings.declared import AtLeast, Count, Natural, fits, hold
from benchmark.settings.early import SPLITS, Surroundings, early_conditions
from benchmark.settings.own_folder import form
from benchmark.settings.report_settings import ReportSettings
from benchmark.settings.sources import UNKNOWN, Outline, Parameter, StandIn, outline_at
from benchmark.settings.ways_out import not_set

_SINGLE_GROUPS = ("task", "model", "tracking", "engine")
_NAMES = ("name", "split", "out")
_LONGEST_NAME = 150  # file systems take 255, and an ending and a hash are added
STAGES = ("all", "explain", "test", "reduce")
"""All steps of a comparison, or one of them alone."""

_NUMBERS: Mapping[str, tuple[Any, str]] = {
    "seed": (Natural, "a whole number of at least 0"),
    "batch_size": (Count, "a whole number of at least 1"),
    "checkpoint_seconds": (Annotated[float, AtLeast(0)], "a number of at least 0"),
}
"""Settings of the comparison itself that are numbers: what they are held to, and how it is said."""


def check(config: DictConfig) -> None:
    """UserError for settings of a comparison that no task or model can make sense of."""
    _check_lists(config)
    for key in (*_SINGLE_GROUPS, *_NAMES, *_NUMBERS, "limit"):
        if key not in config:
            raise UserError(not_set(key))
    chosen = {group: config[group] for group in _SINGLE_GROUPS}
    chosen |= {f"{group}.{name}": part for group in KEYED for name, part in config.get(group, {}).items()}
    for path, part in chosen.items():
        if not isinstance(part, DictConfig) or "_target_" not in part:
            group, _, name = path.partition(".")
            if isinstance(part, DictConfig) and name in options(group):
                raise UserError(f"{path} is set, but {name} is not among the {group}; add it: {group}=[...,{name}]")
            raise UserError(f"{path} names no class; the form of a YAML in {group}/ is {form(group)}")
    if missing := needed_keys(config):
        raise UserError(not_set(missing[0]))
    resolved(config)
    _check_values(config)
    ReportSettings.read(config.get("report")).check_methods(list(map(str, config.methods)))
    check_parts(config, [*_SINGLE_GROUPS, *KEYED])


def _check_lists(config: DictConfig) -> None:
    """UserError where there is no method, or neither a test nor an analysis."""
    for group in ("methods", "evaluations"):
        if not config.get(group) and not (group == "evaluations" and config.get("analyses")):
            raise UserError(f"{group} is empty; name at least one of: {', '.join(options(group))}")


def check_parts(config: DictConfig, parts: Sequence[str]) -> None:
    """UserError for the first object in these parts of a configuration that its class would not take.

    Classes are known by their sources: none is imported.
    """
    plain = resolved(config)
    names: dict[str, list[str]] = {group: list(plain[group]) for group in KEYED if group in plain}
    surroundings = Surroundings(names=names, opens=_check_opening)
    for part in parts:
        for path, node, complete in _objects(plain.get(part), part):
            outline = outline_at(path, str(node["_target_"]))
            if outline is not None:
                _check_object(path, node, outline, surroundings, complete=complete)


def _check_opening(overrides: Sequence[str]) -> None:
    """UserError where overrides open no task and model."""
    config = compose("config", overrides)
    if missing := [*missing_keys(config.task), *missing_keys(config.model)]:
        raise UserError(f"{missing[0]} is not set")
    check_parts(config, ("task", "model"))


def _check_values(config: DictConfig) -> None:
    for key in _NAMES:
        if not isinstance(config[key], str) or not config[key]:
            raise UserError(f"{key}={config[key]} must be a text")
    if config.get("stage", "all") not in STAGES:
        raise UserError(f"stage={config.stage} does not exist; {near(str(config.stage), STAGES)}")
    if config.split not in SPLITS:
        raise UserError(f"split={config.split} does not exist; {near(config.split, SPLITS)}")
    _check_numbers(config)
    for key, name in (("name", config.name), *((group, name) for group in KEYED for name in config[group])):
        check_name(key, str(name))
    for folder in (out := Path(config.out).expanduser(), *out.parents):
        if folder.exists() and not folder.is_dir():
            raise UserError(f"out={config.out} cannot be written to ({folder} is a file); choose another folder")


def _check_numbers(config: DictConfig) -> None:
    for key, (hint, words) in _NUMBERS.items():
        if not fits(hint, config[key]):
            raise UserError(f"{key}={config[key]} must be {words}")
    if config.limit is not None and not fits(Count, config.limit):
        problem = "leaves no example" if type(config.limit) is int else "is no whole number"
        raise UserError(f"limit={config.limit} {problem}; give a positive whole number, or null for all")


def check_name(key: str, name: str) -> None:
    """UserError for what would not be the name of a file in the folder that it belongs to."""
    if {"/", "\\", "\0"} & {*name} or name.startswith(".") or len(name.encode()) > _LONGEST_NAME:
        raise UserError(
            f"{key}={name!r} names files: it may not hold / or \\, begin with a dot or exceed {_LONGEST_NAME} bytes"
        )


def _objects(node: Any, path: str, *, complete: bool = True) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Every object of a configuration, the outer one first: its path, itself, and whether all its settings have to be there.

    They need not where the object above makes it (`_recursive_: false`).
    """
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield path, node, complete and not node.get("_partial_")
        complete = complete and node.get("_recursive_") is not False
        for key, value in node.items():
            yield from _objects(value, f"{path}.{key}", complete=complete)


def _check_object(
    path: str, node: Mapping[str, Any], outline: Outline, surroundings: Surroundings, *, complete: bool
) -> None:
    parameters = outline.parameters
    given = {name: value for name, value in node.items() if not name.startswith("_")}
    for name in given:
        if name not in parameters and not outline.takes_more:
            way_out = near(name, list(parameters)) if parameters else f"{node['_target_']} takes none"
            raise UserError(f"{path}.{name} is no setting: there is no '{name}'; {way_out}")
    open_settings = set() if node.get("_partial_") else {name for name in parameters if name not in given}
    if outline.is_function and {"model", "batch"} <= open_settings:
        raise UserError(
            f"{path}._target_={node['_target_']} is a function of a model and a batch, and _target_ is called with settings "
            "alone; name a class whose objects are called with (model, batch, target)"
        )
    hints = {name: parameter.hint for name, parameter in parameters.items()}
    values = {name: value for name, value in given.items() if name in hints and not _is_object(value, hints[name])}
    hold(values, hints, path)
    for name, parameter in parameters.items():
        if complete and parameter.default is MISSING and name not in given:
            raise UserError(not_set(f"{path}.{name}"))
    _check_surroundings(path, given, parameters, surroundings)


def _check_surroundings(
    path: str, given: Mapping[str, Any], parameters: Mapping[str, Parameter], surroundings: Surroundings
) -> None:
    """UserError for the first setting that does not go with the disk, other settings, or the comparison's names."""
    defaults = {name: part.default for name, part in parameters.items() if not isinstance(part.default, StandIn)}
    around = replace(surroundings, siblings={**defaults, **given})
    for name, parameter in parameters.items():
        for condition in early_conditions(parameter.hint):
            if problem := condition.mistake(f"{path}.{name}", given.get(name, parameter.default), around):
                raise UserError(problem)


def _is_object(value: Any, hint: Any) -> bool:
    """Whether a value describes an object, and its annotation speaks of such: it is looked at by itself."""
    return isinstance(value, Mapping) and "_target_" in value and _takes_objects(hint)


def _takes_objects(hint: Any) -> bool:
    """Whether an annotation speaks of something else than numbers, texts, and lists of those."""
    if hint is UNKNOWN or hint is Any:
        return True
    if isinstance(hint, type):
        return hint not in (int, float, str, bool, type(None))
    return any(_takes_objects(part) for part in get_args(hint))
