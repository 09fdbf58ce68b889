"""A model under attacks on the words: what it answers, and how its explanations move."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmark.analyses.reading.answers import Asked, Reading, read
from benchmark.analyses.reading.moved_scores import MovedScores, WordScores, moved_scores, word_scores
from benchmark.errors import NotApplicable
from benchmark.run.cell import Cell
from benchmark.run.workbench import Setting
from benchmark.types import Example, Method, Task

Moves = Mapping[str, MovedScores | str]
"""By explainer how its scores move, or why it has none."""

GIVEN = "its scores are given for the clean examples"


@dataclass(frozen=True)
class Subject:
    """A model that has read the clean examples, whose explainers have explained some of them.

    Attributes:
        setting: of the model.
        clean: what it says of all that is asked.
        explained: what it says of the questions that are explained.
        methods: the explainers.
        before: by explainer the scores of the words of what is explained, of the class that the model predicts; or why
            there are none.
    """

    setting: Setting
    clean: Reading
    explained: Reading
    methods: Mapping[str, Method]
    before: Mapping[str, Sequence[WordScores] | str]

    @classmethod
    def of(cls, setting: Setting, asked: Asked, explained: Asked, cells: Mapping[str, Cell]) -> "Subject":
        """Read and explain the clean examples; a search has nothing to explain with."""
        clean, part = (_read(setting, some, some.examples) for some in (asked, explained))
        methods = {name: cell.method for name, cell in cells.items() if isinstance(cell.method, Method)}
        before: dict[str, Sequence[WordScores] | str] = {}
        for name, method in methods.items():
            refusal = GIVEN if not method.explains_others else cells[name].refusal
            before[name] = _explained(setting, method, part.examples, part) if refusal is None else refusal
        return cls(setting, clean, part, methods, before)

    def reads(self, task: Task, split: str) -> Reading:
        """What the model says of the attacked examples."""
        return _read(self.setting, self.clean.asked, _same(task, split, self.clean.examples))

    def moves(self, task: Task, split: str) -> Moves:
        """How the scores of every explainer move."""
        attacked = _read(self.setting, self.explained.asked, _same(task, split, self.explained.examples))
        found: dict[str, MovedScores | str] = {}
        for name, before in self.before.items():
            if not isinstance(before, str):
                after = _explained(self.setting, self.methods[name], attacked.examples, self.explained)
                found[name] = after if isinstance(after, str) else moved_scores(self.explained, attacked, before, after)
            else:
                found[name] = before
        return found


def _explained(
    setting: Setting, method: Method, examples: Sequence[Example], predicted: Reading
) -> Sequence[WordScores] | str:
    """Scores of the words for the class that is predicted of the clean examples, or why there are none."""
    labels, batch_size = setting.task.labels, int(setting.config.batch_size)
    try:
        return word_scores(method, setting.model, labels, examples, predicted.predicted, batch_size)
    except NotApplicable as reason:
        return str(reason)


def _read(setting: Setting, asked: Asked, examples: Sequence[Example]) -> Reading:
    return read(setting.model, setting.task.labels, asked, examples, int(setting.config.batch_size))


def _same(task: Task, split: str, examples: Sequence[Example]) -> list[Example]:
    """The examples of a task with the identifiers of these."""
    by_uid = {example.uid: example for example in task.split(split)}
    return [by_uid[example.uid] for example in examples]
