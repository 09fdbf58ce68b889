"""CoNLL-2012 files: documents with the mentions of each entity (Pradhan et al. 2012)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmark.annotations import Coreference, Mention
from benchmark.errors import UserError
from tasks.common import read_text, text_lines

PRONOUNS = frozenset({
    "i", "me", "my", "mine", "myself", "you", "your", "yours", "yourself", "yourselves", "he", "him", "his", "himself",
    "she", "her", "hers", "herself", "it", "its", "itself", "we", "us", "our", "ours", "ourselves", "they", "them", "their",
    "theirs", "themselves", "this", "that", "these", "those", "who", "whom", "whose", "which",
})  # fmt: skip
_LEAST = 12  # columns: document, part, word number, word, part of speech, parse, ..., coreference
_WORD, _TAG, _TREE = 3, 4, 5
_COLUMN = re.compile(r"[^ \t]+")  # other white space, such as U+0085 and U+00A0, may stand within a word
_MARK = re.compile(r"\((\d+)\)|\((\d+)|(\d+)\)")


@dataclass(frozen=True)
class Document:
    """One part of a document.

    Attributes:
        uid: the document's name and its part.
        sentences: the words of each sentence.
        coreference: its mentions, words counted through the whole part.
    """

    uid: str
    sentences: tuple[tuple[str, ...], ...]
    coreference: Coreference

    @property
    def words(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(word for sentence in self.sentences for word in sentence)


@dataclass
class _Part:
    """A part while it is read."""

    uid: str
    where: str
    sentences: list[list[str]] = field(default_factory=lambda: [[]])
    tags: list[str] = field(default_factory=list)
    open: dict[str, list[int]] = field(default_factory=dict)
    spans: list[tuple[int, int, str]] = field(default_factory=list)


def read_conll2012(file: Path) -> list[Document]:
    """The parts of the documents of a file, in columns between white space.

    The fourth column is the word, the fifth its part of speech, the last the mentions that begin `(7`, end `7)` or do both
    `(7)` there, several separated by `|`; they may be nested, cross each other, and repeat an entity. A mention stands for
    itself by its head word: the last word of the leading stretch before the first comma, preposition or relative word (IN,
    TO, WDT, WP, VBG, VBN), else its last word. Its kind is "pronoun" for one word of a closed list, "proper" where the
    head's tag begins with NNP, else "nominal".

    Raises:
        UserError: a line lies outside `#begin document` and `#end document`, has too few columns, ends a mention that was
            not begun, or a part leaves one open; or there is no document. It names file and line.
    """
    documents, part = list[Document](), None
    for number, line in enumerate(text_lines(read_text(file)), 1):
        where = f"{file}, line {number}"
        if line.startswith("#begin document"):
            if part is not None:
                raise UserError(f"{where}: a document begins inside of another, which began at {part.where}")
            part = _Part(line.removeprefix("#begin document").strip(), where)
        elif line.startswith("#end document"):
            documents.append(_whole(part, where))
            part = None
        else:
            _line(part, line, where)
    if part is not None:
        raise UserError(f"{file}: the document that begins at {part.where} has no end (#end document)")
    if not documents:
        raise UserError(f"{file} has no document (#begin document)")
    return documents


def _line(part: _Part | None, line: str, where: str) -> None:
    """A word, the end of a sentence, or a comment."""
    if line.strip() and not line.startswith("#"):
        if part is None:
            raise UserError(f"{where}: a word stands outside of a document (#begin document)")
        _word(part, _COLUMN.findall(line), where)
    elif not line.strip() and part is not None and part.sentences[-1]:
        part.sentences.append([])


def _word(part: _Part, columns: Sequence[str], where: str) -> None:
    if len(columns) < _LEAST:
        raise UserError(f"{where}: {len(columns)} columns; CoNLL-2012 has at least {_LEAST}")
    place = len(part.tags)
    part.sentences[-1].append(columns[_WORD])
    part.tags.append(columns[_TAG])
    if columns[-1] in ("-", "_"):
        return
    for mark in columns[-1].split("|"):
        if (match := _MARK.fullmatch(mark)) is None:
            raise UserError(f"{where}: {mark!r} is no mention; allowed are (7, 7) and (7)")
        both, begins, ends = match.groups()
        if both or begins:
            part.open.setdefault(both or begins, []).append(place)
        if both or ends:
            if not part.open.get(both or ends):
                raise UserError(f"{where}: a mention of {ends} ends that did not begin")
            part.spans.append((part.open[both or ends].pop(), place + 1, both or ends))


def _whole(part: _Part | None, where: str) -> Document:
    if part is None:
        raise UserError(f"{where}: a document ends that did not begin")
    if left := [entity for entity, starts in part.open.items() if starts]:
        raise UserError(f"{where}: the document ends inside a mention of {left[0]}")
    sentences = tuple(tuple(sentence) for sentence in part.sentences if sentence)
    words = [word for sentence in sentences for word in sentence]
    mentions = [_mention(words, part.tags, *span) for span in part.spans]
    return Document(part.uid, sentences, Coreference(tuple(sorted(mentions, key=lambda m: (m.head, m.start)))))


def _mention(words: Sequence[str], tags: Sequence[str], start: int, stop: int, entity: str) -> Mention:
    breaks = [at for at in range(start + 1, stop) if tags[at] in (",", "IN", "TO", "WDT", "WP", "VBG", "VBN")]
    head = (breaks[0] if breaks else stop) - 1
    if stop - start == 1 and words[start].lower() in PRONOUNS:
        kind = "pronoun"
    else:
        kind = "proper" if tags[head].startswith("NNP") else "nominal"
    return Mention(start, stop, head, entity, kind)
