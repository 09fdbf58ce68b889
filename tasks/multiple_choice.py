"""Multiple-choice reading comprehension, scored option by option with a pair classifier.

Defined in docs/protocols.md, section 17.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from benchmark.annotations import KEYS, Option
from benchmark.settings.declared import Count, Natural, Share, configurable
from benchmark.settings.early import SPLITS, ExistingFolder
from benchmark.types import Example
from tasks.choice_files import DREAM, MULTIRC, Question, read_questions
from tasks.common import check_split, digest
from tasks.dialogue_grammar import draw_questions


@configurable
class MultipleChoice:
    """Each example is one option: a pair of the passage and of the question with the option, right or wrong.

    `Example.meta` has an `Option`, by which the options of a question are put together: the answer of a classifier is the
    option with the largest probability of "right".

    With `root`, a folder in the format of DREAM (`train.json`, `dev.json`, `test.json`) or of ERASER's MultiRC (`val.jsonl`,
    `test.jsonl`, `docs/`), whose questions may have several right options or none.

    Without, short passages of a seeded grammar (`dialogue_grammar`) with three options; the order of words decides some
    questions, the words alone the others.

    Attributes:
        root: the folder, or None.
        name: the task's name in run folders.
        seed: determines every generated question.
        ordered: the share of generated questions that are decided by the order of words.
        train, validation, test: generated questions in each split; three examples each.

    Raises:
        UserError: a file is ill-formed.
    """

    version: ClassVar[int] = 1

    root: Annotated[str | None, ExistingFolder()] = None
    name: str = "multiple_choice"
    seed: Natural = 0
    ordered: Share = 0.5
    train: Count = 6000
    validation: Count = 100
    test: Count = 240
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """Class names: wrong, right."""
        return ("wrong", "right")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every generated example, or over the files."""
        settings = {"task": "multiple_choice", "version": self.version}
        if self.root is not None:
            root = Path(self.root).expanduser()
            names = [*DREAM.values(), *MULTIRC.values()]
            files = [file for name in names if (file := root / name).is_file()]
            return digest(settings, files=[*files, *sorted(root.glob("docs/*"))])
        parts = [f"{e.uid}\t{e.label}\t{e.inputs}" for split in SPLITS for e in self.split(split)]
        return digest(settings, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test"; inputs are pairs of lists of words."""
        check_split(self.name, name)
        if name not in self._splits:
            if self.root is None:
                draw = random.Random(f"{self.seed}:choice:{name}")
                questions = list(draw_questions(draw, name, getattr(self, name), self.ordered))
            else:
                questions = read_questions(Path(self.root).expanduser(), name)
            self._splits[name] = tuple(example for question in questions for example in _examples(question))
        return self._splits[name]


def _examples(question: Question) -> Iterator[Example]:
    for number, (option, right) in enumerate(zip(question.options, question.right, strict=True)):
        told = Option(question.uid, number, len(question.options), len(question.question), question.needs_order)
        pair = list(question.passage), [*question.question, *option]
        yield Example(f"{question.uid}-{number}", pair, int(right), meta={KEYS[Option]: told})
