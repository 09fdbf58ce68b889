"""Does a model need the order of words, and do explainers notice where it does not? (Si et al. 2019).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from omegaconf import DictConfig, OmegaConf

from benchmark.analyses.context import Context
from benchmark.analyses.reading.answers import Reading, question_of, read
from benchmark.analyses.reading.attack_tables import (
    ACCURACY,
    ATTACKED,
    CLEAN,
    FINISHED,
    NONE,
    Moves,
    Place,
    accuracies,
    accuracy_lines,
    baselines,
    explanations,
    moved_lines,
)
from benchmark.analyses.reading.moved_scores import MovedScores, moved_scores
from benchmark.annotations import KEYS, OPTION_ATTACKS, SEGMENT_ATTACKS, Attack, Moved
from benchmark.errors import NotApplicable
from benchmark.results.tables import Table, line
from benchmark.run.cell import Cell
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.declared import Count, Distinct, Natural, SettingError, configurable
from benchmark.settings.making import make
from benchmark.settings.randomness import generator
from benchmark.types import Example, Method, Task


@configurable
class OrderAttacks:
    """A pair classifier on attacked examples (`task=attacked`), and its explanations, as three tables.

    - `order_attacks`: accuracy of a model that learned from clean examples (the comparison's) or, for the attacks of
      `trained`, from attacked ones, on clean and on attacked examples; its change from the comparison's model on clean ones,
      paired; the degree of shuffling. Of multiple-choice tasks it is the share of questions of which the option with the
      largest probability of the second class is right; where it is known whether order decides, of either kind as well. Of
      other tasks it is the share of examples.
    - `order_baselines`: the accuracy of chance, and of the longest option; of other tasks that of the largest class.
    - `order_explanations`: Kendall's τ_b between the scores of an explainer before and after, of the class that the model
      predicts for the clean example: of the words that both examples have, the same where the predicted class stays, and
      of the same places in examples of the same length; means over the options of a question that the attack changes. An
      explainer that goes by words has 1 of words under shuffling, one that goes by places 1 of places. Of a model that
      learned from shuffled examples, to which order says nothing, an explainer that notices has a larger τ_b of words than
      of one that reads order: `more than of the clean model` is the difference, paired.

    Questions whose options are all right or all wrong are left out.

    Attributes:
        attacks: that examples are put under; those of options are passed over where examples are none.
        trained: those whose examples a model is trained on as well, where the comparison's is no finished checkpoint.
        questions: how many are drawn (of other tasks examples); None for all.
        explained: how many of them are explained, the first ones.
        seed: of the draw, and of the attacks.

    Raises:
        NotApplicable: the examples are no pairs of texts, or attacked already.

    Source: Si et al. 2019 (arXiv:1910.12391), tables 2 and 3; change with intervals, and explanations, are ours.
    Cost: a forward pass for each example and attack, two runs of every explainer for each explained one and attack, and of
    every attack of `trained` a training and as much again.
    """

    version: ClassVar[int] = 1

    attacks: Annotated[Sequence[Attack], Distinct()] = (*SEGMENT_ATTACKS, *OPTION_ATTACKS)
    trained: Annotated[Sequence[Attack], Distinct()] | None = ("pq_shuffle", "p_remove")
    questions: Count | None = 240
    explained: Count = 40
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not set(self.trained or ()) <= set(self.attacks):
            raise SettingError("trained", self.trained, f"those of attacks={list(self.attacks)}")

    def __call__(self, context: Context) -> Sequence[Table]:
        """Accuracies, baselines and explanations."""
        own = context.setting
        examples = self._drawn(own.task.split(own.config.split))
        clean = _read(own, examples)
        rows = list(accuracy_lines(Place(NONE, CLEAN, CLEAN), clean))
        explained: list[dict[str, Any]] = []
        for attack in self.attacks:
            if not clean.questions and attack in OPTION_ATTACKS:
                continue
            task: Task = make(self._task(own, attack, "clean"))
            attacked = _read(own, _same(task, own.config.split, examples))
            rows += accuracy_lines(Place(attack, CLEAN, ATTACKED), attacked, clean.right)
            moved = self._moved(context.cells, clean, attacked)
            explained += moved_lines(moved, attack, CLEAN)
            if attack in (self.trained or ()):
                lines, more = self._trained(context, attack, clean, moved)
                rows, explained = rows + lines, explained + more
        return [accuracies(rows), baselines(clean), explanations(explained)]

    def _drawn(self, examples: Sequence[Example]) -> list[Example]:
        """The examples of as many questions, drawn by the seed, in the order of the task."""
        if any(not isinstance(e.inputs, tuple) or KEYS[Moved] in e.meta for e in examples):
            raise NotApplicable("the examples are no pairs of texts, or attacked already (task=attacked)")
        distinct = list(dict.fromkeys(map(question_of, examples)))
        order = generator(self.seed, "questions").permutation(len(distinct))[: self.questions]
        chosen = {distinct[int(number)] for number in order}
        return [example for example in examples if question_of(example) in chosen]

    def _task(self, own: Setting, attack: Attack, learned: str) -> DictConfig:
        """The comparison's task under an attack; models learn from it or from the clean one."""
        settings = [f"task.attack={attack}", f"task.learned={learned}", f"task.seed={self.seed}"]
        task: DictConfig = compose("config", ["task=attacked", *settings]).task
        OmegaConf.set_struct(task, value=False)
        task.task = own.config.task
        return task

    def _learned(self, own: Setting, attack: Attack) -> Setting:
        """The comparison's task under an attack, and a model that learned from it."""
        config = own.config.copy()
        OmegaConf.set_struct(config, value=False)
        config.task = self._task(own, attack, "attacked")
        config.limit = 1  # what is read is drawn here
        return open_setting(config)

    def _trained(
        self, context: Context, attack: Attack, before: Reading, moved: Moves
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Accuracies and explanations of the model that learned from attacked examples."""
        own, setting = context.setting, self._learned(context.setting, attack)
        if setting.model.fingerprint == own.model.fingerprint:
            return [line(Place(attack, ATTACKED, ATTACKED).labels, ACCURACY, note=FINISHED)], []
        clean = _read(setting, before.examples)
        attacked = _read(setting, _same(setting.task, own.config.split, before.examples))
        rows = [*accuracy_lines(Place(attack, ATTACKED, CLEAN), clean, before.right)]
        rows += accuracy_lines(Place(attack, ATTACKED, ATTACKED), attacked, before.right)
        return rows, list(moved_lines(self._moved(context.cells, clean, attacked), attack, ATTACKED, moved))

    def _moved(self, cells: Mapping[str, Cell], clean: Reading, attacked: Reading) -> Moves:
        """How the scores of every explainer move, or why it has none; a search has none to have."""
        found: dict[str, MovedScores | str] = {}
        for name, cell in cells.items():
            if not isinstance(cell.method, Method):
                continue
            try:
                if cell.refusal is not None:
                    raise NotApplicable(cell.refusal)
                found[name] = moved_scores(cell.method, clean, attacked, self.explained)
            except NotApplicable as reason:
                found[name] = str(reason)
        return found


def _read(setting: Setting, examples: Sequence[Example]) -> Reading:
    return read(setting.model, setting.task.labels, examples, int(setting.config.batch_size))


def _same(task: Task, split: str, examples: Sequence[Example]) -> list[Example]:
    """The examples of a task with the identifiers of these."""
    by_uid = {example.uid: example for example in task.split(split)}
    return [by_uid[example.uid] for example in examples]
