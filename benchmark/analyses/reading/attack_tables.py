"""Tables of answers and explanations under attacks on the words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.means import CORRELATION, SHARE, mean_line
from benchmark.analyses.reading.answers import Reading, chosen_right, lengths, mean_by_question
from benchmark.analyses.reading.moved_scores import MovedScores
from benchmark.annotations import Moved, Option, annotation
from benchmark.results.tables import Drawing, Table, line

NONE = "none"
CLEAN, ATTACKED = "clean examples", "attacked examples"
LEARNED: Mapping[str, str] = {CLEAN: "learned clean", ATTACKED: "learned attacked"}
ACCURACY, CHANGE, DEGREE = "accuracy", "change", "degree of shuffling"
NEEDS_ORDER, NEEDS_WORDS = "accuracy where order decides", "accuracy where words decide"
WORDS, PLACES, STAYING = "τ_b of words", "τ_b of places", "τ_b of words where the prediction stays"
MORE = "more than of the clean model"
FINISHED = "the model is a finished checkpoint"
_UNDEFINED = "undefined in every example"

Moves = Mapping[str, MovedScores | str]
"""By explainer how its scores move, or why it has none."""


@dataclass(frozen=True)
class Place:
    """Where a figure stands: the attack, what the model learned from, and which examples it reads."""

    attack: str
    learned: str
    reads: str

    @property
    def labels(self) -> dict[str, str]:
        """By the table's columns."""
        return {"attack": self.attack, "model": LEARNED[self.learned], "reads": self.reads}


def accuracy_lines(place: Place, found: Reading, before: NDArray[np.float64] | None = None) -> Iterator[dict[str, Any]]:
    """Lines of one model on clean or attacked examples; `before`: how the comparison's model answers the clean ones."""
    yield mean_line(place.labels, ACCURACY, found.right, SHARE, "no question has right and wrong options")
    if before is not None:
        yield mean_line(place.labels, CHANGE, found.right - before, CORRELATION, "no question")
    told = [annotation(found.examples[places[0]].meta, Option).needs_order for places in found.questions.values()]
    for metric, kind in ((NEEDS_ORDER, True), (NEEDS_WORDS, False)):
        if kind in told:
            yield mean_line(place.labels, metric, found.right[[known is kind for known in told]], SHARE, "")
    if place.reads == ATTACKED:
        degrees = [annotation(example.meta, Moved).degree for example in found.examples]
        known = mean_by_question(found.examples, np.array(degrees, dtype=np.float64))  # None is NaN
        if not np.isnan(known).all():
            yield mean_line(place.labels, DEGREE, known, SHARE, "")


def moved_lines(moved: Moves, attack: str, learned: str, less: Moves | None = None) -> Iterator[dict[str, Any]]:
    """Lines of the explainers of one model; `less`: what they are compared with."""
    for name, scores in moved.items():
        place = {"explainer": name, "attack": attack, "model": LEARNED[learned]}
        if isinstance(scores, str):
            yield line(place, WORDS, note=scores)
            continue
        yield mean_line(place, WORDS, scores.words, CORRELATION, _UNDEFINED)
        yield mean_line(place, STAYING, scores.staying, CORRELATION, "undefined, or no prediction stays")
        yield mean_line(place, PLACES, scores.places, CORRELATION, "lengths differ, or undefined")
        if less is not None and not isinstance(base := less[name], str):
            yield mean_line(place, MORE, scores.words - base.words, (-2.0, 2.0), _UNDEFINED)


def accuracies(rows: list[dict[str, Any]]) -> Table:
    """The lines of `accuracy_lines` as a table."""
    return Table(
        name="order_attacks",
        title="Accuracy under attacks on the words",
        labels=("attack", "model", "reads"),
        rows=pd.DataFrame(rows),
        sentences=(
            "n counts questions, or examples where there are none.",
            "Change: from the model that learned from clean examples and reads clean ones, of the same questions.",
        ),
        drawing=Drawing("bars", x="attack", y=(ACCURACY,), series="model", panels=("reads",)),
    )


def baselines(found: Reading) -> Table:
    """What answers without reading, of the examples that the model read."""
    labels = np.array([example.label for example in found.examples])
    if found.questions:
        chance = chosen_right(found.examples, found.questions, np.zeros(len(labels)))
        longest = chosen_right(found.examples, found.questions, lengths(found.examples))
        exact = "no interval: exact for these questions"
        rows = [
            line({"baseline": "chance"}, ACCURACY, float(chance.mean()), n=len(chance), note=exact),
            mean_line({"baseline": "longest option"}, ACCURACY, longest, SHARE, ""),
        ]
    else:
        largest = labels == np.bincount(labels[labels >= 0]).argmax()
        rows = [mean_line({"baseline": "largest class"}, ACCURACY, largest, SHARE, "")]
    return Table(
        name="order_baselines",
        title="Accuracy without reading",
        labels=("baseline",),
        rows=pd.DataFrame(rows),
        sentences=("Of equally long options each is chosen as often, by chance all are.",),
    )


def explanations(rows: list[dict[str, Any]]) -> Table:
    """The lines of `moved_lines` as a table."""
    labels = ("explainer", "attack", "model")
    return Table(
        name="order_explanations",
        title="How explanations move with the words",
        labels=labels,
        rows=pd.DataFrame(rows, columns=[*labels, "metric", "value", "low", "high", "n", "note"]),
        sentences=(
            "τ_b between scores before and after, of the examples that an attack changes: of the words that both have, and "
            "of the same places in examples of the same length. n counts questions, or examples where there are none.",
            "More than of the clean model: τ_b of words, less that of the model that learned from clean examples, of the "
            "same questions.",
        ),
        drawing=Drawing("bars", x="attack", y=(WORDS,), series="explainer", panels=("model",)) if rows else None,
    )
