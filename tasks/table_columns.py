"""What a row holds under the names of a setting, with a line that says what is missing."""

import math
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from benchmark.errors import UserError
from benchmark.settings.ways_out import typed
from tasks.local_tables import Row

_NAME = re.compile(r"\w+([ .#-]*\w+)*")
_WITH_FIXED_COLUMNS = ("boxes", "splits")
"""Settings that name a table, and not a column of it."""

_RATIONALES = ("rationale", "rationales", "evidence", "evidences", "highlight", "highlights")


def value_of(row: Row, names: Sequence[str], setting: str) -> Any:
    """The value of the first of these columns that has one; UserError where none does."""
    where, values = row
    for name in names:
        if not _is_nothing(values.get(name), blank=setting == "label"):
            return values[name]
    way_out = "drop the row or mend it" if any(name in values for name in names) else _nearest(names, values, setting)
    raise UserError(
        f"{where}: no value in column {' or '.join(map(repr, names))} (task.{setting}); "
        f"columns are {', '.join(map(_shown, values))}; {way_out}"
    )


def text_of(row: Row, names: Sequence[str], setting: str) -> str:
    """The text of the first of these columns that has a value; UserError where it holds no word."""
    value = value_of(row, names, setting)
    if not isinstance(value, str):
        raise UserError(f"{row[0]}: column of task.{setting} holds {type(value).__name__}, expected a text")
    if not value.split():
        raise UserError(f"{row[0]}: the text has zero words (task.{setting}); drop the row or mend it")
    return value


def has_column(rows: Sequence[Row], names: Sequence[str]) -> bool:
    """Whether any row has one of these columns."""
    return any(name in values for _, values in rows for name in names)


def unused_rationale(rows: Sequence[Row]) -> str | None:
    """The first column that is called as rationales are."""
    return next((name for name in rows[0][1] if str(name).casefold() in _RATIONALES), None)


def _is_nothing(value: Any, *, blank: bool) -> bool:
    """None, NaN and, where `blank` texts are no values, those of white space alone."""
    if isinstance(value, str):
        return blank and not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _nearest(names: Sequence[str], columns: Iterable[str], setting: str) -> str:
    folded = {str(column).casefold(): str(column) for column in columns}
    near = get_close_matches(names[0].casefold(), list(folded), n=1, cutoff=0.6)
    if setting in _WITH_FIXED_COLUMNS:
        return f"call it {names[0]} in the first line"
    column = folded[near[0]] if near else "COLUMN"
    plain = re.fullmatch(r"\w+", column)
    return f"set task.{setting}={column}" if plain else f"set {typed(f'task.{setting}', column)}"


def _shown(column: object) -> str:
    """The name of a column; in quotation marks where it would not be seen where it begins and ends."""
    return str(column) if _NAME.fullmatch(str(column)) else repr(str(column))
