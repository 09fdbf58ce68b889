"""What may surprise in how texts are read: said once for all of them, in lines that name the count and the way out."""

import logging
from collections.abc import Iterator, Sequence

from benchmark.errors import UserError
from benchmark.models.encoding import Encoder
from benchmark.types import Batch
from benchmark.words import unspaced_letters

logger = logging.getLogger(__name__)

_SHOWN = 3
_LONG = 8
"""Letters of scripts without white space between words from which on a word is taken for a sentence."""


def say_how_texts_are_read(encoder: Encoder, batches: Sequence[Batch], *, compared: bool = False) -> None:
    """Log a warning for words without a token, spelled special tokens and texts of one unit, and a line for kept tokens.

    Raises:
        UserError: methods are to be compared on the texts (`compared`), and most of these have one unit.
    """
    if encoder.tokenizer is None:
        return
    texts = [(batch, b) for batch in batches for b, words in enumerate(batch.words) if any(words)]
    for line in (*_tokenless(texts), *_spelled(texts, encoder), *_unspaced(texts)):
        logger.warning("%s", line)
    for line in _kept(batches, encoder):
        logger.info("%s", line)
    if compared:
        _check_several_units(texts)


def _tokenless(texts: Sequence[tuple[Batch, int]]) -> Iterator[str]:
    found = [(batch, b, batch.tokenless[b]) for batch, b in texts if batch.tokenless and batch.tokenless[b]]
    if found:
        batch, b, places = found[0]
        yield (
            f"{_count(sum(len(places) for *_, places in found), 'word has', 'words have')} no token, since the tokenizer "
            f"drops the characters, such as {batch.words[b][places[0]]!a} of example {batch.uids[b]!r}: the model does not "
            "see them, and they are neither scored nor removed"
        )
    if empty := [batch.uids[b] for batch, b, places in found if len(places) == len(batch.words[b])]:
        yield (
            f"{_count(len(empty), 'text has', 'texts have')} no word with a token ({_names(empty)}), and no score: the "
            "tests of words leave such a text out of n"
        )


def _spelled(texts: Sequence[tuple[Batch, int]], encoder: Encoder) -> Iterator[str]:
    tokens = encoder.structural
    counts = {token: sum(_holds(batch.words[b], token) for batch, b in texts) for token in tokens}
    if seen := [token for token, count in counts.items() if count]:
        total = sum(any(_holds(batch.words[b], token) for token in seen) for batch, b in texts)
        yield (
            f"{_count(total, 'text spells', 'texts spell')} a special token of the tokenizer ({_names(seen)}), which is "
            "read as text there; of a model that was trained on texts joined by it, give the two texts as a pair"
        )


def _unspaced(texts: Sequence[tuple[Batch, int]]) -> Iterator[str]:
    read = [(batch, b) for batch, b in texts if bool((batch.units[b] >= 0).any())]
    if found := [batch.uids[b] for batch, b in read if _is_unspaced(batch.words[b])]:
        yield (
            "texts of one unit, or with units as long as sentences of a script without white space: "
            f"{len(found)} of {len(texts)} (examples {_names(found)}); a unit is scored and removed as a whole, so that "
            "methods tie on a text of one; smaller units are words and characters (task.units), or lists of words"
        )


def _check_several_units(texts: Sequence[tuple[Batch, int]]) -> None:
    """UserError where more than half of several texts have one unit, which every order leaves as it is."""
    alone = [batch.uids[b] for batch, b in texts if len(batch.words[b]) == 1]
    if len(texts) > 1 and 2 * len(alone) > len(texts):
        raise UserError(
            f"{len(alone)} of {_count(len(texts), 'text has', 'texts have')} one unit (examples {_names(alone)}): all "
            "methods remove the same, and tie; set smaller units (task.units=words or characters), or give longer texts or "
            "lists of words"
        )


def _kept(batches: Sequence[Batch], encoder: Encoder) -> Iterator[str]:
    names = {index: token for token, index in encoder.added.items()}
    if not names:
        return
    inner = [batch.tensors["input_ids"][batch.units >= 0].tolist() for batch in batches if "input_ids" in batch.tensors]
    found = [names[index] for ids in inner for index in ids if index in names]
    if found:
        yield (
            f"tokens that were added to the vocabulary stand in the texts {_count(len(found), 'time', 'times')} "
            f"({_names([*dict.fromkeys(found)])}): each stays one token, and is a word or a part of one"
        )


def _is_unspaced(words: Sequence[str]) -> bool:
    return len(words) == 1 or any(unspaced_letters(word) > _LONG for word in words if len(word) > _LONG)


def _holds(words: Sequence[str], token: str) -> bool:
    return any(token in word for word in words)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
