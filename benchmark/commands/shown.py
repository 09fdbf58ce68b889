"""What there is to choose from, and what one thing is: for `attention-benchmark list` and `show`."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from benchmark.errors import UserError, near, shorter
from benchmark.settings.configuration import GROUPS, KEYED, compose, options
from benchmark.settings.declared import described
from benchmark.settings.defaults import whole_declared
from benchmark.settings.outlines import UNKNOWN, Outline, StandIn
from benchmark.settings.read_modules import outline_of


def listing(directory: str | None = None) -> str:
    """Every name of every group with a line of what it is."""
    lines: list[str] = []
    for group in GROUPS:
        names = ",".join(options(group, directory))
        configs = compose(None, [f"+{group}=[{names}]"], directory)[group] if group in KEYED else None
        named = {name: _summary(group, name, configs, directory) for name in options(group, directory)}
        width = max(map(len, named))
        lines += [
            group,
            *(f"  {name:{width}}  {shorter(summary, 110)}".rstrip() for name, summary in named.items()),
            "",
        ]
    return "\n".join([*lines, "attention-benchmark show NAME tells more of one."])


def description(name: str, directory: str | None = None) -> str:
    """What a name stands for: its comment, its classes with their docstrings, and its settings with defaults.

    Args:
        name: of a YAML; `group/name` where two groups have it.
        directory: one more folder of YAMLs.

    Raises:
        UserError: no group has the name, or several have it.
    """
    there = {f"{group}/{option}": (group, option) for group in GROUPS for option in options(group, directory)}
    found = [place for place in there if place == name or place.partition("/")[2] == name]
    if not found:
        raise UserError(f"nothing is called {name}; {near(name, sorted({option for _, option in there.values()}))}")
    return "\n\n".join(_described(*there[place], directory) for place in found)


def _described(group: str, name: str, directory: str | None) -> str:
    comment = _comment(group, name, directory)
    chosen = (
        f"+experiment={name}" if group == "experiment" else f"{group}=[{name}]" if group in KEYED else f"{group}={name}"
    )
    head = [f"{name} ({group}): {chosen}", *([comment] if comment else [])]
    if group == "experiment":
        return "\n\n".join([*head, _yaml(group, name, directory).read_text(encoding="utf-8")])
    composed = compose(None, [f"+{chosen}"], directory)[group]
    config: Any = whole_declared(OmegaConf.to_container(composed[name] if group in KEYED else composed, resolve=True))
    prefix = f"{group}.{name}" if group in KEYED else group
    texts = [outline.docstring for _, outline in _outlines(config, prefix)]
    settings = [
        line for path, outline in _outlines(config, prefix) for line in _settings(config, prefix, path, outline)
    ]
    return "\n\n".join([*head, *dict.fromkeys(texts), "Settings\n" + "\n".join(settings or ["  none"])])


def _outlines(config: Any, path: str) -> Iterator[tuple[str, Outline]]:
    """The class of a configuration and of each of its parts, with the path of their settings."""
    if isinstance(config, Mapping):
        if "_target_" in config and (outline := outline_of(str(config["_target_"]))) is not None:
            yield path, outline
        for key, value in config.items():
            yield from _outlines(value, f"{path}.{key}")


def _settings(config: Any, prefix: str, path: str, outline: Outline) -> Iterator[str]:
    """Each setting of a class as it is typed, with its value here and what may be."""
    node = config
    for key in path.removeprefix(prefix).split(".")[1:]:
        node = node[key]
    for name, parameter in outline.parameters.items():
        value = node.get(name)
        if isinstance(value, Mapping) and "_target_" in value:
            continue
        shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else value
        known = parameter.hint is not UNKNOWN and not (
            isinstance(parameter.hint, type) and issubclass(parameter.hint, StandIn)
        )
        yield f"  {path}.{name}={shown}" + (f"    # {described(parameter.hint)}" if known else "")


def _summary(group: str, name: str, configs: Any, directory: str | None) -> str:
    """The first line of the YAML's comment, else of its class's docstring."""
    if comment := _comment(group, name, directory):
        return comment.splitlines()[0]
    config = configs[name] if group in KEYED else compose(None, [f"+{group}={name}"], directory)[group]
    parts = [config[key] for key in ("edges", "readout") if key in config] or [config]
    outlines: Sequence[Outline | None] = [outline_of(str(part["_target_"])) for part in parts]
    return " · ".join(text.partition("\n")[0].rstrip(".") for one in outlines if one and (text := one.docstring))


def _comment(group: str, name: str, directory: str | None) -> str:
    """What a YAML says of itself in the lines that it begins with."""
    lines = _yaml(group, name, directory).read_text(encoding="utf-8").splitlines()
    said = [line.lstrip("# ") for line in lines if line.startswith("#") and "@package" not in line]
    first = next((number for number, line in enumerate(lines) if not line.startswith("#")), 0)
    return "\n".join(said[:first]) if first else ""


def _yaml(group: str, name: str, directory: str | None) -> Any:
    own = Path(directory or ".", group, f"{name}.yaml")
    return own if directory and own.is_file() else files("conf") / group / f"{name}.yaml"
