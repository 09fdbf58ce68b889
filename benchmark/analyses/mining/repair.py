"""How much does an explanation help to mend a model? (docs/protocols.md, section 17)."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar

from benchmark import progress
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.mining.corpus_patterns import rationale_words
from benchmark.analyses.mining.miners import Corpus, Patterns
from benchmark.analyses.mining.readings import Answers, HeldOut, repaired
from benchmark.analyses.mining.repair_tables import (
    ASSOCIATED,
    BEFORE,
    FREQUENT,
    NOTHING,
    PLANTED,
    RANDOM,
    Repairs,
    tables,
)
from benchmark.analyses.mining.word_pairs import marked_texts, plain
from benchmark.analyses.opening import seeds_from, trained_with
from benchmark.annotations import KnowsShortcuts
from benchmark.errors import NoSplit, NotApplicable
from benchmark.evaluations.triggers.words import SHIPPED, exclusion
from benchmark.models import load_model
from benchmark.randomness import generator
from benchmark.results.tables import Table
from benchmark.settings.declared import Above, Count, Natural, Share, configurable, of_file
from benchmark.settings.early import ExistingFile
from benchmark.settings.making import make
from benchmark.targets import TargetName
from benchmark.training.finetune import Recipe, finetuned_for
from benchmark.training.sources import load_arguments
from benchmark.types import Method, Task


@configurable
class Repair(Analysis):
    """Patterns that explainers mine are inserted under other labels, the model learns on, and is tested again.

    For each of `trainings` seeds the comparison's model is trained (where it is trained at all), and every explainer
    explains the scored texts, which should be those that the model learned from. Of the word pairs that go with a label
    (`corpus_patterns`) its `patterns` most significant ones are put into a `share` of the training texts with other labels
    (`tasks.repaired.Repaired`), and from the model that was explained the training goes on with these, for all in the same
    way. Set against it are, with as many pairs: pairs at random; others as frequent in the texts as the planted phrases
    (or as what explainers found); the pairs that go with a label most surely, for which nobody explains anything; the
    planted phrases, as many of them as there are, where the task knows them; and nothing at all, training going on alone.
    The first two hold no word of a planted phrase (or of one that explainers found).

    Four tables:
    - `repair`: accuracy on clean texts and on those where the shortcuts go with other labels (`shifted`); how much
      probability of the annotated label a planted phrase for another label takes, and a mined one; before and after.
    - `repair_gains`: the change of both accuracies, and what an explainer gains beyond words as frequent, beyond pairs that
      go with the label, and beyond training alone, paired by seed and text; by how much a repair cuts the effect of the
      planted phrases; p-values of what is gained in shifted texts beyond words as frequent and beyond pairs that go with
      the label (`statistics.crossed_p`), Holm over explainers and both.
    - `repair_spread`: the standard deviations of all of these between seeds and between texts.
    - `repair_patterns`: what was inserted.

    Intervals hold for other seeds and other texts at once (`statistics.crossed_interval`).

    Attributes:
        clean, shifted: settings of the task that give it no shortcuts in the tested split, and shortcuts that flip.
        split: which is tested.
        patterns: word pairs for each label and miner.
        best, least: as in `corpus_patterns`.
        lexicon: words that no inserted pair holds, beside those that rationales mark: "sentiment", the path of a text file,
            or None. A person would not call "wonderful" a shortcut of a sentiment model.
        share: of the training texts that get a pair.
        train: texts that a repair learns from, drawn; None for all.
        epochs, batch_size, learning_rate, freeze: of a repair (`benchmark.train`).
        trainings: seeds, from the model's own on.
        target: the class that is explained.
        tested: how many texts of the split are drawn; None for all.

    Raises:
        NotApplicable: the examples are no texts, the task has no training split, or the model has other classes, or the
            same in another order.

    Source: this project.
    Cost: for every seed a training of the model, every explainer once for each scored text, and a repair for every explainer
    and control; all trained models are cached.
    """

    version: ClassVar[int] = 1

    clean: Mapping[str, Any] = field(default_factory=lambda: {"shortcut_splits": ["train"]})
    shifted: Mapping[str, Any] = field(
        default_factory=lambda: {"shortcut_splits": ["train", "test"], "flipped_splits": ["test"]}
    )
    split: str = "test"
    patterns: Count = 3
    best: Count = 3
    least: Count = 5
    lexicon: Annotated[str | None, ExistingFile((SHIPPED,))] = of_file(SHIPPED)
    share: Share = 0.5
    train: Count | None = 2000
    epochs: Count = 1
    batch_size: Count = 32
    learning_rate: Annotated[float, Above(0)] = 5e-4
    freeze: Natural = 0
    trainings: Count = 3
    target: TargetName = "predicted"
    tested: Count | None = 400

    def __call__(self, context: Context) -> Sequence[Table]:
        """Mine, repair and test, seed after seed."""
        own = context.setting
        try:
            own.task.split("train")
        except NoSplit as error:
            raise NotApplicable("a repair learns from the training split, which the task does not have") from error
        if list(own.model.label_map(own.task.labels)) != list(range(len(own.task.labels))):
            raise NotApplicable("the model's classes are not the task's, or they are in another order")
        tested = HeldOut.of(own.config.task, self.split, self.clean, self.shifted, self.tested, int(own.config.seed))
        found = Repairs(planted=bool(_planted(own.task)))
        for seed in seeds_from(own, self.trainings):
            self._repair(context, seed, tested, found)
        told = tables(found, self.trainings, len(tested.clean), self.patterns)
        self.forget(context)
        return told

    def _repair(self, context: Context, seed: int, tested: HeldOut, found: Repairs) -> None:
        """One seed: a model, what every miner finds, and a repair by each."""
        setting = trained_with(context.setting, seed)
        checkpoint = str(make(setting.config.model).resolve(getattr(setting.task, "learned_from", setting.task)))
        planted, labels = _planted(setting.task), setting.task.labels
        mined = self._mined(replace(context, setting=setting), seed, found)
        before = Answers.of(setting.model, labels, tested, planted, {}, seed)
        found.add(BEFORE, seed, before, {})
        with progress.step("repairing models", len(mined), unit="repairs") as advance:
            for miner, patterns in mined.items():
                recipe = Recipe(
                    epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate, freeze=self.freeze,
                    checks_per_epoch=1, seed=seed,
                )  # fmt: skip
                settings = {"share": self.share, "train": self.train, "seed": seed}
                task: Task = make(repaired(setting.config.task, patterns, **settings))
                path = finetuned_for(task, checkpoint, recipe, told=False)
                model = load_model(path, **load_arguments(make(setting.config.model)))
                found.add(miner, seed, Answers.of(model, labels, tested, planted, patterns, seed), patterns)
                found.own_before[miner, seed] = Answers.of(setting.model, labels, tested, patterns, {}, seed).planted
                advance(1)

    def _mined(self, context: Context, seed: int, found: Repairs) -> dict[str, Patterns]:
        """By miner what it would insert, at equal budget."""
        setting = context.setting
        texts = list(context.first_examples(None, self.target))
        if not any(any(words) for batch, _ in texts for words in batch.words):
            raise NotApplicable("the examples are no texts")
        label_of = {
            of_model: setting.task.labels[i] for i, of_model in enumerate(setting.model.label_map(setting.task.labels))
        }
        corpus = Corpus(
            [[plain(word) for word in words] for batch, _ in texts for words in batch.words],
            [label_of.get(label, "") for batch, _ in texts for label in batch.label.tolist()],
            setting.task.labels,
            self.least,
            rationale_words(texts) | exclusion(self.lexicon, "analyses.repair.lexicon").lexicon,
            self.patterns,
        )
        mined: dict[str, Patterns] = {}
        for name, cell in context.cells.items():
            if not isinstance(cell.method, Method) or name in found.refused:
                continue
            try:
                if cell.refusal is not None or not cell.method.explains_others:
                    raise NotApplicable(cell.refusal or "its scores are given for one model")
                examples = marked_texts(cell.method, setting, texts, self.best, self.keeping(context), name)
            except NotApplicable as reason:
                found.refuse(name, str(reason))
                continue
            mined[name] = corpus.explained(examples, self.best, label_of)
        planted = {label: phrases[: self.patterns] for label, phrases in _planted(setting.task).items()}
        models = [_planted(setting.task)] if planted else list(mined.values())
        rng = generator(seed, "words as frequent")
        controls = {
            RANDOM: corpus.random(generator(seed, "random words"), models),
            FREQUENT: corpus.as_frequent(rng, models),
            ASSOCIATED: corpus.associated(),
            NOTHING: {},
        }
        return {**mined, **controls, **({PLANTED: planted} if planted else {})}


def _planted(task: Task) -> Patterns:
    """By label the phrases that were planted."""
    found: dict[str, list[str]] = {}
    for phrase, label in (task.planted_shortcuts if isinstance(task, KnowsShortcuts) else {}).items():
        found.setdefault(label, []).append(phrase)
    return found
