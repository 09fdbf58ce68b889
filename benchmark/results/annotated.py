"""JSON as dataclasses, held to their annotations: every field is there and of its type, null stands for NaN; and back."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

_PLAIN = {str, float, int, bool, NoneType}


@cache
def _annotations(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Annotation of each field, and whether it must be given."""
    hints = get_type_hints(kind)
    return {
        part.name: (hints[part.name], part.default is MISSING and part.default_factory is MISSING)
        for part in fields(kind)
    }


def as_json(value: Any) -> Any:
    """The fields of a dataclass, and of those within it, as new dictionaries and lists; `asdict` copies each value too."""
    if type(value) in _PLAIN:
        return value  # nearly all that a record has
    if is_dataclass(value) and not isinstance(value, type):
        return {name: as_json(getattr(value, name)) for name in _annotations(type(value))}
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value


def as_dataclass(kind: Any, content: Any, where: str) -> Any:
    """An object of a dataclass from its fields in JSON; ValueError where one is missing or of another type."""
    if not isinstance(content, Mapping):
        raise ValueError(f"{where} is {'missing' if content is None else 'no object'}")
    values = {}
    for name, (hint, required) in _annotations(kind).items():
        path = f"{where}.{name}" if where else name
        if name in content:
            values[name] = _as_annotated(hint, content[name], path)
        elif required:
            raise ValueError(f"{path} is missing")
    return kind(**values)


@cache
def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...], Any]:
    """Origin and arguments of an annotation, and what it is where it may be None; None where it may not."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType and NoneType in arguments:
        return origin, arguments, reduce(or_, (kind for kind in arguments if kind is not NoneType))
    return origin, arguments, None


def _as_annotated(hint: Any, value: Any, where: str) -> Any:
    """A part of the content as its annotation has it; True and False are no numbers."""
    origin, arguments, others = _taken_apart(hint)
    if others is not None:
        return None if value is None else _as_annotated(others, value, where)
    if is_dataclass(hint) and isinstance(hint, type):
        return as_dataclass(hint, value, where)
    if origin is Mapping and isinstance(value, Mapping):
        return {str(name): _as_annotated(arguments[1], item, f"{where}.{name}") for name, item in value.items()}
    if origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(kinds) == len(value):
            pairs = enumerate(zip(kinds, value, strict=True))
            return tuple(_as_annotated(kind, item, f"{where}[{place}]") for place, (kind, item) in pairs)
    return _as_scalar(hint, value, where)


def _as_scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    if hint is float and value is None:
        return math.nan
    kinds = int | float if hint is float else hint
    single = get_origin(hint) in (None, UnionType)
    if single and isinstance(value, kinds) and (hint is bool or not isinstance(value, bool)):
        return float(value) if hint is float else value
    raise ValueError(f"{where} is no {getattr(hint, '__name__', hint)}")
