"""Mistakes in the settings of classes, found before a class is imported: names, values, files, and what refers to what."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Any, get_args

from benchmark.errors import UserError, near
from benchmark.settings.declared import SettingError, described, fits
from benchmark.settings.early import Surroundings, early_conditions
from benchmark.settings.outlines import UNKNOWN, NoSuchTarget, Outline, StandIn
from benchmark.settings.read_modules import outline_of

Plain = Mapping[str, Any]
_OURS = ("benchmark", "methods", "tasks", "conf")


def check_objects(config: Any, surroundings: Surroundings, path: str = "") -> None:
    """UserError for the first object of a resolved configuration that its class would not take.

    Args:
        config: what `_target_` may stand in, at any depth.
        surroundings: what the comparison has.
        path: that leads to `config`.
    """
    for where, node, complete in _objects(config, path):
        outline = _outline(where, str(node["_target_"]))
        if outline is not None:
            _check_object(where, node, outline, surroundings, complete=complete)


def _objects(node: Any, path: str, *, complete: bool = True) -> Iterator[tuple[str, Plain, bool]]:
    """Every object of a configuration, the outer one first: its path, itself, and whether all its settings have to be there.

    They need not where the object above makes it (`_recursive_: false`).
    """
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield path, node, complete and not node.get("_partial_")
        complete = complete and node.get("_recursive_") is not False
        for key, value in node.items():
            yield from _objects(value, f"{path}.{key}" if path else str(key), complete=complete)


def _outline(path: str, target: str) -> Outline | None:
    try:
        return outline_of(target)
    except NoSuchTarget as missing:
        raise UserError(no_such_target(f"{path}._target_={target}", missing)) from missing


def no_such_target(setting: str, missing: NoSuchTarget) -> str:
    """The sentence for a class that does not exist."""
    top = missing.module.partition(".")[0]
    if missing.name:
        way_out = near(missing.name, missing.names) if missing.names else "it is empty"
        problem = f"the module {missing.module} has no '{missing.name}'; {way_out}"
    else:
        problem = (
            f"there is no module {missing.module}; a class of yours lies in a package of the folder of the command"
        )
    shadowed = top in _OURS and Path(f"{top}.py").is_file()
    ours = f" ({top} is a package of this benchmark: give your {top}.py another name)" if shadowed else ""
    return f"{setting}: {problem}{ours}"


def _check_object(path: str, node: Plain, outline: Outline, surroundings: Surroundings, *, complete: bool) -> None:
    parameters = outline.parameters
    for name, value in node.items():
        if name.startswith("_"):
            continue
        if name not in parameters:
            if outline.takes_more:
                continue
            raise UserError(f"{path}.{name} is no setting: there is no '{name}'; {near(name, list(parameters))}")
        _check_value(path, name, value, parameters[name].hint)
    for name, parameter in parameters.items():
        if complete and parameter.default is MISSING and name not in node:
            raise UserError(f"{path}.{name} is not set; give it on the command line: {path}.{name}=...")
    defaults = {name: part.default for name, part in parameters.items() if not isinstance(part.default, StandIn)}
    around = replace(surroundings, siblings={**defaults, **node})
    for name, parameter in parameters.items():
        for condition in early_conditions(parameter.hint):
            value = node.get(name, parameter.default)
            if problem := condition.mistake(f"{path}.{name}", value, around):
                raise UserError(problem)


def _check_value(path: str, name: str, value: Any, hint: Any) -> None:
    """SettingError for a value that the annotation does not allow, as far as it is known without an import."""
    if isinstance(value, Mapping) and "_target_" in value and _takes_objects(hint):
        return
    if isinstance(hint, type) and issubclass(hint, StandIn):
        where = hint.outline.target.rpartition(".")[0].replace(".", "/")
        raise SettingError(name, value, f"objects, {path}.{name}._target_=CLASS ({hint.__name__} in {where}.py)", path)
    if not fits(hint, value):
        raise SettingError(name, value, described(hint), path)


def _takes_objects(hint: Any) -> bool:
    """Whether an annotation speaks of something else than numbers, texts, and lists of those."""
    if hint is UNKNOWN or hint is Any:
        return True
    if isinstance(hint, type):
        return hint not in (int, float, str, bool, type(None))
    return any(_takes_objects(part) for part in get_args(hint))
