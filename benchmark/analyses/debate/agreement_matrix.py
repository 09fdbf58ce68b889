"""Do explanations agree? Every method with every other, with gradient importance and with leave-one-out importance.

Jain & Wallace 2019 compare attention with the last two; defined in docs/protocols.md, section 16.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.word_scores import WordScores, word_scores
from benchmark.analyses.means import (
    CORRELATION,
    SHARE,
    correlation_lines,
    defined_mean,
    mean_line,
    share_undefined,
)
from benchmark.analyses.measured import figure_line
from benchmark.errors import NotApplicable
from benchmark.evaluations import ranks
from benchmark.results.statistics import Interval
from benchmark.results.tables import Drawing, Table, line
from benchmark.results.wording import bounds, number
from benchmark.settings.declared import Above, Count, Natural, Share, configurable
from benchmark.targets import TargetName
from benchmark.types import Method
from benchmark.units import Pool

Values = NDArray[np.float64]

_TAU, _OVERLAP, _UNDEFINED = "Kendall τ_b", "overlap of the top words", "share undefined"
_OTHERS = "mean τ_b with the other methods"


@configurable
class AgreementMatrix(Analysis):
    """Kendall's τ_b and the overlap of the highest words between every two methods, averaged over examples.

    `τ_b(a, b) = Σ s^a s^b / √(Σ (s^a)² Σ (s^b)²)` with s_ij the sign of the difference of the scores of words i and j, over
    the pairs of visible, rated words of an example. It is undefined where one of the two methods gives all words the same
    score, or where there are fewer than two words; such an example is counted (`share undefined`) and is in no mean.

    The overlap is `|top_k(a) ∩ top_k(b)| / k` with k = ⌈top · n⌉ of n words, tied words in an order that is drawn per
    example. Two orders drawn at random overlap in k/n on average.

    The references are part of the matrix. How far they agree with each other is the yardstick for every other figure: a
    method cannot be asked to agree with both more than they do.

    Four tables: the matrix, with methods in the order of an average-linkage clustering of 1 − τ_b, and its figure; a line
    per method with its agreement with each reference; and for each reference the τ_b of every example by predicted class.

    Attributes:
        gradient: a method, gradient importance.
        leave_one_out: a method, leave-one-out importance.
        target: class that is explained.
        pool: from the scores of a word's tokens to its own.
        top: share of an example's words that are its highest.
        limit: how many of the scored examples; None for all.
        seed: of the order of ties.

    Source: Jain & Wallace 2019, section 4.1; Neely et al. 2022 (arXiv 2205.04559) for every explainer.
    """

    gradient: Method
    leave_one_out: Method
    target: TargetName = "predicted"
    pool: Pool = "max"
    top: Annotated[Share, Above(0)] = 0.2
    limit: Count | None = None
    seed: Natural = 0
    version: ClassVar[int] = 2

    @property
    def references(self) -> Mapping[str, Method]:
        """By the name that tables show."""
        return {"gradient": self.gradient, "leave-one-out": self.leave_one_out}

    def __call__(self, context: Context) -> Sequence[Table]:
        """The tables; NotApplicable where no method of the comparison scores tokens."""
        examples = list(word_scores(context, self.references, self.target, self.pool, self.limit))
        names = list(examples[0].scores)
        if len(names) <= len(self.references):
            raise NotApplicable("no method of the comparison scores tokens")
        taus = np.stack([ranks.tau_b_matrix(_stacked(example)) for example in examples])
        overlaps = np.stack([self._overlaps(example) for example in examples])
        labels = context.setting.model.labels
        return [self._summary(names, taus), self._matrix(names, taus, overlaps), self._by_class(examples, taus, labels)]

    def _overlaps(self, example: WordScores) -> Values:
        """[M M] of one example."""
        scores = torch.from_numpy(_stacked(example))[:, None]
        eligible = torch.ones(scores.shape[1:], dtype=torch.bool)
        best = ranks.best_share(scores, eligible, self.top, [example.uid], self.seed)[:, 0].double().numpy()
        shared: Values = best @ best.T / best[0].sum() if best.size else np.full((len(best),) * 2, np.nan)
        return shared

    def _summary(self, names: Sequence[str], taus: Values) -> Table:
        rows: list[dict[str, Any]] = []
        sentences = []
        others = len(names) - len(self.references)
        for place, name in enumerate(names):
            for reference in self.references:
                if name != reference:
                    rows += correlation_lines({"method": name}, reference, taus[:, place, names.index(reference)])
            if place < others:
                gradient, of_method = (
                    taus[:, at, names.index("leave-one-out")] for at in (names.index("gradient"), place)
                )
                rows.append(_less_the_yardstick(name, of_method, gradient))
            besides = [other for other in range(others) if other != place]
            if place < others and besides:
                means = _row_means(taus[:, place, besides])
                rows.append(mean_line({"method": name}, _OTHERS, means, CORRELATION, "undefined in every example"))
        for first, second in combinations(self.references, 2):
            yardstick = defined_mean(taus[:, names.index(first), names.index(second)], CORRELATION)
            sentences.append(
                f"The yardstick: {first} and {second} themselves agree at τ_b = {number(yardstick.value)} "
                f"{bounds(yardstick.low, yardstick.high)} (n = {yardstick.n})."
            )
        drawn = tuple(f"τ_b with {reference}" for reference in self.references)
        return Table(
            name="agreement_with_references",
            title="Agreement of every method with gradient and leave-one-out importance",
            labels=("method",),
            rows=pd.DataFrame(rows),
            sentences=tuple(sentences),
            drawing=Drawing("bars", x="method", y=drawn, alike=(drawn,)),
        )

    def _matrix(self, names: Sequence[str], taus: Values, overlaps: Values) -> Table:
        size = range(len(names))
        pairs = {pair: _figures_of_pair(pair, taus, overlaps) for pair in combinations_with_replacement(size, 2)}
        agreement = np.array([[pairs[min(i, j), max(i, j)][0].value for j in size] for i in size])
        order = clustered(agreement)
        rows = [
            figure_line({"method": names[i], "and": names[j]}, metric, figure)
            for i in order
            for j in order
            for metric, figure in zip((_TAU, _OVERLAP, _UNDEFINED), pairs[min(i, j), max(i, j)], strict=True)
        ]
        return Table(
            name="agreement_matrix",
            title="Agreement between every two methods (Kendall's τ_b over the words of an example)",
            labels=("method", "and"),
            rows=pd.DataFrame(rows),
            drawing=Drawing("heat", x="and", y=("method",), value=_TAU),
            printed=False,
        )

    def _by_class(self, examples: Sequence[WordScores], taus: Values, classes: Sequence[str]) -> Table:
        names = list(examples[0].scores)
        rows: list[dict[str, Any]] = []
        for reference in self.references:
            column = names.index(reference)
            for place in (place for place, name in enumerate(names) if name not in self.references):
                for example, tau in zip(examples, taus[:, place, column], strict=True):
                    labels = {"method": names[place], "reference": reference, "class": classes[example.predicted]}
                    note = "" if np.isfinite(tau) else "undefined"
                    rows.append(line(labels | {"example": example.uid}, _TAU, float(tau), n=1, note=note))
        return Table(
            name="agreement_by_class",
            title="Agreement with gradient and leave-one-out importance by predicted class, a point per example",
            labels=("method", "reference", "class", "example"),
            rows=pd.DataFrame(rows),
            drawing=Drawing("violins", x="method", y=(_TAU,), series="class", panels=("reference",)),
            printed=False,
        )


def _less_the_yardstick(name: str, of_method: Values, of_gradient: Values) -> dict[str, Any]:
    """τ_b with leave-one-out of a method [N], less that of gradient [N], paired by example."""
    metric, key = "τ_b with leave-one-out less gradient's", f"{name}.less_gradient"
    less = of_method - of_gradient
    return mean_line({"method": name}, metric, less, (-2.0, 2.0), "undefined in every example", key=key)


def _figures_of_pair(pair: tuple[int, int], taus: Values, overlaps: Values) -> tuple[Interval, Interval, Interval]:
    of_pair = (slice(None), *pair)
    return (
        defined_mean(taus[of_pair], CORRELATION),
        defined_mean(overlaps[of_pair], SHARE),
        share_undefined(taus[of_pair]),
    )


def _stacked(example: WordScores) -> Values:
    return np.stack(list(example.scores.values()))


def _row_means(values: Values) -> Values:
    """Mean over the methods with which it is defined; NaN where there is none."""
    counts = np.isfinite(values).sum(axis=1)
    sums = np.nansum(values, axis=1)
    means: Values = np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)
    return means


def clustered(agreement: Values) -> list[int]:
    """Methods in an order that puts those together that agree: leaves of an average-linkage clustering of 1 − τ_b."""
    if len(agreement) < 3:
        return list(range(len(agreement)))
    distance = 1 - np.nan_to_num((agreement + agreement.T) / 2)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return [int(place) for place in leaves_list(tree)]
