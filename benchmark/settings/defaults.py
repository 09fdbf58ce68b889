"""Settings that a YAML leaves out: the parameters of the class that it names, with their defaults.

A YAML holds `_target_` and what differs from the class. Every other parameter can be set all the same, and what is written
beside results holds all of them.
"""

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from hydra.utils import get_object

from benchmark.errors import UserError, near

Plain = dict[str, Any]

_REQUIRED = object()


def whole(node: Any) -> Any:
    """A plain configuration with every setting of the classes that it names. What has no plain form is left out."""
    if isinstance(node, Mapping):
        settings = {key: whole(value) for key, value in node.items()}
        return settings if "_target_" not in node else settings | _settings_left_out(node)
    return [whole(item) for item in node] if isinstance(node, list) else node


def _settings_left_out(node: Mapping[str, Any]) -> Plain:
    named = parameters(str(node["_target_"]))
    plain = {name: written(value) for name, value in named.items() if name not in node and value is not _REQUIRED}
    return {name: value for name, value in plain.items() if value is not _REQUIRED}


def parameters(target: str) -> dict[str, Any]:
    """Parameters of what `_target_` names, with their defaults; empty where it cannot be imported."""
    try:
        factory = get_object(target)
    except Exception:  # whatever an import raises is reported when the object is made
        return {}
    if is_dataclass(factory):
        return {part.name: _default(part) for part in fields(factory) if part.init}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    declared = inspect.signature(factory).parameters.values()
    return {p.name: _REQUIRED if p.default is p.empty else p.default for p in declared if p.kind in kinds}


def _default(part: Any) -> Any:
    if part.default is not MISSING:
        return part.default
    return _REQUIRED if part.default_factory is MISSING else part.default_factory()


def written(value: Any) -> Any:
    """A default as a YAML would hold it; `_REQUIRED` where it has no such form."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: written(getattr(value, part.name)) for part in fields(value) if part.init}
        settings = {name: item for name, item in parts.items() if item is not _REQUIRED}
        return {"_target_": f"{type(value).__module__}.{type(value).__qualname__}", **settings}
    if type(value) is dict:
        return {str(key): written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in value]
    return _REQUIRED


def additions(config: Plain, key: str) -> list[str] | None:
    """Overrides that make room for a setting which the YAML leaves out, in Hydra's syntax; None where it is there.

    Args:
        config: the composed configuration.
        key: dotted.

    Raises:
        UserError: no class has such a setting; with the nearest names.
    """
    node: Any = config
    before: list[str] = []
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(node, Mapping):
            raise UserError(f"{key} is no setting: {'.'.join(parts[:depth])} is {node}")
        if part in node:
            node = node[part]
            continue
        named = parameters(str(node["_target_"])) if "_target_" in node else {}
        if part not in named:
            raise UserError(f"{key} is no setting: there is no '{part}'; {near(part, _setting_names(node, named))}")
        if depth == len(parts) - 1:
            return before
        node, path = written(named[part]), ".".join(parts[: depth + 1])
        if not isinstance(node, Mapping) or "_target_" not in node:
            raise UserError(f"{key} is no setting: {path} is set as a whole, {path}=...")
        before.append(f"++{path}._target_={node['_target_']}")
    return before or None


def _setting_names(node: Mapping[Any, Any], named: Mapping[str, Any]) -> list[str]:
    """Settings of a node: those of its YAML and those of its class, each once."""
    return [name for name in dict.fromkeys([*map(str, node), *named]) if not name.startswith("_")]
