"""Methods and tests as a person names them: names, settings, configured objects, functions, or a mapping of those."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from benchmark.errors import UserError, near
from benchmark.notebook.adapters import Unserved, of_callable
from benchmark.settings.checking import check_name
from benchmark.settings.configuration import ALL, compose, missing_keys, options
from benchmark.settings.making import make
from benchmark.types import Compared, Evaluation, Method, as_compared

Group = Literal["methods", "evaluations"]
_UNFITTED = "it looks at training examples first, and there are none; give method.fit(examples) in its place"
_SEARCH = "a search scores no words"


def choose(group: Group, given: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> object, in the order given.

    Args:
        group: of the YAMLs that names stand for.
        given: a name, an object, or a list of them; with settings among the names (`methods.rollout.readout.start_layer=2`,
            or without the group before it). `all` is every name that needs no setting. Or a mapping of names of one's own
            to names or objects. A method may be a function, see `adapters.of_callable`.
        inputs: what functions of a text are called with, by identifier.

    Raises:
        UserError: there is no such name or setting, or an object is neither.
    """
    if isinstance(given, Mapping) and "_target_" not in given:
        named = {str(name): value for name, value in given.items()}
    else:
        listed = [given] if isinstance(given, str | Mapping) or not isinstance(given, Iterable) else list(given)
        named = _listed(group, listed)
    if not named:
        raise UserError(f"{group} is empty; name at least one of: {', '.join(options(group))}")
    for name in named:
        check_name(group, name)
    names = [value for value in named.values() if isinstance(value, str) and "=" not in value]
    settings = [value for value in _flat(given) if isinstance(value, str) and "=" in value]
    built = _built(group, list(dict.fromkeys(names)), settings)
    return {name: _object(group, name, built.get(value, value) if isinstance(value, str) else value, value, inputs)
            for name, value in named.items()}  # fmt: skip


def _flat(given: Any) -> list[Any]:
    if isinstance(given, str):
        return [given]
    return list(given.values()) if isinstance(given, Mapping) else list(given) if isinstance(given, Iterable) else []


def _listed(group: Group, given: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for value in given:
        if value == ALL and isinstance(value, str):
            named |= {str(name): str(name) for name in compose(None, [f"+{group}={ALL}"])[group]}
        elif isinstance(value, str):
            name = _name_of_setting(group, value) if "=" in value else value
            named.setdefault(name, name)
        else:
            named[_free(_name_of(value), named)] = value
    return named


def _name_of_setting(group: Group, text: str) -> str:
    """Whose setting it is."""
    name, _, setting = text.partition("=")[0].lstrip("+~").removeprefix(f"{group}.").partition(".")
    if not setting:
        raise UserError(f"'{text}' names no setting; write {group}.NAME.SETTING=VALUE")
    return name


def _name_of(value: Any) -> str:
    """What an object is called in tables: a function's own name, or its class's."""
    own = getattr(value, "__name__", None)
    if own == "<lambda>":
        return "function"
    return str(own) if own is not None else re.sub(r"(?<!^)(?=[A-Z])", "_", type(value).__name__).lower()


def _free(name: str, taken: Mapping[str, Any]) -> str:
    return next(free for free in (name, *(f"{name} ({count})" for count in range(2, 10_000))) if free not in taken)


def _built(group: Group, names: list[str], settings: list[str]) -> dict[str, Any]:
    """The objects of these names, with the settings of them that were given."""
    known = options(group)
    for name in names:
        if name not in known:
            raise UserError(f"{group}={name} does not exist; {near(name, known)}")
    if not names:
        return {}
    overrides = [_override(group, text) for text in settings]
    config = compose(None, [f"+{group}=[{','.join(names)}]", *overrides])
    if missing := missing_keys(config):
        raise UserError(f"{missing[0]} is not set; add '{missing[0]}=...' to {group}")
    return {name: make(config[group][name]) for name in names}


def _override(group: Group, text: str) -> str:
    bare = text.lstrip("+~")
    signs = text[: len(text) - len(bare)]
    return f"{signs}{group}.{bare.removeprefix(f'{group}.')}"


def _object(group: Group, name: str, value: Any, given: Any, inputs: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping | DictConfig):
        value = make(OmegaConf.create(dict(value)))
    if isinstance(value, type):
        raise UserError(f"{group}: {value.__name__} is a class; give an object of it, such as {value.__name__}()")
    if group == "evaluations":
        if not isinstance(value, Evaluation):
            raise UserError(f"evaluations: {type(value).__name__} is no test; give a name: {', '.join(options(group))}")
        return value
    if isinstance(given, str) and isinstance(value, Method) and value.fitted:
        return Unserved(_UNFITTED)
    if isinstance(value, Method):
        return as_compared(value)
    if isinstance(value, Compared):
        return Unserved(_SEARCH)
    if not callable(value):
        raise UserError(f"methods: {type(value).__name__} '{name}' is no method; give a name, a function or an object")
    return of_callable(name, value, inputs)
