"""Settings that a YAML leaves out: the parameters of the class that it names, with their defaults.

A YAML holds `_target_` and what differs from the class. Every other parameter can be set all the same, and what is written
beside results holds all of them.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from hydra.utils import get_object

from benchmark.errors import UserError
from benchmark.settings.declared import values_of
from benchmark.settings.report_settings import LOOK
from benchmark.settings.sources import UNKNOWN, NoSuchTarget, StandIn, outline_of
from benchmark.settings.ways_out import other_setting

Plain = dict[str, Any]

_REQUIRED = object()


def whole(node: Any) -> Any:
    """A plain configuration with every setting of the classes that it names. What has no plain form is left out."""
    return _whole(node, parameters)


def _whole(node: Any, named_by: Callable[[str], Mapping[str, Any]]) -> Any:
    if isinstance(node, Mapping):
        settings = {key: _whole(value, named_by) for key, value in node.items()}
        if "_target_" not in node:
            return settings
        left_out = {name: value for name, value in named_by(str(node["_target_"])).items() if name not in node}
        return settings | _writable(left_out)
    return [_whole(item, named_by) for item in node] if isinstance(node, list) else node


def whole_declared(node: Any) -> Any:
    """The same as sources say, without an import where that is possible."""
    return _whole(node, declared_parameters)


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


def declared_parameters(target: str) -> dict[str, Any]:
    """The same as the source says, without an import where that is possible."""
    try:
        outline = outline_of(target)
    except NoSuchTarget:  # reported when the object is made
        return {}
    if outline is None or outline.takes_more:
        return parameters(target)
    return {
        name: _REQUIRED if part.default is MISSING or part.default is UNKNOWN else part.default
        for name, part in outline.parameters.items()
    }


def _default(part: Any) -> Any:
    if part.default is not MISSING:
        return part.default
    return _REQUIRED if part.default_factory is MISSING else part.default_factory()


def written(value: Any) -> Any:
    """A default as a YAML would hold it; `_REQUIRED` where it has no such form."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, StandIn):
        target = value.outline.target
        return {"_target_": target, **_writable(declared_parameters(target)), **_writable(value.settings)}
    if is_dataclass(value) and not isinstance(value, type):
        settings = _writable({part.name: getattr(value, part.name) for part in fields(value) if part.init})
        return {"_target_": f"{type(value).__module__}.{type(value).__qualname__}", **settings}
    if type(value) is dict:
        return {str(key): written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in value]
    return _REQUIRED


def _writable(settings: Mapping[str, Any]) -> Plain:
    """The settings that a YAML could hold."""
    return {name: item for name, value in settings.items() if (item := written(value)) is not _REQUIRED}


def additions(config: Plain, key: str) -> list[str] | None:
    """Overrides that make room for a setting which the YAML leaves out, in Hydra's syntax; None where it is there.

    Args:
        config: the composed configuration.
        key: dotted.

    Raises:
        UserError: no class has such a setting; with the nearest names.
    """
    if f"{key}.".startswith(f"{LOOK}."):  # whose keys may be a person's own words; it is held where it is read
        return []
    node: Any = config
    before: list[str] = []
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(node, Mapping):
            raise UserError(f"{key} is no setting: {'.'.join(parts[:depth])} is {node}")
        if part in node:
            node = node[part]
            continue
        target = node.get("_target_")
        named = declared_parameters(str(target)) if target is not None else {}
        if part not in named:
            way_out = other_setting(key, part, whole_declared(node), _setting_names(node, named))
            raise UserError(f"{key} is no setting: there is no '{part}'; {way_out}")
        if depth == len(parts) - 1:
            return before
        node, path = written(named[part]), ".".join(parts[: depth + 1])
        if depth == len(parts) - 2 and _is_mapping(str(target), part):
            return [*before, *(f"++{path}.{name}={value}" for name, value in (node or {}).items())]
        if not isinstance(node, Mapping) or "_target_" not in node:
            raise UserError(f"{key} is no setting: {path} is set as a whole, {path}=...")
        before.append(f"++{path}._target_={node['_target_']}")
    return before or None


def _is_mapping(target: str, name: str) -> bool:
    """Whether a setting holds names with values, of which one can be given by itself."""
    outline = outline_of(target)
    return outline is not None and values_of(outline.parameters[name].hint) is not None


def _setting_names(node: Mapping[Any, Any], named: Mapping[str, Any]) -> list[str]:
    """Settings of a node: those of its YAML and those of its class, each once."""
    return [name for name in dict.fromkeys([*map(str, node), *named]) if not name.startswith("_")]
