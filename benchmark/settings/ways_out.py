"""What a person is told of a mistake on the command line: refusals in plain words, and what to type instead."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from omegaconf import OmegaConf

from benchmark.errors import near
from benchmark.settings.sources import outline_of

_SHOWN = ("methods", "evaluations", "analyses")
_CHOSEN = ("model", "task")
_LAUNCHERS = ("joblib", "submitit_local", "submitit_slurm")  # of the extra `launchers`
_TABLES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
_UNQUOTED = re.compile(r"[A-Za-z_][\w.+/-]*", re.ASCII)
_UNQUOTED_KEY = re.compile(r"[\w.+/-]+( [\w.+/-]+)*", re.ASCII)  # Hydra takes no quotation marks around a key
_TO_ESCAPE = re.compile(r"(\\*)('|\$\{|\Z)")
_OF_THE_SHELL = {*'"$`\\!\n'}  # what means something between double quotation marks
_OTHER_MEANING = {"null", "true", "false", "nan", "inf"}
_REFUSALS = (
    (
        r"^(?:LexerNoViableAltException|missing EQUAL|mismatched input|extraneous|no viable alt|Error parsing override)",
        "a setting is written NAME=VALUE, and a text with spaces or brackets in quotation marks of its own",
    ),
    (
        r"An item is already at '([^']+)'. Either remove \+ prefix: '([^']+)'",
        "{0} is there already; write {1}, without +",
    ),
    (r"Multiple values for ([\w/]+)", "{0} is chosen twice; write {0}=NAME once, without +"),
    (r"Could not delete from config\. '([^']+)' does not exist", "~{0}: there is no setting {0}"),
    (r"Could not delete from config\. The value of '([^']+)' is (\S+) and not", "~{0}: its value is {1}; write ~{0}"),
    (r"Could not delete '([^']+)'\. No match in the defaults list", "~{0}: write {0}=[...] with those that stay"),
    (
        r"Could not override '([^']+)'\. No match in the defaults list",
        "+experiment=NAME does not fit: there is no {0} here",
    ),
    (r"Environment variable '([^']+)' not found", "the environment variable {0} is not set"),
    (r"Interpolation key '([^']+)' not found", "${{{0}}} refers to a setting that does not exist"),
    (r"InterpolationKeyError.*'([^']+)' not found", "${{{0}}} refers to a setting that does not exist"),
    (r"Unsupported interpolation type (\S+)", "there is no resolver ${{{0}:...}}"),
    (r"Error merging override (\S+)", "{0}: this setting takes no such value"),
    (r"looks like a config group override, but config group '([^']+)' does not", "there is no group {0}"),
    (r"Missing mandatory value: (\S+)", "{0} is not set; give it on the command line: {0}=..."),
    (r"([\w./-]+) appears more than once in the final defaults list", "{0} is named twice; name it once"),
)
"""What Hydra 1.3 and OmegaConf 2.3 refuse, and the same in the words of a command line."""


def in_plain_words(error: BaseException, options: Callable[[str], Sequence[str]]) -> str:
    """The refusal in one line; for an option that does not exist, with the nearest ones.

    Args:
        error: of Hydra's or OmegaConf's.
        options: those of a group.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if missing := re.search(r"Could not (?:find|load) '(.+)/(.+?)'", lines[0]):
        names = [line for line in lines[2:] if ":" not in line and "provider=" not in line]
        if missing[1] == "hydra/launcher" and missing[2] in _LAUNCHERS:
            install = "pip install 'attention-explainer-benchmark[launchers]'"
            return f"{missing[1]}={missing[2]} is part of an extra that is not installed: {install}"
        return f"{missing[1]}={missing[2]} does not exist; {near(missing[2], names or options(missing[1]))}"
    text = " ".join(lines)
    for pattern, sentence in _REFUSALS:
        if refused := re.search(pattern, text):
            return sentence.format(*refused.groups())
    return f"the settings do not fit together: {lines[0]}"


def not_set(setting: str) -> str:
    """The sentence for a setting that has to be given."""
    return f"{setting} is not set; give it on the command line: {setting}=..."


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
        return f"it is a setting of {', '.join(f'{group}={name}' for name in others)}: choose one of them beside it"
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


def typed(key: str, value: Any) -> str | None:
    """`"key=value"` as it can be typed: with the shell's quotation marks, in Hydra's grammar; None for what it cannot hold.

    Args:
        key: the setting, dotted.
        value: a text, or a list or mapping of texts.
    """
    if isinstance(value, Mapping):
        if not all(_UNQUOTED_KEY.fullmatch(str(name)) for name in value):
            return None
        spelled = "{" + ", ".join(f"{name}: {_text(str(item))}" for name, item in value.items()) + "}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        spelled = "[" + ",".join(_text(str(item)) for item in value) + "]"
    else:
        spelled = _text(str(value))
    whole = f"{key}={spelled}"
    return shlex.quote(whole) if _OF_THE_SHELL & {*whole} else f'"{whole}"'


def _text(text: str) -> str:
    if _UNQUOTED.fullmatch(text) and text.casefold() not in _OTHER_MEANING:
        return text
    return f"'{_TO_ESCAPE.sub(_escaped, text)}'"


def _escaped(found: re.Match[str]) -> str:
    """Backslashes stand for themselves, but are written twice before a quotation mark, an interpolation and the end."""
    slashes, following = found.groups()
    return f"{slashes * 2}\\{following}" if following else slashes * 2
