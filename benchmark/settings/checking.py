"""A comparison's configuration is looked at before anything is imported or computed: every mistake that it shows is told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig

from benchmark.errors import UserError, near
from benchmark.settings.configuration import KEYED, compose, missing_keys, needed_keys, options, resolved
from benchmark.settings.declared import AtLeast, fits
from benchmark.settings.early import SPLITS, Surroundings
from benchmark.settings.latex_settings import LatexSettings
from benchmark.settings.mistakes import check_objects

_SINGLE_GROUPS = ("task", "model", "tracking", "engine")
_NAMES = ("name", "split", "out")
_LONGEST_NAME = 150  # file systems take 255, and an ending and a hash are added
STAGES = ("all", "explain", "test", "reduce")
"""All steps of a comparison, or one of them alone."""

_LEAST = {"seed": 0, "batch_size": 1}
_Seconds = Annotated[float, AtLeast(0)]


def check(config: DictConfig) -> None:
    """UserError for settings of a comparison that no task or model can make sense of."""
    _check_lists(config)
    for key in (*_SINGLE_GROUPS, *_NAMES, *_LEAST, "limit", "checkpoint_seconds"):
        if key not in config:
            raise UserError(f"{key} is not set; give it on the command line: {key}=...")
    chosen = {group: config[group] for group in _SINGLE_GROUPS}
    chosen |= {f"{group}.{name}": part for group in KEYED for name, part in config.get(group, {}).items()}
    for path, part in chosen.items():
        if not isinstance(part, DictConfig) or "_target_" not in part:
            group, _, name = path.partition(".")
            if isinstance(part, DictConfig) and name in options(group):
                raise UserError(f"{path} is set, but {name} is not among the {group}; add it: {group}=[...,{name}]")
            form = "_target_: CLASS" if path in _SINGLE_GROUPS else "NAME: {_target_: CLASS}"
            raise UserError(f"{path} names no class; the form of a YAML in {path.partition('.')[0]}/ is {form}")
    if missing := needed_keys(config):
        raise UserError(f"{missing[0]} is not set; give it on the command line: {missing[0]}=...")
    resolved(config)
    _check_values(config)
    LatexSettings.read(config.get("report", {}).get("latex")).check_methods(list(map(str, config.methods)))
    check_parts(config, [*_SINGLE_GROUPS, *KEYED])


def _check_lists(config: DictConfig) -> None:
    """UserError where there is no method, or neither a test nor an analysis."""
    for group in ("methods", "evaluations"):
        if not config.get(group) and not (group == "evaluations" and config.get("analyses")):
            raise UserError(f"{group} is empty; name at least one of: {', '.join(options(group))}")


def check_parts(config: DictConfig, parts: Sequence[str]) -> None:
    """UserError for what the classes of these parts of a configuration do not take, before one is imported."""
    plain = resolved(config)
    names: dict[str, list[str]] = {group: list(plain[group]) for group in KEYED if group in plain}
    for part in parts:
        check_objects(plain.get(part), Surroundings(names=names, opens=_check_opening), part)


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
    for key, least in _LEAST.items():
        if not _is_whole(config[key], least):
            raise UserError(f"{key}={config[key]} must be a whole number of at least {least}")
    if config.limit is not None and not _is_whole(config.limit, 1):
        problem = "leaves no example" if type(config.limit) is int else "is no whole number"
        raise UserError(f"limit={config.limit} {problem}; give a positive whole number, or null for all")
    if not fits(_Seconds, config.checkpoint_seconds):
        raise UserError(f"checkpoint_seconds={config.checkpoint_seconds} must be a number of at least 0")


def check_name(key: str, name: str) -> None:
    """UserError for what would not be the name of a file in the folder that it belongs to."""
    if {"/", "\\", "\0"} & {*name} or name.startswith(".") or len(name.encode()) > _LONGEST_NAME:
        raise UserError(
            f"{key}={name!r} names files: it may not hold / or \\, begin with a dot or exceed {_LONGEST_NAME} bytes"
        )


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
