"""CoNLL-U files: sentences with their dependency trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.annotations import Parse
from benchmark.errors import UserError
from tasks.common import read_text, text_lines

_COLUMNS = 10
_ID, _FORM, _HEAD, _RELATION = 0, 1, 6, 7


@dataclass(frozen=True)
class ParsedSentence:
    """A sentence of a file.

    Attributes:
        uid: its `sent_id`, else its number in the file.
        words: surface forms.
        parse: its tree.
    """

    uid: str
    words: tuple[str, ...]
    parse: Parse


def read_conllu(file: Path) -> list[ParsedSentence]:
    """The sentences of a CoNLL-U file.

    Words are the lines whose ID is a whole number. Ranges of multiword tokens (`1-2`) and empty nodes (`1.1`) are left out,
    so that a contraction stands as the words that it is made of. Heads are those of the basic tree (HEAD and DEPREL).

    Raises:
        UserError: a line does not have ten columns, an ID or head is no number or out of order, a head lies outside of its
            sentence, a tree has a cycle or not exactly one root, or there is no sentence. It names file and line.
    """
    sentences = [_sentence(file, start, lines) for start, lines in _blocks(read_text(file))]
    if not sentences:
        raise UserError(f"{file} has no sentence")
    return sentences


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines between blank lines, each with the number of its first; blocks of comments alone are none."""
    start, block = 1, list[str]()
    for number, line in enumerate([*text_lines(text), ""], start=1):
        if line.strip():
            start = start if block else number
            block.append(line)
        elif block:
            if any(not line.startswith("#") for line in block):
                yield start, block
            block = []


def _sentence(file: Path, start: int, lines: Sequence[str]) -> ParsedSentence:
    uid, words, heads, relations, places = f"line {start}", list[str](), list[int](), list[str](), list[int]()
    for number, line in enumerate(lines, start=start):
        if line.startswith("#"):
            name, _, value = line[1:].partition("=")
            uid = value.strip() if name.strip() == "sent_id" else uid
            continue
        columns = line.split("\t")
        if len(columns) != _COLUMNS:
            raise UserError(f"{file}, line {number}: {len(columns)} columns between tabs; CoNLL-U has {_COLUMNS}")
        if "-" in columns[_ID] or "." in columns[_ID]:
            continue
        if columns[_ID] != str(len(words) + 1):
            raise UserError(f"{file}, line {number}: ID {columns[_ID]!r}; the next word is {len(words) + 1}")
        if not columns[_HEAD].isdigit():
            raise UserError(f"{file}, line {number}: HEAD {columns[_HEAD]!r} is no whole number")
        words.append(columns[_FORM])
        heads.append(int(columns[_HEAD]) - 1)
        relations.append(columns[_RELATION])
        places.append(number)
    _check_tree(f"{file}, line", start, heads, places)
    return ParsedSentence(uid, tuple(words), Parse(tuple(heads), tuple(relations)))


def _check_tree(line: str, start: int, heads: Sequence[int], places: Sequence[int]) -> None:
    """UserError where heads are no tree; `places` are the lines of the words."""
    for head, number in zip(heads, places, strict=True):
        if head >= len(heads):
            raise UserError(f"{line} {number}: HEAD {head + 1} lies outside the sentence, which has {len(heads)} words")
    if heads.count(-1) != 1:
        raise UserError(f"{line} {start}: the sentence has {heads.count(-1)} roots (HEAD 0); a tree has one")
    if (word := _on_a_cycle(heads)) is not None:
        raise UserError(f"{line} {places[word]}: word {word + 1} is its own head, by way of others or directly")


def _on_a_cycle(heads: Sequence[int]) -> int | None:
    """The first word from which no way leads to the root; None where there is none."""
    for word in range(len(heads)):
        steps, at = 0, word
        while at >= 0 and steps <= len(heads):
            at, steps = heads[at], steps + 1
        if at >= 0:
            return word
    return None
