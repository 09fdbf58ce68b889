"""Rationales as people write them: marks of words, spans of characters, or phrases to find, as one boolean per word.

A word is a unit of the text (`benchmark.words`): what white space separates, in most languages. What a rationale says of a
text is a list in one of three forms:

- `[0, 1, 1]`: 0 or 1 (or false and true) for each word;
- `[[2, 11]]`: spans [start, end) of characters, counted from 0 in the text as the table has it. A word that a span cuts is
  marked whole;
- `["fine film"]`: words or phrases. Every occurrence is marked, as whole words and with case as written; any white space
  between words matches any other.

The empty list marks nothing. Of a pair of texts it is a list of two such lists, first text first, or one list of marks for
the words of both.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from benchmark.errors import UserError, shorter
from benchmark.words import is_unspaced, spans_of

_FORMS = 'marks of words [0, 1], spans of characters [[0, 4]] or phrases ["fine film"]'
_PAIR_FORMS = f"[FIRST, SECOND], one list for each text, of {_FORMS}; or one list of marks for the words of both"
_NOTHING = ("", "nan", "null")


class _Unfit(Exception):  # noqa: N818 - turned into a line with the place
    """Why a value is no rationale of its text."""


def rationale_of(
    value: Any, texts: Sequence[str], where: str, called: str = "the rationale (task.rationale)"
) -> Bool[np.ndarray, "U"] | None:
    """One boolean per word of a text, or of the first and then the second of a pair.

    Args:
        value: the table's: a list, or JSON in a text.
        texts: one or two.
        where: the place, for the error.
        called: what the error calls the rationale.

    Returns:
        The marks; None where the value is empty: the row is not annotated.

    Raises:
        UserError: it is none of the forms, or does not fit the text; with place and reason.
    """
    if value is None or (isinstance(value, str | float) and str(value).strip() in _NOTHING):
        return None
    try:
        given = _parsed(value)
        marks = _marks(given, texts[0]) if len(texts) == 1 else _marks_of_pair(given, texts)
    except _Unfit as reason:
        raise UserError(f"{where}: {called} {reason}") from None
    return np.array(marks, dtype=bool)


def _parsed(value: Any) -> list[Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            raise _Unfit(f"{_shown(value)} is no JSON: {_FORMS}, with double quotation marks") from None
    if not isinstance(value, list):
        raise _Unfit(f"{_shown(value)} is no list: {_FORMS}")
    return value


def _marks_of_pair(given: list[Any], texts: Sequence[str]) -> list[bool]:
    if not given or all(map(_is_number, given)):
        count = sum(len(spans_of(text)) for text in texts)
        return _flags(given, count) if given else [False] * count
    if len(given) != len(texts) or not all(isinstance(part, list) for part in given):
        raise _Unfit(f"{_shown(given)} is none of a pair: {_PAIR_FORMS}")
    return [mark for part, text in zip(given, texts, strict=True) for mark in _marks(part, text)]


def _marks(given: list[Any], text: str) -> list[bool]:
    """Which words of a text are marked."""
    words = spans_of(text)
    if not given:
        return [False] * len(words)
    if all(map(_is_number, given)):
        return _flags(given, len(words))
    if all(map(_is_span, given)):
        return _covered(words, [_span(start, end, text, words) for start, end in given])
    if all(isinstance(phrase, str) for phrase in given):
        return _covered(words, [span for phrase in given for span in _occurrences(phrase, text)])
    raise _Unfit(f"{_shown(given)} is none of: {_FORMS}")


def _is_number(item: Any) -> bool:
    return isinstance(item, int | float)


def _is_span(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and all(type(edge) is int for edge in item)


def _flags(given: Sequence[Any], n_words: int) -> list[bool]:
    if strange := [item for item in given if item not in (0, 1)]:
        raise _Unfit(f"holds {strange[0]}, where a mark is 0 or 1 (and a span has brackets of its own: [[0, 4]])")
    if len(given) != n_words:
        raise _Unfit(f"has {len(given)} marks for {n_words} words (what white space separates, or task.units)")
    return [bool(item) for item in given]


def _span(start: int, end: int, text: str, words: Sequence[tuple[int, int]]) -> tuple[int, int]:
    if not 0 <= start < end <= len(text):
        raise _Unfit(f"has the span [{start}, {end}] in a text of {len(text)} characters; start < end is needed")
    if not any(_covered(words, [(start, end)])):
        raise _Unfit(f"has the span [{start}, {end}], which covers white space alone")
    return start, end


def _occurrences(phrase: str, text: str) -> list[tuple[int, int]]:
    """Spans of a phrase, overlapping ones too."""
    words = phrase.split()
    if not words:
        raise _Unfit("holds an empty phrase")
    before = r"(?<!\w)" if re.match(r"\w", words[0]) else ""
    after = r"(?!\w)" if re.search(r"\w$", words[-1]) else ""
    if is_unspaced(phrase):
        before = after = ""  # every place between its letters may be an edge of a word
    pattern = before + "(?=(" + r"\s+".join(map(re.escape, words)) + after + "))"
    found = [match.span(1) for match in re.finditer(pattern, text)]
    if not found:
        raise _Unfit(f"names {phrase!r}, which does not occur in the text (whole words, case as written)")
    return found


def _covered(words: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[bool]:
    return [any(start < last and first < end for start, end in spans) for first, last in words]


def _shown(value: Any) -> str:
    return shorter(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)
