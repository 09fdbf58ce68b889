"""Does a model need the order of words, and do explainers notice where it does not? (Si et al. 2019).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray
from omegaconf import OmegaConf

from benchmark.analyses.context import Context
from benchmark.analyses.means import CORRELATION, SHARE, mean_line
from benchmark.analyses.reading.answers import Answers, Questions, answers, chosen_right, lengths, questions_of
from benchmark.analyses.reading.moved_scores import moved_scores
from benchmark.annotations import KEYS, OPTION_ATTACKS, SEGMENT_ATTACKS, Attack, Moved, Option, annotation
from benchmark.errors import NotApplicable
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.declared import Count, Distinct, Natural, SettingError, configurable
from benchmark.settings.randomness import generator
from benchmark.types import Batch, Example, Method

NONE = "none"
CLEAN, ATTACKED = "clean", "attacked"
ACCURACY, CHANGE, DEGREE = "accuracy", "change", "degree of shuffling"
NEEDS_ORDER, NEEDS_WORDS = "accuracy where order decides", "accuracy where words decide"
WORDS, PLACES, STAYING = "τ_b of words", "τ_b of places", "τ_b of words where the prediction stays"
_UNDEFINED = "undefined in every example"


@dataclass(frozen=True)
class _Read:
    """Examples as a model reads them, in their order, and what is to be answered."""

    examples: Sequence[Example]
    batches: Sequence[Batch]
    questions: Questions


@configurable
class OrderAttacks:
    """A pair classifier on attacked examples (`task=attacked`), and its explanations, as three tables.

    - `order_attacks`: accuracy of a model that learned from clean examples (the comparison's) or, for the attacks of
      `trained`, from attacked ones, on clean and on attacked examples; its change from the comparison's model on clean ones,
      paired; the degree of shuffling. Of multiple-choice tasks it is the share of questions of which the option with the
      largest probability of the second class is right; where it is known whether order decides, of either kind as well. Of
      other tasks it is the share of examples.
    - `order_baselines`: the accuracy of chance, and of the longest option; of other tasks that of the largest class.
    - `order_explanations`: Kendall's τ_b between the scores of an explainer, of the class predicted for the clean example by
      the comparison's model, before and after: of the words that both examples have, the same for those whose prediction
      stays, and of the same places in examples of the same length. An explainer that goes by words has 1 of words under
      shuffling, one that goes by places 1 of places.

    Questions whose options are all right or all wrong are left out.

    Attributes:
        attacks: that examples are put under; those of options are passed over where examples are none.
        trained: those whose examples a model is trained on as well, where the comparison's is no finished checkpoint.
        questions: how many are drawn (of other tasks examples); None for all.
        explained: how many of their examples are explained, the first ones.
        seed: of the draw, and of the attacks.

    Raises:
        NotApplicable: the examples are no pairs of texts, or attacked already.

    Source: Si et al. 2019 (arXiv:1910.12391), tables 2 and 3; change with intervals, and explanations, are ours.
    Cost: a forward pass for each example and attack, two runs of every explainer for each explained one and attack, and a
    training for every attack of `trained`.
    """

    version: ClassVar[int] = 1

    attacks: Annotated[Sequence[Attack], Distinct()] = (*SEGMENT_ATTACKS, *OPTION_ATTACKS)
    trained: Annotated[Sequence[Attack], Distinct()] | None = ("pq_shuffle", "p_remove")
    questions: Count | None = 200
    explained: Count = 60
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not set(self.trained or ()) <= set(self.attacks):
            raise SettingError("trained", self.trained, f"those of attacks={list(self.attacks)}")

    def __call__(self, context: Context) -> Sequence[Table]:
        """Accuracies, baselines and explanations."""
        own = context.setting
        examples = self._drawn(own.task.split(own.config.split))
        clean = _read(own, examples)
        before = _answers(own, clean)
        rows = list(_accuracy(NONE, CLEAN, CLEAN, clean, before))
        explained: list[dict[str, Any]] = []
        for attack in self._attacks(clean):
            setting = self._opened(own, attack, CLEAN)
            attacked = _read(own, _same(setting, examples))
            after = _answers(own, attacked)
            rows += _accuracy(attack, CLEAN, ATTACKED, attacked, after, _paired(clean, before))
            if attack in (self.trained or ()):
                rows += self._trained(own, attack, clean, before)
            explained += self._explained(context, attack, (clean, before), (attacked, after))
        return [_accuracies(rows), _baselines(clean), _explanations(explained)]

    def _attacks(self, clean: _Read) -> Iterator[Attack]:
        for attack in self.attacks:
            if clean.questions or attack not in OPTION_ATTACKS:
                yield attack

    def _drawn(self, examples: Sequence[Example]) -> list[Example]:
        """The examples of as many questions, drawn by the seed, in the order of the task."""
        if any(not isinstance(e.inputs, tuple) or KEYS[Moved] in e.meta for e in examples):
            raise NotApplicable(
                "order_attacks: the examples are no pairs of texts, or attacked already (task=attacked)"
            )
        names = [_question(example) for example in examples]
        distinct = list(dict.fromkeys(names))
        order = generator(self.seed, "questions").permutation(len(distinct))[: self.questions]
        chosen = {distinct[int(number)] for number in order}
        return [example for example, name in zip(examples, names, strict=True) if name in chosen]

    def _opened(self, own: Setting, attack: str, learned: str) -> Setting:
        """The comparison's task under an attack, with a model that learned from it or from the clean one."""
        config = own.config.copy()
        OmegaConf.set_struct(config, value=False)
        attacked = [f"task.attack={attack}", f"task.learned={learned}", f"+task.seed={self.seed}"]
        config.task = compose("config", ["task=attacked", *attacked]).task
        OmegaConf.set_struct(config.task, value=False)
        config.task.task = own.config.task
        config.limit = 1  # what is read is drawn here
        return open_setting(config)

    def _trained(self, own: Setting, attack: str, clean: _Read, before: Answers) -> Iterator[dict[str, Any]]:
        setting = self._opened(own, attack, ATTACKED)
        if setting.model.fingerprint == own.model.fingerprint:
            place = {"attack": attack, "learned from": ATTACKED, "reads": CLEAN}
            yield line(place, ACCURACY, note="the model is a finished checkpoint")
            return
        for reads, examples in ((CLEAN, clean.examples), (ATTACKED, _same(setting, clean.examples))):
            read = _read(setting, examples)
            yield from _accuracy(attack, ATTACKED, reads, read, _answers(setting, read), _paired(clean, before))

    def _explained(
        self, context: Context, attack: str, clean: tuple[_Read, Answers], attacked: tuple[_Read, Answers]
    ) -> Iterator[dict[str, Any]]:
        """τ_b of every explainer."""
        setting = context.setting
        (first, before), (second, after) = clean, attacked
        n_batches = -(-self.explained // int(setting.config.batch_size))
        target = before.predicted
        batches = first.batches[:n_batches], second.batches[:n_batches]
        n_read = sum(len(batch) for batch in batches[0])
        for name, cell in context.cells.items():
            if not isinstance(cell.method, Method):
                continue  # a search has no scores
            place = {"explainer": name, "attack": attack}
            try:
                if cell.refusal is not None:
                    raise NotApplicable(cell.refusal)
                taus = moved_scores(cell.method, setting.model, *batches, target[:n_read])
            except NotApplicable as reason:
                yield line(place, WORDS, note=str(reason))
                continue
            words, places = taus.words[: self.explained], taus.places[: self.explained]
            stays = (before.predicted == after.predicted).numpy()[: len(words)]
            yield mean_line(place, WORDS, words, CORRELATION, _UNDEFINED)
            yield mean_line(place, STAYING, words[stays], CORRELATION, "undefined, or no prediction stays")
            yield mean_line(place, PLACES, places, CORRELATION, f"{_UNDEFINED}, or examples differ in length")


def _question(example: Example) -> str:
    told = example.meta.get(KEYS[Option])
    return told.question if isinstance(told, Option) else example.uid


def _same(setting: Setting, examples: Sequence[Example]) -> list[Example]:
    """The examples of the setting's task with the identifiers of these."""
    by_uid = {example.uid: example for example in setting.task.split(setting.config.split)}
    return [by_uid[example.uid] for example in examples]


def _read(setting: Setting, examples: Sequence[Example]) -> _Read:
    label_map, size = setting.model.label_map(setting.task.labels), int(setting.config.batch_size)
    parts = [examples[i : i + size] for i in range(0, len(examples), size)]
    return _Read(examples, [setting.model.encode_examples(part, label_map) for part in parts], questions_of(examples))


def _answers(setting: Setting, read: _Read) -> Answers:
    return answers(setting.model, read.batches, setting.model.label_map(setting.task.labels)[1])


def _paired(read: _Read, found: Answers) -> Float[NDArray[np.float64], " N"]:
    """Whether each question, or each example, is answered right."""
    if read.questions:
        return chosen_right(read.examples, read.questions, found.score)
    return found.right.astype(float)


def _accuracy(
    attack: str, learned: str, reads: str, read: _Read, found: Answers, before: NDArray[np.float64] | None = None
) -> Iterator[dict[str, Any]]:
    """Lines of one model on clean or attacked examples; `before`: how the comparison's model answers the clean ones."""
    place = {"attack": attack, "learned from": learned, "reads": reads}
    right = _paired(read, found)
    yield mean_line(place, ACCURACY, right, SHARE, "no question has right and wrong options")
    if before is not None:
        yield mean_line(place, CHANGE, right - before, CORRELATION, "")
    told = [annotation(read.examples[places[0]].meta, Option).needs_order for places in read.questions.values()]
    for metric, kind in ((NEEDS_ORDER, True), (NEEDS_WORDS, False)):
        if kind in told:
            yield mean_line(place, metric, right[[known is kind for known in told]], SHARE, "")
    degrees = [annotation(e.meta, Moved).degree for e in read.examples] if reads == ATTACKED else []
    if known_degrees := [degree for degree in degrees if degree is not None]:
        yield mean_line(place, DEGREE, np.array(known_degrees), SHARE, "")


def _accuracies(rows: list[dict[str, Any]]) -> Table:
    return Table(
        name="order_attacks",
        title="Accuracy under attacks on the words",
        labels=("attack", "learned from", "reads"),
        rows=pd.DataFrame(rows),
        sentences=(
            "n counts questions, or examples where there are none, and examples of the degree of shuffling.",
            "Change: from the model that learned from clean examples and reads clean ones, of the same questions.",
        ),
        drawing=Drawing("bars", x="attack", y=(ACCURACY,), series="learned from", panels=("reads",)),
    )


def _baselines(read: _Read) -> Table:
    labels = np.array([example.label for example in read.examples])
    if read.questions:
        guesses = {"chance": np.zeros(len(labels)), "longest option": lengths(read.examples)}
        found = {name: chosen_right(read.examples, read.questions, score) for name, score in guesses.items()}
    else:
        found = {"largest class": (labels == np.bincount(labels[labels >= 0]).argmax()).astype(float)}
    return Table(
        name="order_baselines",
        title="Accuracy without reading",
        labels=("baseline",),
        rows=pd.DataFrame(
            [mean_line({"baseline": name}, ACCURACY, v, SHARE, "no question") for name, v in found.items()]
        ),
        sentences=("Of equally long options each is chosen as often, by chance all are.",),
    )


def _explanations(rows: list[dict[str, Any]]) -> Table:
    return Table(
        name="order_explanations",
        title="How explanations move with the words",
        labels=("explainer", "attack"),
        rows=pd.DataFrame(rows, columns=["explainer", "attack", "metric", "value", "low", "high", "n", "note"]),
        sentences=(
            "τ_b between scores before and after: of the words that both examples have, and of the same places in examples "
            "of the same length.",
        ),
        drawing=Drawing("bars", x="attack", y=(WORDS,), series="explainer") if rows else None,
    )
