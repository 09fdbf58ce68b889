"""Do an explainer's weights help a classifier that sees no context? (Wiegreffe & Pinter 2019, section 3.4).

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Annotated, ClassVar

from torch import Tensor

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.guide_tables import Classes, Results, difference_table, quality_table
from benchmark.analyses.debate.guide_weights import Scores, Texts, training_split
from benchmark.analyses.debate.guides import DRAWN, LEARNED, NO_CLASS, ORACLE, PREDICTED, RANDOM, UNIFORM, Guide
from benchmark.analyses.debate.word_scores import explained
from benchmark.errors import NotApplicable, UserError
from benchmark.results.control_names import control_order
from benchmark.results.tables import Table
from benchmark.run.cell import Cell
from benchmark.run.steps import finish
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import OfComparison
from benchmark.targets import DrawnClass, Explained, OneClass
from benchmark.training.guided import GuidedRecipe
from benchmark.units import Pool

Pair = tuple[Scores, Scores]
"""Of the training examples, and of the scored ones."""


@configurable
class GuideTest(Analysis):
    """Accuracy and macro-F1 of word classifiers without context, guided by explanations.

    A multilayer perceptron gives every word logits, from its embedding alone. They are pooled with weights that are fixed in
    training and test: the positive parts of an explainer's scores, divided by their sum within the example; 1 / n for
    each of the n words where no score is positive, which is counted. What the weights add over uniform ones is what they
    tell a reader who sees one word at a time.

    Scores that are explained for the predicted class carry the prediction: a guide can show the words of that class
    alone. A method that looks at the class therefore has three lines: explained for the predicted class, for one class that
    is the same for all examples, and for a class drawn per example. The first less the last shows the leak. It is too large
    by what is lost where the drawn class is not that of the words, and too small by what its scores tell of the prediction.

    Two tables. `guide`: a line per guide; uniform, oracle (words of the rationale, which carries the label) and random
    weights are controls, learned ones are trained with the classifier and are the yardstick, and the comparison's model is
    shown beside them. `guide_differences`: the accuracy of each guide less that of uniform weights, and less that of its own
    weights in another order within the example, paired by example and seed.

    Attributes:
        methods: of the comparison; None for those that do not look at the class, and the first `others` that do,
            controls aside.
        others: how many.
        limit: how many examples of the training split; None for all.
        fixed_class: the class that is the same for all examples: its number in the model's order.
        pool: from the scores of a word's tokens to its own.
        recipe: how the classifiers are trained.
        seed: of drawn classes, random scores and permutations.

    Cost: the explanations of the training examples, for three classes where methods look at it, in run folders of their own;
    and seconds of training.
    """

    methods: Annotated[Sequence[str] | None, OfComparison("methods")] = None
    others: Natural = 6
    limit: Count | None = 200
    fixed_class: Natural = 0
    pool: Pool = "max"
    recipe: GuidedRecipe = field(default_factory=GuidedRecipe)
    seed: Natural = 0
    version: ClassVar[int] = 2  # 2: no verdict rests on uniform weights

    def __call__(self, context: Context) -> Sequence[Table]:
        """Quality, and differences."""
        labels = context.setting.model.labels
        if len(labels) < 2:
            raise NotApplicable("the model has a single class")
        if self.fixed_class >= len(labels):
            raise UserError(
                f"analyses.guide.fixed_class={self.fixed_class}: allowed are classes up to {len(labels) - 1}"
            )
        train, scored = Texts.of(training_split(context, self.limit)), Texts.of(context.setting)
        pairs, refused = self._pairs(context, train, scored)
        results = self._results(context, train, scored, pairs)
        return [quality_table(results, refused, self._left_out(context)), difference_table(results)]

    def _chosen(self, context: Context) -> list[str]:
        if self.methods is not None:
            return list(self.methods)
        left_out = self._left_out(context)
        return [name for name in _scoring(context) if name not in left_out]

    def _left_out(self, context: Context) -> list[str]:
        """The class-specific methods beyond the first `others`, where none are named."""
        if self.methods is not None:
            return []
        return [name for name in _scoring(context) if context.cells[name].method.class_specific][self.others :]

    def _classes(self, cell: Cell) -> Mapping[str, Explained]:
        if not cell.method.class_specific:
            return {NO_CLASS: "predicted"}
        fixed = f"always {cell.model.labels[self.fixed_class]}"
        return {PREDICTED: "predicted", fixed: OneClass(self.fixed_class), DRAWN: DrawnClass(self.seed)}

    def _pairs(self, context: Context, train: Texts, scored: Texts) -> tuple[dict[Guide, Pair], dict[Guide, str]]:
        """Scores by guide; and why some have none."""
        sources: dict[Guide, Callable[[Texts], Scores]] = {
            Guide(UNIFORM, NO_CLASS): Texts.even,
            Guide(ORACLE, NO_CLASS): Texts.oracle,
            Guide(RANDOM, NO_CLASS): partial(Texts.random, seed=self.seed),
        }
        for name in self._chosen(context):
            for explained_class, which in self._classes(context.cells[name]).items():
                sources[Guide(name, explained_class)] = partial(self._explained, context, name, which)
        pairs, refused = {}, {}
        for guide, scores in sources.items():
            try:
                of_scored = scores(scored)
                pairs[guide] = scores(train), of_scored
            except NotApplicable as answer:
                refused[guide] = f"cannot, because {answer}"
        return pairs, refused

    def _explained(self, context: Context, name: str, which: Explained, texts: Texts) -> Scores:
        if texts.setting is context.setting:
            return texts.explained(context.cells[name], which, self.pool)
        cell = texts.setting.cell(name)
        finish(cell, {})
        return texts.explained(cell, which, self.pool)

    def _results(self, context: Context, train: Texts, scored: Texts, pairs: Mapping[Guide, Pair]) -> Results:
        weights = {guide: tuple(scores.weights for scores in pair) for guide, pair in pairs.items()}
        orders = train.permutation(self.seed), scored.permutation(self.seed)
        moved = {
            guide: tuple(part.gather(1, order) for part, order in zip(pair, orders, strict=True))
            for guide, pair in weights.items()
            if guide.name != UNIFORM
        }
        of_train, of_scored = zip(*weights.values(), *moved.values(), strict=True)

        def classes(first: Sequence[Tensor] | None, second: Sequence[Tensor] | None) -> Classes:
            texts = train.guided(first), train.label, scored.guided(second)
            model = context.setting.model
            found = self.recipe.classify(*texts, len(model.labels), model.memory_budget)
            return found.permute(1, 2, 0).numpy()  # [G M S]

        fixed, learned = classes(of_train, of_scored), classes(None, None)[0]
        return Results(
            label=scored.label.numpy(),
            n_classes=len(context.setting.model.labels),
            own={**dict(zip(weights, fixed, strict=False)), Guide(LEARNED, NO_CLASS): learned},
            moved=dict(zip(moved, fixed[len(weights) :], strict=True)),
            model=_predicted(context)[scored.known],
            without={guide: (first.none.numpy(), second.none.numpy()) for guide, (first, second) in pairs.items()},
        )


def _predicted(context: Context) -> Classes:
    classes: Classes = context.setting.data.predicted.numpy()
    return classes


def _scoring(context: Context) -> list[str]:
    """The comparison's methods that score tokens, without controls."""
    return [name for name in explained(context.cells, "predicted") if not control_order(name)]
