"""The tables of the guide test: how well guided classifiers classify, and what their guides add."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import NDArray

from benchmark.analyses.debate.guides import DRAWN, MODEL, NO_CLASS, PREDICTED, UNIFORM, Guide
from benchmark.analyses.debate.macro_f1 import mean_macro_f1
from benchmark.analyses.differences import Difference, difference_lines
from benchmark.analyses.means import SHARE
from benchmark.analyses.measured import figure_line
from benchmark.results.record import MOST_CONSTANT, too_constant
from benchmark.results.statistics import ALPHA, deviation_over_seeds, interval, least_examples, of_orders, widened
from benchmark.results.tables import Drawing, Table, is_p_value, line

Classes = Int[NDArray[np.int64], "M *S"]

_CHANGE = (-1.0, 1.0)
_BEYOND_UNIFORM, _BEYOND_ORDER = "more than uniform weights", "more than its weights in another order"
_BEYOND_DRAWN = "more than for a drawn class"
_KEYS = {_BEYOND_UNIFORM: "beyond_uniform", _BEYOND_ORDER: "beyond_order", _BEYOND_DRAWN: "beyond_drawn"}


@dataclass(frozen=True)
class Results:
    """Classes of M examples, by classifiers of S seeds.

    Attributes:
        label: annotated [M].
        n_classes: how many there are.
        own: under each guide [M S].
        moved: under its weights in another order within the example.
        model: of the comparison's model [M].
        without: for each guide, the training and the scored examples without a positive score.
    """

    label: Classes
    n_classes: int
    own: Mapping[Guide, Classes]
    moved: Mapping[Guide, Classes]
    model: Classes
    without: Mapping[Guide, tuple[NDArray[np.bool_], NDArray[np.bool_]]]

    def right(self, classes: Classes) -> Float[NDArray[np.float64], "M S"]:
        """1 where the class is the label."""
        right: NDArray[np.float64] = (classes == self.label[:, None]).astype(float)
        return right


def quality_table(results: Results, refused: Mapping[Guide, str], left_out: Sequence[str] = ()) -> Table:
    """A line per guide: accuracy and macro-F1 with its weights and with them in another order, and their spread."""
    rows = _quality(Guide(MODEL, NO_CLASS), "", results, results.model[:, None])
    for guide, classes in results.own.items():
        rows += _quality(guide, "", results, classes)
        if guide in results.moved:
            rows += _quality(guide, ", weights in another order", results, results.moved[guide])
        rows.append(_spread(guide, results.right(classes).mean(0)))
        for which, none in zip(("training", "scored"), results.without.get(guide, ()), strict=False):
            rows.append(figure_line(guide.labels, f"without a positive score, {which}", interval(none, bounds=SHARE)))
    rows += [line(guide.labels, "accuracy", note=reason) for guide, reason in refused.items()]
    return Table(
        name="guide",
        title="Classifiers without context, guided by explanations",
        labels=("guide", "explained class"),
        rows=pd.DataFrame(rows),
        sentences=(
            "Means over seeds; intervals hold the error of the examples and of the seeds.",
            "Where no score is positive, weights are uniform; if that is so in some examples, it can itself tell the class"
            f" ({_in_some(results)}).",
            "The oracle knows the label; scores for the predicted class carry the prediction.",
            *(
                [f"Left out, to save the price of their training attributions: {', '.join(left_out)}."]
                if left_out
                else []
            ),
        ),
        drawing=Drawing("bars", x="guide", y=("accuracy",), series="explained class"),
    )


def _in_some(results: Results) -> str:
    """Guides without a positive score in some training examples, but not in all."""
    return ", ".join(str(guide) for guide, (train, _) in results.without.items() if 0 < train.mean() < 1) or "none here"


def _too_uniform(results: Results) -> dict[str, str]:
    """Guides that are not judged, by name, with a share: whether weights are uniform would tell the class for them."""
    shares = {str(guide): max(float(none.mean()) for none in both) for guide, both in results.without.items()}
    return {guide: f"{guide} ({share * 100:.0f} %)" for guide, share in shares.items() if too_constant(share)}


def _quality(guide: Guide, beside: str, results: Results, classes: Classes) -> list[dict[str, Any]]:
    right = results.right(classes)
    f1, per_seed = mean_macro_f1(results.label, classes)
    return [
        figure_line(guide.labels, f"{name}{beside}", widened(alone, of_orders(by_seed), SHARE), bounds=SHARE)
        for name, alone, by_seed in (
            ("accuracy", interval(right.mean(1), bounds=SHARE), right),
            ("macro-F1", f1, per_seed[None]),
        )
    ]


def _spread(guide: Guide, accuracy: Float[NDArray[np.float64], "S"]) -> dict[str, Any]:
    """The standard deviation of accuracy over seeds, with its interval for normal ones."""
    found = deviation_over_seeds(accuracy)
    note = "needs two seeds" if found.n < 2 else ""
    return line(
        guide.labels, "standard deviation of accuracy over seeds", found.value, found.low, found.high, found.n, note
    )


def difference_table(results: Results) -> Table:
    """What guides add to accuracy, paired by example and seed; Holm's family is all questions."""
    questions = _questions(results)
    rows, _ = difference_lines(questions)
    return Table(
        name="guide_differences",
        title="What explanations add to a classifier without context",
        labels=("guide", "explained class", "question"),
        rows=pd.DataFrame(rows),
        sentences=tuple(_sentences(rows, len(results.label), len(questions), _too_uniform(results))),
    )


def _questions(results: Results) -> list[Difference]:
    right = {guide: results.right(classes) for guide, classes in results.own.items()}
    questions = []

    def ask(guide: Guide, question: str, other: Float[NDArray[np.float64], "M S"]) -> None:
        more = right[guide] - other
        labels = {**guide.labels, "question": question}
        key = f"{guide.key}.{_KEYS[question]}"
        questions.append(Difference(labels, more.mean(1), of_orders(more), reach=_CHANGE, key=key))

    for guide in right:
        if guide.name != UNIFORM:
            ask(guide, _BEYOND_UNIFORM, right[Guide(UNIFORM, NO_CLASS)])
        if guide in results.moved:
            ask(guide, _BEYOND_ORDER, results.right(results.moved[guide]))
        if guide.explained == PREDICTED and (drawn := guide._replace(explained=DRAWN)) in right:
            ask(guide, _BEYOND_DRAWN, right[drawn])
    return questions


_FINDINGS = {
    _BEYOND_UNIFORM: (
        "Tell a classifier without context more than uniform weights do",
        "Tell it less than uniform weights",
        "Cannot be told from uniform weights",
    ),
    _BEYOND_ORDER: (
        "Better than the same weights in another order within the example",
        "Worse than in another order",
        "Cannot be told from another order",
    ),
    _BEYOND_DRAWN: (
        "Better for the predicted than for a drawn class, and of this gain any part may be the prediction that they carry",
        "Worse for the predicted than for a drawn class",
        "Cannot be told from the same for a drawn class",
    ),
}


def _sentences(rows: Sequence[Mapping[str, Any]], n: int, family: int, unjudged: Mapping[str, str]) -> list[str]:
    least = least_examples(family)
    if n < least:
        return [f"No verdict: n = {n}, and {family} questions need at least {least} examples."]
    found: dict[str, dict[str, float]] = {question: {} for question in _FINDINGS}
    sure: set[tuple[str, str]] = set()
    for row in rows:
        name = str(Guide(row["guide"], row["explained class"]))
        if name in unjudged:
            continue
        if is_p_value(row):
            sure |= {(row["question"], name)} if row["value"] < ALPHA else set()
        else:
            found[row["question"]][name] = row["value"]
    sentences = []
    for question, (above, below, unsure) in _FINDINGS.items():
        told = {name: value for name, value in found[question].items() if (question, name) in sure}
        groups = {
            above: [name for name, value in told.items() if value > 0],
            below: [name for name, value in told.items() if value < 0],
            unsure: [name for name in found[question] if name not in told],
        }
        sentences += [f"{group}: {', '.join(names)}." for group, names in groups.items() if names]
    if unjudged:
        sentences.append(
            f"Not judged, since more than {MOST_CONSTANT * 100:g} % of the training or of the scored examples have no "
            f"positive score: {', '.join(unjudged.values())}."
        )
    return sentences
