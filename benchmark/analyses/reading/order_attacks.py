"""Does a model need the order of words, and do explainers notice where it does not? (Si et al. 2019).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

from omegaconf import DictConfig, OmegaConf

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.opening import composed, opened, own_seed, seeds_from
from benchmark.analyses.reading.answers import Asked
from benchmark.analyses.reading.attack_tables import (
    ACCURACY,
    ATTACKED,
    CLEAN,
    FINISHED,
    NONE,
    Pair,
    Place,
    accuracies,
    accuracy_lines,
    baselines,
    explanations,
    moved_lines,
    pairs,
)
from benchmark.analyses.reading.subject import Subject
from benchmark.annotations import KEYS, OPTION_ATTACKS, SEGMENT_ATTACKS, Attack, Moved
from benchmark.errors import NoSplit, NotApplicable
from benchmark.randomness import generator
from benchmark.results.tables import Table, line
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, Distinct, Natural, SettingError, configurable
from benchmark.settings.making import make
from benchmark.types import Example, Task


@configurable
class OrderAttacks(Analysis):
    """A pair classifier on attacked examples (`task=attacked`), and its explanations, as three tables, or five.

    - `order_attacks`: accuracy of a model that learned from clean examples (the comparison's) or, for the attacks of
      `trained`, from attacked ones, on clean and on attacked examples; its change from the comparison's model on clean ones,
      paired; the degree of shuffling; the share of questions with a wrong option that reads like a right one after the
      attack. Of multiple-choice tasks accuracy is the share of questions of which the option with the largest probability
      of the second class is right; where it is known whether order decides, of either kind as well. Of other tasks it is the
      share of examples.
    - `order_baselines`: the accuracy of chance, and of the longest option; of other tasks that of the largest class.
    - `order_explanations`: Kendall's τ_b between the scores of an explainer before and after, of the class that the model
      predicts for the clean example: of the words that are shuffled (under attacks that shuffle none of the clean
      example's, of all that are left), the same where the predicted class stays, and of the places where these words stand,
      in examples of the same length; means over the options of a question that the attack changes. An explainer that goes by
      words has 1 of words under shuffling, one that goes by places 1 of places and about 0 of words. Where order says
      nothing, an explainer that notices has a larger τ_b of words: `more where words decide` is the difference between two
      kinds of questions of one model, `more than of the clean model` that between a model that learned from attacked
      examples and the comparison's, paired by question.
    - `order_pairs`, `order_pairs_explanations`, with `trainings` > 1: the accuracies and the last difference for pairs of
      models that are trained anew.

    Questions whose options are all right or all wrong are left out. Those about one passage are resampled together.

    Attributes:
        attacks: that examples are put under; those of options are passed over where examples are none.
        trained: those whose examples a model is trained on as well, where the comparison's is no finished checkpoint.
        trainings: how many pairs of models, of the seeds `model.seed`, `model.seed` + 1, ...
        questions: how many are drawn (of other tasks examples); None for all.
        explained: how many of them are explained, drawn likewise.
        seed: of the draws, and of the attacks.

    Raises:
        NotApplicable: the examples are no pairs of texts, or attacked already; or no question has right and wrong options.

    Source: Si et al. 2019 (arXiv:1910.12391), tables 2 and 3; change with intervals, and explanations, are ours.
    Cost: a forward pass for each example and attack, a run of every explainer for each explained one and one more for each
    attack, and of every attack of `trained` and every training a training and as much again.
    """

    version: ClassVar[int] = 2

    attacks: Annotated[Sequence[Attack], Distinct()] = (*SEGMENT_ATTACKS, *OPTION_ATTACKS)
    trained: Annotated[Sequence[Attack], Distinct()] | None = ("pq_shuffle", "p_remove")
    trainings: Count = 1
    questions: Count | None = 240
    explained: Count = 40
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not set(self.trained or ()) <= set(self.attacks):
            raise SettingError("trained", self.trained, f"those of attacks={list(self.attacks)}")

    def __call__(self, context: Context) -> Sequence[Table]:
        """Accuracies, baselines and explanations."""
        own, split = context.setting, context.setting.config.split
        asked, explained = self._drawn(own.task.split(split))
        by_example = self.keeping(context)
        subject = Subject.of(own, asked, explained, context.cells, by_example)
        rows = list(accuracy_lines(Place(NONE, CLEAN, CLEAN), subject.clean))
        moved: list[dict[str, Any]] = []
        found: list[Pair] = []
        for attack in self.attacks:
            if not asked.has_options and attack in OPTION_ATTACKS:
                continue
            task: Task = make(self._task(own, attack, "clean"))
            moves = subject.moves(task, split, attack)
            rows += accuracy_lines(Place(attack, CLEAN, ATTACKED), subject.reads(task, split), subject.clean.right)
            moved += moved_lines(moves, explained, attack, CLEAN)
            if attack not in (self.trained or ()):
                continue
            if (setting := self._learned(own, attack)).model.fingerprint == own.model.fingerprint:
                rows.append(line(Place(attack, ATTACKED, ATTACKED).labels, ACCURACY, note=FINISHED))
                continue
            other = Subject.of(setting, asked, explained, context.cells, by_example)
            moves_there = other.moves(task, split, attack)
            pair = Pair(attack, own_seed(own), subject.clean, other.reads(task, split), moves, moves_there)
            rows += accuracy_lines(Place(attack, ATTACKED, CLEAN), other.clean, subject.clean.right)
            rows += accuracy_lines(Place(attack, ATTACKED, ATTACKED), pair.attacked, subject.clean.right)
            moved += moved_lines(pair.attacked_moves, explained, attack, ATTACKED, moves)
            found.append(pair)
        tables = [accuracies(rows), baselines(asked, _training(own)), explanations(moved)]
        if self.trainings > 1 and found:
            found += self._more_pairs(context, subject, [pair.attack for pair in found])
            tables += pairs(sorted(found, key=lambda pair: self.attacks.index(pair.attack)), explained)
        self.forget(context)
        return tables

    def _drawn(self, examples: Sequence[Example]) -> tuple[Asked, Asked]:
        """The examples of as many questions as are asked and of those that are explained, in the order of the task."""
        if any(not isinstance(e.inputs, tuple) or KEYS[Moved] in e.meta for e in examples):
            raise NotApplicable("the examples are no pairs of texts, or attacked already (task=attacked)")
        every = Asked(examples).with_a_choice()
        if not every.examples:
            raise NotApplicable("no question has right and wrong options")
        names = list(every.places)
        order = [names[int(number)] for number in generator(self.seed, "questions").permutation(len(names))]
        drawn = order[: self.questions]
        return every.of(drawn), every.of(drawn[: self.explained])

    def _task(self, own: Setting, attack: Attack, learned: str) -> DictConfig:
        """The comparison's task under an attack; models learn from it or from the clean one."""
        settings = [f"task.attack={attack}", f"task.learned={learned}", f"task.seed={self.seed}"]
        task: DictConfig = composed(["task=attacked", *settings], "analyses.order_attacks").task
        OmegaConf.set_struct(task, value=False)
        task.task = own.config.task
        return task

    def _learned(self, own: Setting, attack: Attack | None, seed: int | None = None) -> Setting:
        """The comparison's task under an attack, or as it is, and a model that learned from it, of another seed if given."""
        changes: dict[str, Any] = {"limit": 1}  # what is read is drawn here
        if attack is not None:
            changes["task"] = self._task(own, attack, "attacked")
        if seed is not None:
            changes["model.seed"] = seed
        return opened(own, changes)

    def _more_pairs(self, context: Context, first: Subject, attacks: Sequence[Attack]) -> Iterator[Pair]:
        """Pairs of models of the seeds after the comparison's."""
        own, split = first.setting, first.setting.config.split
        asked, explained = first.clean.asked, first.explained.asked
        for seed in seeds_from(own, self.trainings)[1:]:
            clean = Subject.of(self._learned(own, None, seed), asked, explained, context.cells, first.by_example)
            for attack in attacks:
                task: Task = make(self._task(own, attack, "clean"))
                other = Subject.of(self._learned(own, attack, seed), asked, explained, context.cells, first.by_example)
                moves = clean.moves(task, split, attack), other.moves(task, split, attack)
                yield Pair(attack, seed, clean.clean, other.reads(task, split), *moves)


def _training(own: Setting) -> Sequence[Example] | None:
    """The training split, where there is one."""
    try:
        return own.task.split("train")
    except NoSplit:
        return None
