"""Words put into an example's text, with all that is told of its words."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmark.annotations import KEYS, PlantedWords, passage_segment
from benchmark.errors import UserError
from benchmark.types import Example
from benchmark.words import units_of

_OF_DOCUMENTS = ("annotation_id", "docids", "document_lengths", "evidence_spans")


def words_of(example: Example) -> list[str]:
    """The words of an example's text, or of a pair's passage; UserError where it holds no text."""
    segments = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
    text = segments[passage_segment(example) if len(segments) > 1 else 0]
    if not isinstance(text, str | list):
        raise UserError(f"example '{example.uid}' holds no text to put words into")
    return units_of(text)


def with_words(example: Example, words: Sequence[str]) -> Example:
    """The example with these words as its text, or as its pair's passage, as many as before."""
    return _with_passage(example, list(words))


def inserted(example: Example, phrase: Sequence[str], place: int) -> Example:
    """The example with a phrase before the word `place` of its text, or of its pair's passage.

    The phrase is rated, and the rationale does not mark it. Offsets into documents no longer hold, so that ERASER's are left
    out.
    """
    words = words_of(example)
    changed = _with_passage(example, [*words[:place], *phrase, *words[place:]])
    at = place + offset(example)
    meta = {key: value for key, value in example.meta.items() if key not in _OF_DOCUMENTS}
    if isinstance(planted := meta.get(KEYS[PlantedWords]), PlantedWords):
        marks = np.insert(planted.marks, [at] * len(phrase), values=False)
        meta[KEYS[PlantedWords]] = replace(planted, marks=marks)
    rationale = example.rationale
    if rationale is not None:
        rationale = np.insert(rationale, [at] * len(phrase), values=False)
    rated, hidden = example.rated, example.hidden
    if rated is not None:
        rated = np.insert(rated, [at] * len(phrase), values=True)
    if hidden is not None:
        hidden = np.insert(hidden, [at] * len(phrase), values=False)
    return replace(changed, rationale=rationale, rated=rated, hidden=hidden, meta=meta)


def offset(example: Example) -> int:
    """Words before the passage: those of a pair's first segment where that is a query."""
    if not isinstance(example.inputs, tuple) or passage_segment(example) == 0:
        return 0
    first = example.inputs[0]
    return len(units_of(first))


def _with_passage(example: Example, words: list[str]) -> Example:
    if not isinstance(example.inputs, tuple):
        return replace(example, inputs=words)
    segments = [units_of(text) for text in example.inputs]
    segments[passage_segment(example)] = words
    return replace(example, inputs=tuple(segments))
