"""Questions that readers of "Self-Attention Attribution" (Hao 2021) were left with, answered by paired differences."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, ClassVar

import pandas as pd

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.differences import Difference, Values, columns, difference_lines, halves, of_best, of_extremes
from benchmark.analyses.measured import tested
from benchmark.errors import NotApplicable
from benchmark.results.rows import StoredRows
from benchmark.results.statistics import RESAMPLED, Source, sources
from benchmark.results.tables import Table
from benchmark.settings.declared import configurable
from benchmark.settings.early import ReadsOneOf

_LABELS = ("method", "question")
_REACH = (-2.0, 2.0)  # of a difference of two differences of accuracies


@configurable
class OpenQuestions(Analysis):
    """Four questions about every method that the tests named below were run for.

    Each answer is a mean over examples of a paired difference.

    - Does accuracy rise when the least important heads go first? The gain over the whole model at one share above 0: the
      share of the largest gain on half of the examples, measured on the others.
    - One pruning order for all examples or one for each? `auc_difference` of each example's own order less that of the
      common one. The interval includes the error of random orders and of the calibration examples.
    - Does a trigger need two pairs of words? Accuracy drop by two pairs less that by one.
    - Does a trigger's place matter? Accuracy drop at its best relative position less that at its worst, and at the words'
      own places less that at the best position. Positions are chosen on half of the examples and measured on the others.

    Verdicts are those of sign flips, after Holm's correction over the lines of the table.

    Attributes:
        pruning: the test with one order for all examples.
        pruning_each: the test with one order for each.
        triggers: the test of triggers, with `positions` and `pair_counts`.
    """

    pruning: Annotated[str, ReadsOneOf(("pruning_each", "triggers"))] = "head_pruning"
    pruning_each: str = "head_pruning_each"
    triggers: str = "triggers"
    version: ClassVar[int] = 2

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table with a line per method and question."""
        tests = context.tests
        questions = [
            question
            for method, cell in context.cells.items()
            for question in self._questions(method, tested(cell, tests)[1])
        ]
        if not questions:
            raise NotApplicable("no method of the comparison was put through head pruning or triggers")
        rows, sentences = difference_lines(questions)
        return [
            Table(
                name="open_questions",
                title="Questions left open: paired differences over examples",
                labels=_LABELS,
                rows=pd.DataFrame(rows),
                sentences=tuple(sentences),
            )
        ]

    def _questions(self, method: str, values: StoredRows) -> Iterator[Difference]:
        def ask(question: str, differences: Values, note: str = "", beside: Sequence[Source] = ()) -> Difference:
            labels = dict(zip(_LABELS, (method, question), strict=True))
            return Difference(labels, differences, beside, _REACH, note)

        gains = columns(values, self.pruning, "low_first_gain")
        shares = gains.columns.to_numpy(dtype=float)
        if (shares > 0).any():
            gain, best = of_best(gains.to_numpy()[:, shares > 0])
            share = float(shares[shares > 0][best])
            beside = _sources(values, self.pruning, "low_first_gain", share)
            yield ask("largest gain in accuracy, least important heads pruned first", gain, f"share {share:g}", beside)
        orders = [columns(values, test, "auc_difference") for test in (self.pruning_each, self.pruning)]
        if all(order.size for order in orders):
            beside = [s for test in (self.pruning_each, self.pruning) for s in _sources(values, test, "auc_difference")]
            each, common = _paired(*orders)
            yield ask("pruning AUC difference, each example's own order less one for all", each - common, "", beside)
        pairs = columns(values, self.triggers, "drop_of_pairs")
        if {1.0, 2.0} <= set(pairs.columns):
            two_pairs, one_pair = _paired(pairs[[2.0]], pairs[[1.0]])
            yield ask("accuracy drop by triggers, two pairs less one", two_pairs - one_pair)
        yield from self._places(values, ask)

    def _places(self, values: StoredRows, ask: Callable[..., Difference]) -> Iterator[Difference]:
        positions, drops = (columns(values, self.triggers, metric) for metric in ("drop_at_position", "accuracy_drop"))
        common = positions.index.intersection(drops.index)
        if positions.shape[1] < 2 or not len(common):
            return
        x = positions.columns.to_numpy(dtype=float)
        at_positions, at_own_places = positions.loc[common].to_numpy(), drops.loc[common].to_numpy()[:, 0]
        difference, best, worst = of_extremes(at_positions)
        note = f"best {x[best]:g}, worst {x[worst]:g}"
        yield ask("accuracy drop by triggers, best position less worst", difference, note)
        _, measured = halves(len(common))
        own_less_best = (at_own_places - at_positions[:, best])[measured]
        yield ask("accuracy drop by triggers, own places less best position", own_less_best, f"best {x[best]:g}")


def _paired(a: pd.DataFrame, b: pd.DataFrame) -> tuple[Values, Values]:
    """The first columns over the examples that both have."""
    common = a.index.intersection(b.index)
    return a.loc[common].to_numpy()[:, 0], b.loc[common].to_numpy()[:, 0]


def _sources(values: StoredRows, evaluation: str, metric: str, x: float | None = None) -> list[Source]:
    """What random orders of heads, and the calibration examples of one order, add to the error."""
    read = (values.read(evaluation, name) for name in (metric, RESAMPLED + metric))
    return sources(*(rows[rows["x"].isna() if x is None else rows["x"] == x] for rows in read))
