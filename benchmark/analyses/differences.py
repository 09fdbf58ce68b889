"""Paired differences as lines of a table: intervals, p-values with Holm's correction over the table, and sentences."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.measured import figure_line
from benchmark.results.rows import StoredRows
from benchmark.results.statistics import (
    ALPHA,
    TOO_SKEWED,
    UNBOUNDED,
    Interval,
    Source,
    drawn_p,
    holm,
    interval,
    least_examples,
    sign_flip_p,
    too_skewed,
    widened,
)
from benchmark.results.tables import P_KEY, line

Values = NDArray[np.float64]

P_VALUE = "p (Holm)"


@dataclass(frozen=True)
class Difference:
    """A question that a paired difference answers.

    Attributes:
        labels: of its line; the last one is the question.
        values: [n], one per example.
        beside: sources of error beside the examples (`benchmark.results.statistics.two_sources`).
        reach: least and largest possible value, None where it has none.
        note: shown behind the figure.
        key: by which code finds the figure (`tables.line`).
    """

    labels: Mapping[str, Any]
    values: Values
    beside: Sequence[Source] = ()
    reach: tuple[float, float] | None = None
    note: str = ""
    key: str = ""

    @property
    def figure(self) -> Interval:
        """The mean and its interval."""
        return widened(interval(self.values, bounds=self.reach), self.beside, self.reach or UNBOUNDED)

    @property
    def p(self) -> float:
        """Two-sided, before any correction."""
        return drawn_p(self.values, self.beside, float(sign_flip_p(self.values[:, None])[0]))

    def too_skewed(self, family: int) -> bool:
        """Whether sign flips decide nothing of such values, one of so many questions."""
        return bool(too_skewed(self.values[:, None], family, reach=self.reach or UNBOUNDED)[0])


def halves(n: int, seed: int = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of n examples in two halves, drawn by the seed: one to choose on, the other to measure on."""
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


def of_best(values: Values, seed: int = 0) -> tuple[Values, int]:
    """Column k of values [n, K] on half of the examples, and k: the column of the largest mean on the other half.

    The largest of many means is too large on the examples that it was chosen on (the winner's curse); on others it is not.
    Choosing on four fifths and measuring on the rest, in turn, is not enough. Where nothing differs it errs at 16 % in place
    of a nominal 5 %, since the parts share what they chose on (`tests/analyses/test_differences.py`).
    """
    chosen, measured = halves(len(values), seed)
    best = int(values[chosen].mean(axis=0).argmax()) if len(chosen) else 0
    return values[measured, best], best


def of_extremes(values: Values, seed: int = 0) -> tuple[Values, int, int]:
    """Column k less column l on half of the examples; k and l have the largest and the smallest mean on the other half."""
    chosen, measured = halves(len(values), seed)
    means = values[chosen].mean(axis=0) if len(chosen) else np.zeros(values.shape[1])
    best, worst = int(means.argmax()), int(means.argmin())
    return values[measured, best] - values[measured, worst], best, worst


def columns(values: StoredRows, evaluation: str, metric: str) -> pd.DataFrame:
    """Examples (by uid) × x of one metric of one test, means over draws; a scalar is one column. Whole examples only."""
    rows = values.read(evaluation, metric)
    table = rows.assign(x=rows["x"].fillna(0.0)).pivot_table(index="uid", columns="x", values="value", aggfunc="mean")
    return table.sort_index().dropna()


def difference_lines(questions: Sequence[Difference]) -> tuple[list[dict[str, Any]], list[str]]:
    """Lines `difference` and `p (Holm)` of each question, and a sentence each; Holm's family is all questions.

    A significant difference that is too skewed to tell has words in place of its p-value: no verdict can be read there.
    """
    answerable = [question for question in questions if len(question.values) and np.isfinite(question.values).all()]
    adjusted = holm({place: question.p for place, question in enumerate(answerable)})
    skewed = {place for place, p in adjusted.items() if p < ALPHA and answerable[place].too_skewed(len(answerable))}
    rows = []
    for place, question in enumerate(answerable):
        figure = question.figure
        rows.append(figure_line(question.labels, "difference", figure, question.note, key=question.key))
        told = {"note": TOO_SKEWED} if place in skewed else {"value": adjusted[place]}
        rows.append(line(question.labels, P_VALUE, n=figure.n, key=P_KEY, **told))
    return rows, list(_sentences(answerable, adjusted, skewed))


def _sentences(
    questions: Sequence[Difference], adjusted: Mapping[int, float], skewed: Collection[int]
) -> Iterator[str]:
    for place, question in enumerate(questions):
        least = least_examples(len(questions))
        if len(question.values) < least:
            n = len(question.values)
            verdict = f"no verdict: n = {n}, and {len(questions)} questions need at least {least} examples"
        elif place in skewed:
            verdict = TOO_SKEWED
        elif not adjusted[place] < ALPHA:
            verdict = "not distinguishable from none"
        else:
            verdict = "yes" if question.values.mean() > 0 else "the other way round"
        yield f"{': '.join(map(str, question.labels.values()))}: {verdict}."
