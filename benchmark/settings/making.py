"""Make the objects that a configuration describes."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_origin

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from benchmark.errors import UserError, one_line
from benchmark.settings.declared import SettingError, described, fits
from benchmark.settings.mistakes import no_such_target
from benchmark.settings.outlines import NoSuchTarget
from benchmark.settings.read_modules import outline_of


def make(config: Any, kind: type | None = None) -> Any:
    """Instantiate what `_target_` names; a UserError of its constructor comes out as it was raised.

    Args:
        config: `_target_` and its settings.
        kind: the protocol that it has to fulfil, if any.

    Raises:
        UserError: the target does not exist, does not take these settings, or lacks a member of the protocol.
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
        if isinstance(error.__cause__, ImportError | TypeError | None):
            raise UserError(_not_made(config, error)) from error
        raise
    path = _own_path(config)
    _check_choices(instance, path)
    if kind is not None and not fits(kind, instance):
        raise UserError(f"{path}={type(instance).__name__}: allowed are {described(kind)}")
    return instance


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
        return no_such_target(where, missing)
    verb = "cannot be imported" if isinstance(reason, ImportError) else "does not take these settings"
    return f"{where} {verb}: {one_line(reason)}"


def _own_path(config: Any) -> str:
    return str(config._get_full_key("")) if isinstance(config, DictConfig) else ""


def _failed_key(error: Exception) -> str:
    """Where in the configuration an object could not be made, as Hydra says at the end of its message."""
    match = re.search(r"full_key: (\S+)\s*$", str(error))
    return match[1] if match else ""


def _check_choices(instance: Any, path: str) -> None:
    """SettingError for a choice that does not exist, also in a class that does not check its own settings."""
    for part in fields(instance) if is_dataclass(instance) else ():
        value = getattr(instance, part.name)
        _check_choices(value, f"{path}.{part.name}" if path else part.name)
        if get_origin(part.type) is Literal and not fits(part.type, value):
            raise SettingError(part.name, value, described(part.type), path)
