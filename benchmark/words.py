"""What the units of a text are: words, unless a person asks for characters, sentences or tokens.

A word is what white space separates. Scripts that write no white space between words (Chinese, Japanese, Thai, Lao, Khmer,
Burmese) are separated at the word boundaries of Unicode instead (UAX #29, by the library `regex`): each Chinese character
and each hiragana stands alone, katakana and Latin letters stay together, and Thai comes apart into its syllable signs; marks
without a letter belong to the unit before them. Whoever has a list of words, from a segmenter of the language, gives that.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Literal, get_args

import regex

from benchmark.errors import UserError

Units = Literal["words", "characters", "sentences", "tokens"]
Spans = tuple[tuple[int, int], ...]

VERSION = 1
"""Of how texts of unspaced scripts come apart: a part of the identity of what was computed of such texts."""

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_HAS_UNSPACED = regex.compile(f"[{_UNSPACED}]")
_WHITE_SPACED = re.compile(r"\S+")
_BOUNDARIES = regex.compile(r"(?w)\b")
_CHARACTERS = regex.compile(r"\X")
_SENTENCES = regex.compile(r"\S.*?(?:[\p{STerm}]+[\p{Pe}\p{Pf}\"']*(?=\s|$)|[。！？｡]+[\p{Pe}\p{Pf}]*|$)", regex.DOTALL)


class UnitText(str):
    """A text with units of its own: it is read as it stands, and scored and removed unit by unit.

    Attributes:
        spans: [start, end) of the characters of each unit, in order; None where the tokens of the model are the units.
    """

    __slots__ = ("spans",)
    spans: Spans | None

    def __new__(cls, text: str, spans: Spans | None) -> "UnitText":
        """The text; `spans` must lie within it, in order and apart."""
        made = super().__new__(cls, text)
        made.spans = spans
        return made

    def __reduce__(self) -> tuple[type["UnitText"], tuple[str, Spans | None]]:
        return UnitText, (str(self), self.spans)


def in_units(text: str, units: Units) -> str:
    """A text with other units than words, for `explain`, `evaluate` and tasks.

    Args:
        text: as the model reads it; nothing of it is changed.
        units: `words`, `characters` (as people count them: a letter with its accents is one), `sentences` (up to a mark that
            ends one; an abbreviation with a full stop ends one too) or `tokens` of the model.

    Returns:
        The text; of units other than words with a note of where they begin.

    Raises:
        UserError: there are no such units.

    Example:
        >>> benchmark.in_units("A dull plot. Fine actors!", "sentences").spans
        ((0, 12), (13, 25))
    """
    if units not in get_args(Units):
        raise UserError(f"units={units}: allowed are {', '.join(get_args(Units))}")
    if units == "words":
        return text
    if units == "tokens":
        return UnitText(text, None)
    pattern = _CHARACTERS if units == "characters" else _SENTENCES
    found = (match.span() for match in pattern.finditer(text))
    return UnitText(text, tuple(span for span in found if text[slice(*span)].strip()))


def joined(words: Sequence[str]) -> UnitText:
    """A list of words as one text with a blank between them, each a unit as it was given."""
    ends = list(accumulate((len(word) + 1 for word in words), initial=0))
    return UnitText(
        " ".join(words), tuple((start, start + len(word)) for start, word in zip(ends, words, strict=False))
    )


def is_unspaced(text: str) -> bool:
    """Whether a text has a letter of a script that writes no white space between words."""
    return _HAS_UNSPACED.search(text) is not None


def unspaced_letters(text: str) -> int:
    """How many letters of such scripts a text has."""
    return len(_HAS_UNSPACED.findall(text))


def spans_of(text: str) -> Spans:
    """[start, end) of the characters of each unit of a text: its own, else its words.

    Raises:
        UserError: its units are tokens, which the model's tokenizer alone knows.
    """
    if isinstance(text, UnitText):
        if text.spans is None:
            raise UserError("units=tokens: a text whose units are tokens has no words, and so no rationale of words")
        return text.spans
    return tuple(span for match in _WHITE_SPACED.finditer(text) for span in _within(text, *match.span()))


def units_of(text: str | Sequence[str]) -> list[str]:
    """The units of a text, or the words of a list.

    Raises:
        UserError: the text's units are the tokens of the model.
    """
    return [text[start:end] for start, end in spans_of(text)] if isinstance(text, str) else list(text)


def _within(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The words of a stretch without white space: itself, unless its script has none."""
    stretch = text[start:end]
    if not is_unspaced(stretch):
        yield start, end
        return
    cuts = [0, *(match.start() for match in _BOUNDARIES.finditer(stretch)), len(stretch)]
    pieces = [(a, b) for a, b in pairwise(cuts) if a < b]
    for a, b in _with_marks(stretch, pieces):
        yield start + a, start + b


def _with_marks(stretch: str, pieces: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pieces, with those that have no letter or digit joined to the one before, or to the first one behind them."""
    whole: list[tuple[int, int]] = []
    for start, end in pieces:
        is_mark = not any(map(str.isalnum, stretch[start:end]))
        if whole and (is_mark or not any(map(str.isalnum, stretch[slice(*whole[-1])]))):
            whole[-1] = whole[-1][0], end
        else:
            whole.append((start, end))
    return whole
