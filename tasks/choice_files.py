"""Multiple-choice questions as DREAM and ERASER's MultiRC distribute them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.errors import NoSplit, UserError
from tasks.common import json_lines, read_text

DREAM = {"train": "train.json", "validation": "dev.json", "test": "test.json"}
MULTIRC = {"train": "train.jsonl", "validation": "val.jsonl", "test": "test.jsonl"}


@dataclass(frozen=True)
class Question:
    """A question about a passage.

    Attributes:
        uid: unique within the split.
        passage, question: words.
        options: words of each.
        right: whether each option is right; one is in DREAM, any number in MultiRC.
        needs_order: whether the order of the passage's words decides, where that is known.
    """

    uid: str
    passage: tuple[str, ...]
    question: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]
    needs_order: bool | None = None


def read_questions(root: Path, split: str) -> list[Question]:
    """The questions of a split, in the format of the files that the folder has.

    Raises:
        NoSplit: it has files of neither format for the split.
        UserError: a file is ill-formed; it names the file and the place.
    """
    if (file := root / DREAM[split]).is_file():
        return _dream(file)
    if (file := root / MULTIRC[split]).is_file():
        return _multirc(file, root)
    raise NoSplit(f"task.root={root} has neither {DREAM[split]} (DREAM) nor {MULTIRC[split]} (ERASER's MultiRC)")


def _dream(file: Path) -> list[Question]:
    """[[[turn, ...], [{question, choice, answer}, ...], id], ...]."""
    try:
        content = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise UserError(f"{file} is no JSON (line {error.lineno}: {error.msg})") from error
    found = []
    seen: dict[str, int] = {}
    for number, dialogue in enumerate(content if isinstance(content, list) else [None], 1):
        where = f"{file}, dialogue {number}"
        if not (isinstance(dialogue, list) and len(dialogue) == 3 and isinstance(dialogue[1], list)):
            raise UserError(f"{where}: a dialogue is a list of its turns, its questions and its id")
        turns, questions, uid = dialogue
        if not _texts(turns):
            raise UserError(f"{where}: the turns of a dialogue are a list of texts")
        if (earlier := seen.setdefault(str(uid), number)) != number:
            raise UserError(f"{where}: the id {uid!r} is that of dialogue {earlier} already")
        passage = tuple(word for turn in turns for word in turn.split())
        for place, question in enumerate(questions):
            found.append(_dream_question(where, f"{uid}-{place}", passage, question))
    if not found:
        raise UserError(f"{file} has no question")
    return found


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _dream_question(where: str, uid: str, passage: tuple[str, ...], question: Any) -> Question:
    if not isinstance(question, dict) or (missing := {"question", "choice", "answer"} - question.keys()):
        lacks = ", ".join(sorted(missing)) if isinstance(question, dict) else "everything"
        raise UserError(f"{where}: a question has the keys question, choice and answer; it lacks {lacks}")
    if not isinstance(question["question"], str) or not _texts(question["choice"]):
        raise UserError(f"{where}: a question is a text, and its choice a list of texts")
    right = tuple(option == question["answer"] for option in question["choice"])
    if len(right) < 2:
        raise UserError(f"{where}: a question has at least two choices, not {len(right)}")
    if sum(right) != 1:
        raise UserError(f"{where}: the answer {question['answer']!r} is {sum(right)} of the choices, not one")
    options = tuple(tuple(option.split()) for option in question["choice"])
    return _checked(where, Question(uid, passage, tuple(question["question"].split()), options, right))


def _multirc(file: Path, root: Path) -> list[Question]:
    """A line for each option, of which a question may have one alone: the query is "question || option"."""
    grouped: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
    asked: dict[str, tuple[str, tuple[str, ...]]] = {}
    for number, row in json_lines(file):
        where = f"{file}, line {number}"
        query, document = str(row.get("query", "")), _document(where, row)
        question, bar, option = query.partition("||")
        if not bar or row.get("classification") not in ("True", "False"):
            raise UserError(f"{where}: a query is `question || option`, its classification True or False")
        uid = str(row["annotation_id"]).rsplit(":", 1)[0]
        said = document, tuple(question.split())
        if asked.setdefault(uid, said) != said:
            raise UserError(f"{where}: an option of '{uid}' with another question or document than those before it")
        grouped.setdefault(uid, []).append((tuple(option.split()), row["classification"] == "True"))
    if not grouped:
        raise UserError(f"{file} has no question")
    passages = {name: _passage(root, name) for name in {name for name, _ in asked.values()}}
    found = []
    for uid, options in grouped.items():
        document, words = asked[uid]
        texts, right = zip(*options, strict=True)
        found.append(_checked(f"{file}, {uid}", Question(uid, passages[document], words, texts, right)))
    return found


def _document(where: str, row: Any) -> str:
    try:
        names = {str(span["docid"]) for group in row.get("evidences") or () for span in group}
        names |= set(map(str, row.get("docids") or ()))
    except (TypeError, KeyError) as error:
        raise UserError(f"{where}: evidences are lists of spans with a docid, and docids a list of names") from error
    if "annotation_id" not in row or len(names) != 1:
        raise UserError(f"{where}: an option has an annotation_id and one document, not {len(names)}")
    return str(names.pop())


def _passage(root: Path, name: str) -> tuple[str, ...]:
    file = root / "docs" / name
    if not file.is_file():
        raise UserError(f"{file} is missing, the document of a question")
    return tuple(read_text(file).split())


def _checked(where: str, question: Question) -> Question:
    parts: Sequence[tuple[str, ...]] = (question.passage, question.question, *question.options)
    if not all(parts):
        raise UserError(f"{where}: a question needs a passage, words, and options with words")
    return question
