"""Make the objects that a configuration describes, and those of the YAMLs by name."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, cast, get_origin

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from benchmark.errors import UserError, one_line
from benchmark.settings.configuration import GROUPS, KEYED, compose
from benchmark.settings.declared import SettingError, described, fits, hold, is_protocol
from benchmark.settings.sources import NoSuchTarget, outline_of

BUILT_AS = "_built_as"
"""The attribute in which an object keeps the name of the YAML that `build` made it of, which tables call it by."""


def make(config: Any, kind: type | None = None) -> Any:
    """Instantiate what `_target_` names; a UserError of its constructor comes out as it was raised.

    Args:
        config: `_target_` and its settings.
        kind: the protocol that it has to fulfil, or the class that it has to be of, if any.

    Raises:
        UserError: the target does not exist, does not take these settings, or is nothing of that kind.
    """
    try:
        instance = instantiate(config)
    except (InstantiationException, OmegaConfBaseException) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, UserError):
            cause = cause.__cause__
        if isinstance(cause, SettingError):
            raise cause.at(_failed_key(error)) from error
        if isinstance(cause, UserError):
            raise cause from error
        if isinstance(error.__cause__, ImportError | SyntaxError | TypeError | None):
            raise UserError(_not_made(config, error)) from error
        raise
    path = _own_path(config)
    _hold_choices(instance, path)
    if kind is not None and not (fits(kind, instance) and (is_protocol(kind) or isinstance(instance, kind))):
        allowed = described(kind) if is_protocol(kind) else f"subclasses of {kind.__module__}.{kind.__name__}"
        raise UserError(f"{path}={type(instance).__name__}: allowed are {allowed}")
    return instance


def build(name: str, *overrides: str) -> Any:
    """Instantiate one YAML of `conf/` by its name.

    Args:
        name: "methods/attattr", "evaluations/perturbation", "task/planted", ...
        overrides: settings of it, such as "edges.steps=50".

    Returns:
        The object that its `_target_` makes.

    Raises:
        UserError: there is no such YAML or setting.

    Example:
        >>> rollout = benchmark.build("methods/rollout", "readout.start_layer=1")
        >>> rollout(model, model.encode(["a fine film"]), target=[1]).tokens.shape
        torch.Size([1, 5])
    """
    group, _, option = name.partition("/")
    if group not in GROUPS or not option:
        raise UserError(f"build('{name}'): give the name of a YAML with its group, such as 'methods/attattr'")
    built = make(_of_yaml(group, option, overrides))
    with suppress(AttributeError):  # of an object with slots
        object.__setattr__(built, BUILT_AS, option)
    return built


@cache
def _of_yaml(group: str, option: str, overrides: tuple[str, ...]) -> DictConfig:
    """One YAML of `conf/` with overrides; the folder is read once a process, as modules are. `make` works on a copy."""
    keyed = group in KEYED
    prefix = f"{group}.{option}" if keyed else group
    chosen = f"+{group}={f'[{option}]' if keyed else option}"
    return cast(
        DictConfig, OmegaConf.select(compose(None, [chosen, *(_prefixed(o, prefix) for o in overrides)]), prefix)
    )


def _prefixed(override: str, prefix: str) -> str:
    sign = "++" if override.startswith("++") else override[0] if override[:1] in "+~" else ""
    return f"{sign}{prefix}.{override[len(sign) :]}"


def _not_made(config: Any, error: Exception) -> str:
    """Why an object could not be made, with what the import or the call raised."""
    reason: BaseException = error
    while reason.__cause__ is not None:
        reason = reason.__cause__
    path = _failed_key(error)
    part = OmegaConf.select(config, path.removeprefix(_own_path(config)).lstrip(".")) if path else config
    target = part.get("_target_") if isinstance(part, Mapping | DictConfig) else None
    where = f"{path or 'the object'}._target_={target}" if target else path or "the object"
    try:
        outline_of(str(target))
    except NoSuchTarget as missing:
        return missing.said_of(where)
    if isinstance(reason, SyntaxError) and reason.filename is not None:
        return f"{where}: {reason.filename}:{reason.lineno} is no Python: {reason.msg}"
    verb = "cannot be imported" if isinstance(reason, ImportError) else "does not take these settings"
    return f"{where} {verb}: {one_line(reason)}"


def _own_path(config: Any) -> str:
    return str(config._get_full_key("")) if isinstance(config, DictConfig) else ""


def _failed_key(error: Exception) -> str:
    """Where in the configuration an object could not be made, as Hydra says at the end of its message."""
    match = re.search(r"full_key: (\S+)\s*$", str(error))
    return match[1] if match else ""


def _hold_choices(instance: Any, path: str) -> None:
    """SettingError for a choice that does not exist in a dataclass that does not hold its own settings, or in its parts."""
    for part in fields(instance) if is_dataclass(instance) else ():
        value = getattr(instance, part.name)
        _hold_choices(value, f"{path}.{part.name}" if path else part.name)
        if get_origin(part.type) is Literal:
            hold({part.name: value}, {part.name: part.type}, path)
