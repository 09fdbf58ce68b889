"""What there is to choose from, and what one thing is: for `attention-benchmark list` and `show`."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from benchmark.errors import UserError, near, shorter
from benchmark.settings.configuration import GROUPS, KEYED, compose, options, yaml_of
from benchmark.settings.declared import described
from benchmark.settings.defaults import whole_declared
from benchmark.settings.docstrings import Docstring, wrapped
from benchmark.settings.own_folder import form, refuse_empty
from benchmark.settings.sources import UNKNOWN, Outline, StandIn, outline_at
from benchmark.settings.ways_out import typed
from benchmark.working_folder import own_classes_importable

_REFERS = re.compile(r"of `\w+`\.?")
_OF_A_FILE = 120
_ROOM = 30


def listing(chosen: str | None = None, directory: str | None = None) -> str:
    """Every name of every group, or of one, with a line of what it is.

    Raises:
        UserError: there is no such group.
    """
    chosen = next((group for group in GROUPS if chosen in (group, f"{group}s")), chosen)
    if chosen not in (None, *GROUPS):
        raise UserError(f"there is no list of {chosen}; {near(str(chosen), GROUPS)}")
    lines: list[str] = []
    for group in GROUPS if chosen is None else (chosen,):
        names = ",".join(options(group, directory))
        configs = compose(None, [f"+{group}=[{names}]"], directory).get(group) if group in KEYED else None
        named = {name: _summary(group, name, configs, directory) for name in options(group, directory)}
        width = max(map(len, named))
        room = max(_ROOM, _columns() - width - 4)
        lines += [
            group,
            *(f"  {name:{width}}  {shorter(summary, room)}".rstrip() for name, summary in named.items()),
            "",
        ]
    return "\n".join([*lines, "attention-benchmark show NAME tells more of one."])


def description(name: str, directory: str | None = None) -> str:
    """What a name stands for: its comment, its classes with their docstrings, and its settings with defaults.

    Args:
        name: of a YAML; `group/name` where two groups have it; or mechanism=NAME for what is written by hand.
        directory: one more folder of YAMLs.

    Raises:
        UserError: no group has the name, or several have it.
    """
    kind, is_one, mechanism_name = name.partition("=")
    if is_one and kind == "mechanism":
        return _mechanism(mechanism_name)
    there = {f"{group}/{option}": (group, option) for group in GROUPS for option in options(group, directory)}
    found = [place for place in there if place == name or place.partition("/")[2] == name]
    if not found:
        raise UserError(f"nothing is called {name}; {near(name, sorted({option for _, option in there.values()}))}")
    return "\n\n".join(_described(*there[place], directory) for place in found)


def _mechanism(name: str) -> str:
    own_classes_importable()  # it is named by its dotted path, or is one of ours
    from benchmark.models.written.mechanisms import SHARES, mechanism
    from benchmark.models.written.told import told

    return told(mechanism(name, SHARES["medium"]))


def _described(group: str, name: str, directory: str | None) -> str:
    comment = _comment(group, name, directory)
    chosen = (
        f"+experiment={name}" if group == "experiment" else f"{group}=[{name}]" if group in KEYED else f"{group}={name}"
    )
    head = [f"{name} ({group}): {chosen}", *([wrapped(comment, _columns())] if comment else [])]
    if group == "experiment":
        return "\n\n".join([*head, yaml_of(f"{group}/{name}", directory).read_text(encoding="utf-8")])
    config = _whole(group, name, compose(None, [f"+{chosen}"], directory).get(group), directory)
    prefix = f"{group}.{name}" if group in KEYED else group
    parts = list(_parts(config, prefix))
    texts = [_text(part, path, outline, several=len(parts) > 1) for path, part, outline in _in_reading_order(parts)]
    settings = [line for path, part, outline in parts for line in _settings(part, path, outline)]
    return "\n\n".join([*head, *texts, "Settings\n" + "\n".join(settings or ["  none"])])


def _whole(group: str, name: str, composed: Any, directory: str | None) -> Any:
    """What a YAML makes, with every setting of the classes that it names.

    Args:
        composed: the configuration of its group.

    Raises:
        UserError: it is empty or names no class, or one that does not exist.
    """
    refuse_empty(group, name, directory)
    config = composed.get(name) if group in KEYED and isinstance(composed, DictConfig) else composed
    if not isinstance(config, DictConfig) or "_target_" not in config:
        raise UserError(f"{yaml_of(f'{group}/{name}', directory)} names no class; its form is {form(group, name)}")
    return whole_declared(OmegaConf.to_container(config, resolve=True))


def _columns() -> int:
    """Of the terminal; where the text goes to a file or another command, as many as a file has."""
    return shutil.get_terminal_size((_OF_A_FILE, 24)).columns


def _parts(config: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any], Outline]]:
    """A configuration that names a class, and each of its parts that does: the path of its settings, they, and its class."""
    if isinstance(config, Mapping):
        if "_target_" in config and (outline := outline_at(path, str(config["_target_"]))) is not None:
            yield path, config, outline
        for key, value in config.items():
            yield from _parts(value, f"{path}.{key}")


def _in_reading_order(
    parts: list[tuple[str, Mapping[str, Any], Outline]],
) -> list[tuple[str, Mapping[str, Any], Outline]]:
    """What is particular to a method first: its edge score and readout, then how all such methods are put together."""
    return [*parts[1:], parts[0]] if parts and "edges" in parts[0][1] else parts


def _text(config: Mapping[str, Any], path: str, outline: Outline, *, several: bool) -> str:
    """What a class is with these settings, below its path where the configuration has several."""
    said = wrapped(Docstring.of(outline.docstring).read(config), _columns())
    return f"{path}: {outline.target.rpartition('.')[2]}\n{said}" if several else said


def _settings(config: Mapping[str, Any], path: str, outline: Outline) -> Iterator[str]:
    """Each setting of a class as it is typed, with its value here, what may be, and what its class says of it."""
    said = _said(outline)
    for name, parameter in outline.parameters.items():
        value = config.get(name)
        if isinstance(value, Mapping) and "_target_" in value:
            continue
        known = parameter.hint is not UNKNOWN and not (
            isinstance(parameter.hint, type) and issubclass(parameter.hint, StandIn)
        )
        yield f"  {_typed(f'{path}.{name}', value)}" + (f"    # {described(parameter.hint)}" if known else "")
        if name in said:
            yield wrapped(said[name], _columns(), indent="      ")


def _said(outline: Outline) -> dict[str, str]:
    """What a class says of its settings; of those that it only refers to an ancestor for, what the ancestor says."""
    own = Docstring.of(outline.docstring).settings
    inherited = {name: text for base in outline.bases for name, text in _said(base).items()}
    return inherited | {name: text for name, text in own.items() if not (name in inherited and _REFERS.fullmatch(text))}


def _typed(path: str, value: Any) -> str:
    """A setting with its value, such that the shell and Hydra read it back."""
    if isinstance(value, Sequence | Mapping) and not isinstance(value, str):
        items = value.values() if isinstance(value, Mapping) else value
        if all(isinstance(item, str) for item in items) and (text := typed(path, value)) is not None:
            return text
        return f'"{path}={str(value).replace(" ", "")}"'
    return f"{path}={'null' if value is None else str(value).lower() if isinstance(value, bool) else value}"


def _summary(group: str, name: str, configs: Any, directory: str | None) -> str:
    """The first line of the YAML's comment, else of its class's docstring."""
    if comment := _comment(group, name, directory):
        return comment.splitlines()[0]
    if group == "experiment":  # it makes nothing of its own
        return ""
    composed = configs if group in KEYED else compose(None, [f"+{group}={name}"], directory).get(group)
    whole = _whole(group, name, composed, directory)
    prefix = f"{group}.{name}" if group in KEYED else group
    named = {f"{prefix}.{key}": whole[key] for key in ("edges", "readout") if isinstance(whole.get(key), Mapping)}
    read = [
        Docstring.of(one.docstring).read(part)
        for path, part in (named or {prefix: whole}).items()
        if (one := outline_at(path, str(part["_target_"])))
    ]
    return " · ".join(text.partition("\n")[0].rstrip(".") for text in read if text)


def _comment(group: str, name: str, directory: str | None) -> str:
    """What a YAML says of itself in the lines that it begins with."""
    lines = yaml_of(f"{group}/{name}", directory).read_text(encoding="utf-8").splitlines()
    said = [line.lstrip("# ") for line in lines if line.startswith("#") and "@package" not in line]
    first = next((number for number, line in enumerate(lines) if not line.startswith("#")), 0)
    return "\n".join(said[:first]) if first else ""
