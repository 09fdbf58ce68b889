"""What to type in place of a setting or an option that does not exist."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from omegaconf import OmegaConf

from benchmark.errors import near
from benchmark.settings.read_modules import outline_of
from benchmark.settings.typed import typed

_SHOWN = ("methods", "evaluations", "analyses")
_CHOSEN = ("model", "task")
_TABLES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")


def other_setting(key: str, part: str, node: Mapping[str, Any], names: Sequence[str]) -> str:
    """The way out for a setting that its class does not have.

    Args:
        key: what was typed, dotted.
        part: of the key, the name that does not exist.
        node: what was looked into, whole.
        names: what it has.
    """
    before = key.partition(f".{part}")[0] if f".{part}" in key else ""
    group, _, rest = before.partition(".")
    if deeper := sorted(_leading_to(node, part, before)):
        return f"did you mean {', '.join(deeper[:3])}?"
    if group in _CHOSEN and not rest and (others := _options_with(group, part)):
        return f"it is one of {' and '.join(f'{group}={name}' for name in others)}, which is chosen with it"
    said = near(part, names)
    if said.startswith("allowed") and group in _SHOWN and rest:
        return f"{said}; attention-benchmark show {rest.partition('.')[0]} tells what each is"
    return said


def other_option(group: str, name: str, allowed: Sequence[str]) -> str:
    """The way out for an option that its group does not have: a file or a checkpoint is a setting of one."""
    if group == "model" and "/" in name:
        return f"a checkpoint is model=hf model.path={name}"
    if group == "task" and name.endswith(_TABLES):
        return f"a table is task=text_classification {typed('task.files', {'test': name})}"
    return near(name, allowed)


def _leading_to(node: Any, name: str, path: str) -> Iterator[str]:
    """Paths of the settings of that name, in the parts of a part."""
    for key, value in node.items() if isinstance(node, Mapping) else ():
        if key == name:
            yield f"{path}.{key}"
        yield from _leading_to(value, name, f"{path}.{key}")


def _options_with(group: str, name: str) -> list[str]:
    """Options of a group of `conf/` whose class has a setting."""
    found = []
    for file in (files("conf") / group).iterdir():
        if file.name.endswith(".yaml"):
            target = OmegaConf.select(OmegaConf.create(file.read_text(encoding="utf-8")), "_target_")
            outline = outline_of(str(target)) if target else None
            if outline is not None and name in outline.parameters:
                found.append(file.name.removesuffix(".yaml"))
    return sorted(found)
