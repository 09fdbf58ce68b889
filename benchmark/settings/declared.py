"""Settings held to what their annotations declare: choices (`Literal`) and ranges (`Annotated[int, AtLeast(1)]`).

`hold` is the one check of values, and what is wrong is a `SettingError`. A configuration is held to annotations as sources
have them when it is read (`benchmark.settings.checking`), before a class is imported; an object to those of its class when
it is made, from Python as from a YAML: `@configurable` sees to it.
"""

import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import getattr_static
from itertools import pairwise
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from benchmark.errors import UserError
from benchmark.settings.sources import StandIn

Configured = TypeVar("Configured")


class SettingError(UserError):
    """A value that a setting does not take.

    Attributes:
        name: of the setting, without the path that leads to it.
        value: what was given.
        allowed: what may be, in words.
    """

    def __init__(self, name: str, value: Any, allowed: str, path: str = "") -> None:
        where = f"{path}.{name}" if path else name
        shown = "null" if value is None else list(value) if isinstance(value, tuple) else value
        super().__init__(f"{where}={shown}: allowed are {allowed}")
        self.name, self.value, self.allowed, self.path = name, value, allowed, path

    def __reduce__(self) -> tuple[type["SettingError"], tuple[str, Any, str, str]]:
        """Made again of what it was made of, in another process."""
        return type(self), (self.name, self.value, self.allowed, self.path)

    def at(self, path: str) -> "SettingError":
        """The same with the path of the object that has the setting."""
        return SettingError(self.name, self.value, self.allowed, path)


@dataclass(frozen=True)
class AtLeast:
    """Numbers from a bound on."""

    least: float | int

    def holds(self, value: Any) -> bool:
        """value ≥ least (false for NaN)."""
        return bool(value >= self.least)

    def __str__(self) -> str:
        return f"numbers from {self.least:g}"


@dataclass(frozen=True)
class Above:
    """Numbers above a bound."""

    bound: float | int

    def holds(self, value: Any) -> bool:
        """value > bound."""
        return bool(value > self.bound)

    def __str__(self) -> str:
        return f"numbers above {self.bound:g}"


@dataclass(frozen=True)
class Within:
    """Numbers of an interval."""

    low: float | int
    high: float | int
    without_high: bool = False

    def holds(self, value: Any) -> bool:
        """low ≤ value ≤ high, or below high."""
        return bool(self.low <= value < self.high if self.without_high else self.low <= value <= self.high)

    def __str__(self) -> str:
        return f"numbers from {self.low:g} to {'just below ' if self.without_high else ''}{self.high:g}"


@dataclass(frozen=True)
class Form:
    """Texts of a form.

    Attributes:
        pattern: a regular expression for the whole text.
        words: what it allows, as a person would say it.
    """

    pattern: str
    words: str

    def holds(self, value: Any) -> bool:
        """Whether the text is of the form."""
        return re.fullmatch(self.pattern, value) is not None

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Rising:
    """Sequences of at least one number, each above the one before it."""

    def holds(self, value: Any) -> bool:
        """Whether it is one."""
        return len(value) > 0 and all(a < b for a, b in pairwise(value))

    def __str__(self) -> str:
        return "increasing numbers"


@dataclass(frozen=True)
class Distinct:
    """Sequences of values, none of them twice, and of at least one where they may not be empty."""

    empty: bool = False

    def holds(self, value: Any) -> bool:
        """Whether it is one."""
        return (self.empty or len(value) > 0) and len(value) == len(set(value))

    def __str__(self) -> str:
        return "none twice" if self.empty else "at least one, none twice"


Count = Annotated[int, AtLeast(1)]
Natural = Annotated[int, AtLeast(0)]
Share = Annotated[float | int, Within(0, 1)]
Shares = Annotated[Sequence[Share], Rising()]


OF_FILE = "is a file's path"
"""Key in a field's metadata."""


def of_file(default: Any = None) -> Any:
    """A dataclass field that may name a file: its identity is what the file holds, wherever it lies."""
    return field(default=default, metadata={OF_FILE: True})


@dataclass_transform(frozen_default=True)
def configurable(cls: type[Configured]) -> type[Configured]:
    """A frozen dataclass whose values are held to their annotations when an object is made, before its `__post_init__`."""
    post_init: Callable[[Any], None] | None = cls.__dict__.get("__post_init__")

    def held(self: Any) -> None:
        _hold_fields(self)
        if post_init is not None:
            post_init(self)

    cls.__post_init__ = held  # type: ignore[attr-defined]  # of a class that is being made
    return dataclass(frozen=True)(cls)


def _hold_fields(instance: Any) -> None:
    """Hold the fields of a dataclass to their annotations; lists become tuples."""
    hints = get_type_hints(type(instance), include_extras=True)
    values = {part.name: getattr(instance, part.name) for part in fields(instance) if part.init}
    hold(values, hints)
    for name, value in values.items():
        if isinstance(value, Sequence) and not isinstance(value, str | tuple) and _items(hints[name]) is not None:
            object.__setattr__(instance, name, tuple(value))


def hold(values: Mapping[str, Any], hints: Mapping[str, Any], path: str = "") -> None:
    """SettingError for the first of the settings whose annotation does not allow its value.

    Args:
        values: of settings, by name.
        hints: their annotations, by name; a class that is not imported is its stand-in.
        path: that leads to the object which has the settings.
    """
    for name, value in values.items():
        hint = hints[name]
        if isinstance(hint, type) and issubclass(hint, StandIn):
            where = hint.outline.target.rpartition(".")[0].replace(".", "/")
            allowed = f"objects, {path}.{name}._target_=CLASS ({hint.__name__} in {where}.py)"
            raise SettingError(name, value, allowed, path)
        if not fits(hint, value):
            raise SettingError(name, value, described(hint), path)


def fits(hint: Any, value: Any) -> bool:
    """Whether an annotation allows a value. One that is neither number, text, choice nor sequence of those allows all."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in arguments
    if origin is Annotated:
        return fits(arguments[0], value) and all(condition.holds(value) for condition in _ranges(hint))
    if origin in (Union, types.UnionType):
        return any(isinstance(value, part) if _is_class(part) else fits(part, value) for part in arguments)
    if (of_values := values_of(hint)) is not None:
        return isinstance(value, Mapping) and all(fits(of_values, item) for item in value.values())
    if (of_items := _items(hint)) is not None:
        return (
            isinstance(value, Sequence) and not isinstance(value, str) and all(fits(of_items, item) for item in value)
        )
    if hint in _SCALARS:
        kinds, _ = _SCALARS[hint]
        return isinstance(value, kinds) and (hint is bool or not isinstance(value, bool))
    return not is_protocol(hint) or not _lacking(value, hint)


def described(hint: Any) -> str:
    """What an annotation allows, in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin is Annotated:
        if allowed := next((str(part.allowed) for part in arguments[1:] if hasattr(part, "allowed")), ""):
            return allowed
        ranges = " ".join(map(str, _ranges(hint)))
        if (item := _items(hint)) is not None:
            of_items = " ".join(str(condition).removeprefix("numbers ") for condition in _ranges(item))
            return f"{ranges} {of_items}" if of_items else f"{described(arguments[0])}: {ranges}"
        return f"whole {ranges}" if arguments[0] is int else ranges or described(arguments[0])
    if origin in (Union, types.UnionType):
        typed = [part for part in arguments if not isinstance(part, type) or part in _SCALARS]  # nobody types an object
        return ", and ".join(dict.fromkeys(map(described, typed or arguments)))
    if (item := values_of(hint)) is not None:
        return (
            "names with values, {NAME: VALUE, ...}" if item is Any else f"names with {described(item)}, {{NAME: ...}}"
        )
    if (item := _items(hint)) is not None:
        return f"lists of {described(item)}"
    if is_protocol(hint):
        where = hint.__module__.replace(".", "/")
        return f"objects with {', '.join(_members(hint))} ({hint.__name__} in {where}.py says what each is)"
    return _SCALARS[hint][1] if hint in _SCALARS else getattr(hint, "__name__", str(hint))


_SCALARS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "whole numbers"),
    float: ((int, float), "numbers"),
    str: ((str,), "texts"),
    bool: ((bool,), "true and false"),
    type(None): ((type(None),), "null"),
}


def _lacking(value: Any, protocol: type) -> list[str]:
    """Members of a protocol that an object does not have; no property is computed."""
    return [name for name in _members(protocol) if getattr_static(value, name, protocol) is protocol]


def _members(protocol: type) -> list[str]:
    """Public attributes and methods of a protocol and of those that it extends."""
    bases = [base for base in protocol.__mro__ if is_protocol(base)]
    names = {name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return sorted(name for name in names if not name.startswith("_"))


def _is_class(hint: Any) -> bool:
    """Whether an annotation is a class of its own."""
    return isinstance(hint, type) and hint not in _SCALARS and not is_protocol(hint)


def is_protocol(hint: Any) -> bool:
    """Whether an annotation is a protocol, which objects fulfil by what they have."""
    return isinstance(hint, type) and getattr(hint, "_is_protocol", False)


def _ranges(hint: Any) -> list[Any]:
    """What an annotation adds to its type: objects whose `holds(value)` says whether a value lies within."""
    return [part for part in get_args(hint)[1:] if hasattr(part, "holds")] if get_origin(hint) is Annotated else []


def _items(hint: Any) -> Any:
    """The annotation of a sequence's items, None where it is no sequence (or says nothing of them)."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _items(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return next((item for part in get_args(hint) if (item := _items(part)) is not None), None)
    sequence = isinstance(origin, type) and issubclass(origin, Sequence)
    return get_args(hint)[0] if sequence and get_args(hint) else None


def values_of(hint: Any) -> Any:
    """The annotation of a mapping's values, None where it is no mapping (or says nothing of them)."""
    origin = get_origin(hint)
    if origin is Annotated or origin in (Union, types.UnionType):
        parts = get_args(hint)[:1] if origin is Annotated else get_args(hint)
        return next((values for part in parts if (values := values_of(part)) is not None), None)
    mapping = isinstance(origin, type) and issubclass(origin, Mapping)
    return get_args(hint)[1] if mapping and len(get_args(hint)) > 1 else None
