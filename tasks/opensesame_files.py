"""The stimuli of Open Sesame as the authors distribute them (Lin et al. 2019)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmark.annotations import Stimulus
from benchmark.errors import UserError
from tasks.common import read_text, text_lines

CLITIC = "'s"


@dataclass(frozen=True)
class Line:
    """A line of a file: the sentence, and a stimulus or a word to find."""

    words: tuple[str, ...]
    stimulus: Stimulus | None = None
    marked: int = -1


def read_stimuli(file: Path, condition: str, count: int) -> list[Line]:
    """The first `count` lines `sentence TAB target TAB antecedent TAB distractors`.

    Words are counted from 0. The antecedent is a list of words; distractors are pairs of words, one after the other, and may
    be none.

    Raises:
        UserError: a column is missing or no list of numbers, a word lies outside the sentence, the target is part of its
            antecedent or of a distractor, or the file is empty. It names file and line.
    """
    found = []
    for where, columns in _rows(file, count):
        if len(columns) not in (3, 4):
            raise UserError(f"{where}: {len(columns)} columns between tabs; a stimulus has sentence, target, antecedent "
                            "and distractors")  # fmt: skip
        words = tuple(columns[0].split())
        target, antecedent, others = (_numbers(where, text, len(words)) for text in (*columns[1:], "")[:3])
        if len(target) != 1 or not antecedent or len(others) % 2:
            raise UserError(f"{where}: a stimulus has one target, an antecedent, and distractors of two words each")
        if target[0] in (*antecedent, *others):
            raise UserError(f"{where}: the target {target[0]} is a word of its antecedent or of a distractor")
        pairs = tuple(zip(others[::2], others[1::2], strict=True))
        found.append(Line(words, Stimulus(condition, target[0], antecedent, pairs)))
    return found


def read_marked(file: Path, count: int) -> list[Line]:
    """The first `count` lines `sentence TAB word`; UserError as of `read_stimuli`.

    A possessor is two words, dog and 's. The files count tokens of BERT, of which 's are two.
    """
    found = []
    for where, columns in _rows(file, count):
        words = tuple(part for word in columns[0].split() for part in possessor(word))
        if len(columns) != 2:
            raise UserError(
                f"{where}: {len(columns)} columns between tabs; a sentence and the number of a word are two"
            )
        tokens = [number for number, word in enumerate(words) for _ in range(2 if word == CLITIC else 1)]
        marked = _numbers(where, columns[1], len(tokens))
        if len(marked) != 1 or words[tokens[marked[0]]] == CLITIC:
            raise UserError(f"{where}: {columns[1]!r} is not the number of one word")
        found.append(Line(words, marked=tokens[marked[0]]))
    return found


def possessor(word: str) -> tuple[str, ...]:
    """A noun and its 's apart; any other word as it is."""
    noun = word.removesuffix(CLITIC)
    return (noun, CLITIC) if noun and noun != word else (word,)


def read_sentences(file: Path, nth: int, count: int) -> list[Line]:
    """The first `count` lines of sentences that have an n-th word, which is the one to find.

    The file holds pieces of words as a tokenizer of BERT makes them; those that begin with ## are joined to the word before.
    """
    found = []
    for _, columns in _rows(file, 10**9):
        words = tuple(columns[0].replace(" ##", "").split())
        if len(words) >= nth:
            found.append(Line(words, marked=nth - 1))
        if len(found) == count:
            break
    return found


def _rows(file: Path, count: int) -> Iterator[tuple[str, list[str]]]:
    if not file.is_file():
        raise UserError(
            f"{file} is missing; task.root is the folder with data_agr, data_refl, data_aux, data_sbjn, "
            "data_sbjn-join and data_nth"
        )
    lines = [(number, line) for number, line in enumerate(text_lines(read_text(file)), 1) if line.strip()]
    if not lines:
        raise UserError(f"{file} has no line")
    for number, line in lines[:count]:
        yield f"{file}, line {number}", line.rstrip("\r").split("\t")


def _numbers(where: str, text: str, n_words: int) -> tuple[int, ...]:
    parts = text.split()
    if not all(part.isdigit() for part in parts):
        raise UserError(f"{where}: {text.strip()!r} is no list of whole numbers")
    numbers = tuple(map(int, parts))
    if outside := [number for number in numbers if number >= n_words]:
        raise UserError(f"{where}: word {outside[0]} lies outside the sentence, which has words 0 to {n_words - 1}")
    return numbers
