"""Data as a page carries them: numbers as they are shown, JSON without blanks, compressed, as text."""

import gzip
import json
import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

from benchmark.results.wording import number

Shown = float | str | None
"""A number as it is shown; a word for one that is not finite; None where there is none."""


def shown(value: float | None) -> Shown:
    """The number that a table prints for a value, so that the page can print nothing else."""
    if value is None or math.isnan(value):
        return None
    return float(number(value)) if math.isfinite(value) else number(value)


def all_shown(values: Iterable[float | None]) -> list[Shown]:
    """Several of them."""
    return [shown(value) for value in values]


def significant(value: float | None) -> float | None:
    """A score to three significant digits; None where it is not finite."""
    return float(f"{value:.3g}") if value is not None and math.isfinite(value) else None


def whole(values: Sequence[Any]) -> list[Any] | Any:
    """A column; its only value where all are equal, which are most of the columns of counts and notes."""
    return values[0] if values and all(value == values[0] for value in values) else list(values)


def packed(content: Any) -> str:
    """Gzip of the JSON in base64; equal content gives equal text, whenever it is made."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode("ascii")
