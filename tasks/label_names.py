"""From what a table says of a class to the task's name for it, and to its index.

A table's value is first renamed (`task.label_map`), then found among the task's names (`task.label_names`): by name, by the
same name in another case, or by number. Whole floats, which tables with gaps hold, count as whole numbers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from benchmark.errors import UserError, check_characters
from benchmark.settings.typed import typed

_WHOLE = re.compile(r"(-?\d+)\.0+")
_MISSING = ("nan", "null", "<na>", "nat")
_SHOWN = 20  # names in a message


def label_text(value: object) -> str:
    """A label as text, without white space around it; `1.0` is `1`. UserError where it has a lone surrogate."""
    text = str(value).strip()
    check_characters(text, f"the label {text!a}")
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def renamed(text: str, label_map: Mapping[Any, Any] | None) -> str:
    """What the map calls a label (case counts only where two keys differ in nothing else); itself where it has none."""
    names = {label_text(key): str(name) for key, name in (label_map or {}).items()}
    folded = {key.casefold(): name for key, name in names.items()}
    return names.get(text, folded.get(text.casefold(), text))


def named(value: object, label_map: Mapping[Any, Any] | None, where: str) -> str:
    """What a task calls a label whose names are those that its table has.

    Raises:
        UserError: it is what a missing value is written as, and no setting says that it is a class.
    """
    text = label_text(value)
    name = renamed(text, label_map)
    if name == text and text.casefold() in _MISSING:
        raise UserError(
            f"{where}: the label is '{text}', as a missing value is written; drop the row, or name all classes if it is "
            "one: task.label_names=[...]"
        )
    return name


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once: whole numbers by value, then others by letter."""
    return tuple(
        sorted(set(names), key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
    )


def checked_map(label_map: Mapping[Any, Any] | None, names: Sequence[str] | None) -> None:
    """UserError for a map that is none, or that leads to a name which the task does not have."""
    if label_map is None:
        return
    if not isinstance(label_map, Mapping):
        raise UserError(
            f'task.label_map={label_map}: allowed are null and maps, such as "task.label_map={{good: POS}}"'
        )
    if names is not None and (strange := [name for name in map(str, label_map.values()) if name not in names]):
        raise UserError(f"task.label_map leads to {strange[0]!r}, which is none of task.label_names: {_listed(names)}")


def label_index(value: object, labels: Sequence[str], where: str, label_map: Mapping[Any, Any] | None = None) -> int:
    """Index of a label among the task's names.

    Args:
        value: what the table says.
        labels: the task's names. Where none of them is a whole number, a value that is one counts them from 0.
        where: the place, for the error.
        label_map: from values to names.

    Raises:
        UserError: the value is none of them; with place, value, names, and the setting that would tell.
    """
    plain = str(value).strip()
    text = plain if plain in labels else renamed(label_text(value), label_map)
    if text in labels:
        return labels.index(text)
    folded = [label.casefold() for label in labels]
    if text.casefold() in folded:
        return folded.index(text.casefold())
    numbered = not any(label.isdecimal() for label in labels)
    if numbered and text.isdecimal() and int(text) < len(labels):
        return int(text)
    raise UserError(f"{where}: label '{text}' is unknown{_reason(text, labels, numbered=numbered)}")


def _reason(text: str, labels: Sequence[str], *, numbered: bool) -> str:
    known = f"; the task's labels are {_listed(labels)}"
    if text == "-1":
        return f" (a hidden label: use a split with labels, task.splits or task.files){known}"
    way_out = typed("task.label_map", {text: _alike(text, labels) or "NAME"}) or "task.label_map"
    counted = ", and whole numbers count these from 0" if numbered and text.isdecimal() else ""
    return f"{known}{counted}; say which of them it is: {way_out}"


def _alike(text: str, names: Sequence[str]) -> str | None:
    """The one name that looks the same: an abbreviation, or the nearest spelling."""
    folded = {name.casefold(): name for name in names}
    word = text.casefold()
    abbreviated = [name for key, name in folded.items() if key.startswith(word) or word.startswith(key)]
    near = [folded[key] for key in get_close_matches(word, list(folded), n=2, cutoff=0.8)]
    found = abbreviated or near
    return found[0] if len(found) == 1 else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
