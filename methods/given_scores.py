"""Scores made elsewhere: by another library, by a language model that says why, or by a person."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from benchmark.errors import UserError, one_line, shorter
from benchmark.models import Classifier
from benchmark.settings.declared import configurable, of_file
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from benchmark.units import spread

_SHOWN = 3  # names in a message

Words = tuple[str, ...]


@dataclass(frozen=True)
class _Entry:
    """One line of the file: scores, and whose they are."""

    place: str
    uid: str | None
    words: Words | None
    scores: tuple[float, ...]


@configurable
class Scores(Method):
    """`s_u` as a file gives it, one score per word.

    The file holds one JSON object a line: `{"uid": "test-000021", "scores": [0.1, -2, 0]}`, or `{"text": "a fine film",
    "scores": [...]}` where the identifiers are not known. Words are what white space separates. A pair of texts is a list of
    two, and its scores are those of the first text's words and then the second's. Words beyond the model's window have a
    score too, which no test reads. A line with both is found by its identifier, and its text is checked.

    Every token gets the score of its word, in float64, so that `pool=max`, which is the tests' default, reads the given
    scores exactly, and `pool=mean` up to rounding. The same scores stand for every class: the method does not look at it.

    Attributes:
        path: of the file. What it holds enters the identity of the method, not where it lies.

    Errors: UserError, with the file's line, for a line that is no such object, a score that is no finite number, two lines
    for one example, an example without a line, and a number of scores that is not the number of words. All of it is said
    before anything is explained.

    Source: this project; the file says what the scores are.
    Cost: no pass.
    """

    path: str = of_file()
    version: ClassVar[int] = 1
    explains_others: ClassVar[bool] = False
    class_specific: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self._entries:
            raise UserError(f"methods.scores.path={self.path} is empty: it has no scores")

    @cached_property
    def _entries(self) -> dict[str | Words, _Entry]:
        """The lines by identifier, or by words where a line has none."""
        entries: dict[str | Words, _Entry] = {}
        for entry in _lines(Path(self.path)):
            key = entry.words if entry.uid is None else entry.uid
            assert key is not None
            if (first := entries.setdefault(key, entry)) is not entry:
                whose = f"example '{key}'" if isinstance(key, str) else f"the text '{_short(key)}'"
                raise UserError(
                    f"{entry.place}: {whose} has scores in {first.place} already; keep one of the two lines"
                )
        return entries

    def check(self, batches: Sequence[Batch]) -> None:
        """UserError where an example has no scores, or not one per word."""
        pairs = [(uid, words) for batch in batches for uid, words in zip(batch.uids, batch.words, strict=True)]
        missing = [(uid, words) for uid, words in pairs if self._entry(uid, words) is None]
        if missing:
            shown = ", ".join(f"'{uid}' ({_short(words)})" for uid, words in missing[:_SHOWN])
            raise UserError(
                f"methods.scores.path={self.path} has no scores for {len(missing)} of {len(pairs)} examples: {shown}"
                f"{', ...' if len(missing) > _SHOWN else ''}; add a line for each, by uid or by text"
            )
        for uid, words in pairs:
            self._scores(uid, words)

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Every token with the score of its word."""
        self.check([batch])
        rows = [self._scores(uid, words) for uid, words in zip(batch.uids, batch.words, strict=True)]
        return Attribution(target=target, tokens=spread(rows, batch.units))

    def _entry(self, uid: str, words: Words) -> _Entry | None:
        return self._entries.get(uid) or (self._entries.get(words) if any(words) else None)

    def _scores(self, uid: str, words: Words) -> tuple[float, ...]:
        """The scores of an example that has some."""
        entry = self._entry(uid, words)
        assert entry is not None
        if entry.words is not None and any(words) and entry.words != words:
            raise UserError(f"{entry.place}: the text of example '{uid}' is another one: {_short(words)}")
        if len(entry.scores) != len(words):
            raise UserError(
                f"{entry.place}: {len(entry.scores)} scores for example '{uid}', which has {len(words)} words: "
                f"{_short(words)}"
            )
        return entry.scores


def _short(words: Words) -> str:
    return shorter(" ".join(words), 80) if any(words) else "no text"


def _lines(file: Path) -> Iterator[_Entry]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"methods.scores.path={file} cannot be read ({one_line(error)}); give a file of JSON lines"
        ) from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{file}:{number}"
            try:
                yield _entry(place, json.loads(line))
            except (ValueError, RecursionError, OverflowError) as error:
                raise UserError(f"{place}: broken JSON ({one_line(error)}); give one object a line") from error


def _entry(place: str, content: Any) -> _Entry:
    if not isinstance(content, dict) or "scores" not in content or not {"uid", "text"} & set(content):
        raise UserError(f'{place}: expected {{"uid": ..., "scores": [...]}} or {{"text": ..., "scores": [...]}}')
    uid, text, scores = content.get("uid"), content.get("text"), content["scores"]
    if uid is not None and not isinstance(uid, str | int):
        raise UserError(f"{place}: uid={shorter(repr(uid), 40)} is no identifier; give a text")
    parts = [text] if isinstance(text, str) else text
    if parts is not None and not (isinstance(parts, list) and all(isinstance(part, str) for part in parts)):
        raise UserError(f"{place}: text={shorter(repr(text), 40)} is no text; give one, or a list of two for a pair")
    if uid is None and parts is None:
        raise UserError(f"{place}: neither uid nor text says whose the scores are")
    if not isinstance(scores, list):
        raise UserError(f"{place}: scores={shorter(repr(scores), 40)} is no list; give one number per word")
    for position, score in enumerate(scores):
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise UserError(f"{place}: score {position + 1} is {shorter(repr(score), 40)}, which is no finite number")
    words = None if parts is None else tuple(word for part in parts for word in part.split())
    return _Entry(place, None if uid is None else str(uid), words, tuple(map(float, scores)))
