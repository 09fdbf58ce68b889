"""A model under attacks on the words: what it answers, and how its explanations move."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from benchmark.analyses.reading.answers import Asked, Reading, parts_of, read
from benchmark.analyses.reading.moved_scores import MovedScores, WordScores, moved_scores, word_scores
from benchmark.analyses.resumed import Arrays, ByExample
from benchmark.annotations import Attack
from benchmark.errors import NotApplicable
from benchmark.run.cell import Cell
from benchmark.run.workbench import Setting
from benchmark.types import Batch, Example, Method, Task

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
        by_example: computes explanations, and keeps them, so that a killed run goes on behind them.
    """

    setting: Setting
    clean: Reading
    explained: Reading
    methods: Mapping[str, Method]
    before: Mapping[str, Sequence[WordScores] | str]
    by_example: ByExample

    @classmethod
    def of(
        cls, setting: Setting, asked: Asked, explained: Asked, cells: Mapping[str, Cell], by_example: ByExample
    ) -> "Subject":
        """Read and explain the clean examples; a search has nothing to explain with."""
        clean, part = (_read(setting, some, some.examples) for some in (asked, explained))
        methods = {name: cell.method for name, cell in cells.items() if isinstance(cell.method, Method)}
        before: dict[str, Sequence[WordScores] | str] = {}
        for name, method in methods.items():
            refusal = GIVEN if not method.explains_others else cells[name].refusal
            if refusal is None:
                before[name] = _explained(setting, method, part, part, by_example, f"explaining clean examples: {name}")
            else:
                before[name] = refusal
        return cls(setting, clean, part, methods, before, by_example)

    def reads(self, task: Task, split: str) -> Reading:
        """What the model says of the attacked examples."""
        return _read(self.setting, self.clean.asked, _same(task, split, self.clean.examples))

    def moves(self, task: Task, split: str, attack: Attack) -> Moves:
        """How the scores of every explainer move."""
        attacked = _read(self.setting, self.explained.asked, _same(task, split, self.explained.examples))
        found: dict[str, MovedScores | str] = {}
        for name, before in self.before.items():
            if not isinstance(before, str):
                label, method = f"explaining under {attack}: {name}", self.methods[name]
                after = _explained(self.setting, method, attacked, self.explained, self.by_example, label)
                found[name] = after if isinstance(after, str) else moved_scores(self.explained, attacked, before, after)
            else:
                found[name] = before
        return found


def _explained(
    setting: Setting, method: Method, reading: Reading, clean: Reading, by_example: ByExample, label: str
) -> Sequence[WordScores] | str:
    """Scores of the words for the class that is predicted of the clean examples, or why there are none."""
    label_map = setting.model.label_map(setting.task.labels)
    parts = parts_of(reading.examples, int(setting.config.batch_size))
    batches = [setting.model.encode_examples(part, label_map) for part in parts]
    classes = dict(zip((example.uid for example in clean.examples), clean.predicted, strict=True))

    def compute(batch: Batch) -> Arrays:
        scores = word_scores(method, setting.model, batch, torch.stack([classes[uid] for uid in batch.uids]))
        return {"scores": np.concatenate(scores), "words": np.array([len(one) for one in scores])}

    try:
        found = by_example(replace(setting, data=replace(setting.data, batches=batches)), compute, label)
    except NotApplicable as reason:
        return str(reason)
    return np.split(found["scores"], np.cumsum(found["words"])[:-1])


def _read(setting: Setting, asked: Asked, examples: Sequence[Example]) -> Reading:
    return read(setting.model, setting.task.labels, asked, examples, int(setting.config.batch_size))


def _same(task: Task, split: str, examples: Sequence[Example]) -> list[Example]:
    """The examples of a task with the identifiers of these."""
    by_uid = {example.uid: example for example in task.split(split)}
    return [by_uid[example.uid] for example in examples]
