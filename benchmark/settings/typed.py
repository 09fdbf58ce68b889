"""How a setting is typed on the command line: what a message proposes can be copied as it stands."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][\w.+/-]*", re.ASCII)
_KEY = re.compile(r"[\w.+/-]+( [\w.+/-]+)*", re.ASCII)  # Hydra takes no quotation marks around a key
_TO_ESCAPE = re.compile(r"(\\*)('|\$\{|\Z)")
_OF_THE_SHELL = {*'"$`\\!\n'}  # what means something between double quotation marks
_OTHER_MEANING = {"null", "true", "false", "nan", "inf"}


def typed(key: str, value: Any) -> str | None:
    """`"key=value"` with the shell's quotation marks, in Hydra's grammar; None for what it cannot hold.

    Args:
        key: the setting, dotted.
        value: a text, or a list or mapping of texts.
    """
    if isinstance(value, Mapping):
        if not all(_KEY.fullmatch(str(name)) for name in value):
            return None
        spelled = "{" + ", ".join(f"{name}: {_text(str(item))}" for name, item in value.items()) + "}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        spelled = "[" + ",".join(_text(str(item)) for item in value) + "]"
    else:
        spelled = _text(str(value))
    whole = f"{key}={spelled}"
    return shlex.quote(whole) if _OF_THE_SHELL & {*whole} else f'"{whole}"'


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.casefold() not in _OTHER_MEANING:
        return text
    return f"'{_TO_ESCAPE.sub(_escaped, text)}'"


def _escaped(found: re.Match[str]) -> str:
    """Backslashes stand for themselves, but are written twice before a quotation mark, an interpolation and the end."""
    slashes, following = found.groups()
    return f"{slashes * 2}\\{following}" if following else slashes * 2
