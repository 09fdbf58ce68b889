"""What makes two explainers, tests or analyses the same: class, version and settings, all the way down.

Run folders and stored figures are named by it. It is conservative: what cannot be compared is an error and never "the same".
"""

import functools
import inspect
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import file_digest, sha256
from pathlib import Path, PurePath
from typing import Any

from benchmark.errors import UserError
from benchmark.results.digests import digest
from benchmark.settings.declared import OF_FILE


def identity(value: Any) -> Any:
    """Class, version and settings of an object, recursively, in a form that JSON can write.

    - dataclass: `[class, version, {field: identity}]`, with the content of a file that a field `of_file` names;
    - any other object: the same with its attributes, or with `get_params()` where it has that (scikit-learn's way);
      values that a `cached_property` keeps are left out;
    - an object that stands for another, its `identified_as`: that of the other;
    - mapping, sequence, set, array, number, text, path, class and function: what it holds.

    Raises:
        UserError: an object has neither fields nor attributes, so that two of them cannot be told apart.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {str(key): identity(item) for key, item in value.items()}
        return {"pairs": sorted(([identity(key), identity(item)] for key, item in value.items()), key=repr)}
    if isinstance(value, Set):
        return {"set": sorted((identity(item) for item in value), key=repr)}
    if isinstance(value, bytes | bytearray):
        return {"bytes": sha256(value).hexdigest()}
    if isinstance(value, Sequence):
        return [identity(item) for item in value]
    return _identity_of_object(value)


def digest_of(value: Any) -> str:
    """SHA-256 of an object's identity."""
    return digest(identity(value))


def digests_of(named: Mapping[str, Any]) -> dict[str, str]:
    """`digest_of` of each of several objects, by name."""
    return {str(name): digest_of(value) for name, value in named.items()}


def _identity_of_object(value: Any) -> Any:
    if isinstance(value, PurePath | complex):
        return [_name(type(value)), str(value)]
    if isinstance(value, Enum):
        return [_name(type(value)), value.name]
    if isinstance(value, type):
        return _version(value)
    if (other := getattr(value, "identified_as", None)) is not None:
        return identity(other)
    if isinstance(value, functools.partial):
        return ["partial", identity(value.func), identity(value.args), identity(value.keywords)]
    if callable(value) and hasattr(value, "__qualname__"):
        return _identity_of_function(value)
    if hasattr(value, "__array__"):
        return _identity_of_array(value)
    return [*_version(type(value), value), _settings(value)]


def _settings(value: Any) -> dict[str, Any]:
    if is_dataclass(value):
        of = {part.name: _identity_of_file if part.metadata.get(OF_FILE) else identity for part in fields(value)}
        return {name: read(getattr(value, name)) for name, read in of.items()}
    if callable(parameters := getattr(value, "get_params", None)):
        return {str(name): identity(item) for name, item in parameters(deep=False).items()}
    kind = type(value)
    slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    if not hasattr(value, "__dict__") and not hasattr(kind, "__slots__"):
        raise UserError(f"{_name(kind)} has no settings that can be read; make it a dataclass, or give it attributes")
    static = {name: inspect.getattr_static(kind, name, None) for name in sorted(attributes)}
    stored = [name for name, attribute in static.items() if not isinstance(attribute, functools.cached_property)]
    return {name: identity(attributes[name]) for name in stored}


def _identity_of_file(value: Any) -> Any:
    path = Path(value) if isinstance(value, str) else None
    if path is None or not path.is_file():
        return identity(value)
    with path.open("rb") as file:
        return {"file": file_digest(file, "sha256").hexdigest()}


def _identity_of_function(value: Any) -> Any:
    """Module and name; of a lambda or a function within a function also its code, as names do not tell two of them apart."""
    owner = getattr(value, "__self__", None)
    parts = [f"{value.__module__}.{value.__qualname__}", getattr(value, "version", 0)]
    if owner is not None and not inspect.ismodule(owner):
        parts.append(identity(owner))
    if "<" in value.__qualname__ and (code := getattr(value, "__code__", None)) is not None:
        enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        parts += [sha256(code.co_code + repr((code.co_consts, code.co_names)).encode()).hexdigest(), identity(enclosed)]
        parts.append(identity(value.__defaults__))
    return parts


def _identity_of_array(value: Any) -> Any:
    import numpy as np

    detached = value.detach().cpu() if hasattr(value, "detach") else value
    array = np.ascontiguousarray(detached)
    if array.dtype.hasobject:
        return ["array", identity(array.tolist())]
    if array.ndim == 0:
        return identity(array.item())
    return ["array", str(array.dtype), list(array.shape), sha256(array.tobytes()).hexdigest()]


def _version(kind: type, value: Any = None) -> list[Any]:
    return [_name(kind), getattr(kind if value is None else value, "version", 0)]


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
