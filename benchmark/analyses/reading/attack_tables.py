"""Tables of answers and explanations under attacks on the words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmark.analyses.means import CHANGE_OF_SHARE, CORRELATION, SHARE, mean_line
from benchmark.analyses.measured import figure_line
from benchmark.analyses.reading.answers import Asked, QuestionValues, Reading, lengths
from benchmark.analyses.reading.subject import Moves
from benchmark.annotations import Attack, Moved, annotation
from benchmark.results.statistics import clustered_difference
from benchmark.results.tables import Drawing, Table, frame, line
from benchmark.types import Example

NONE = "none"
CLEAN, ATTACKED = "clean examples", "attacked examples"
LEARNED: Mapping[str, str] = {CLEAN: "learned clean", ATTACKED: "learned attacked"}
ACCURACY, CHANGE, DEGREE, ALIKE = "accuracy", "change", "degree of shuffling", "a wrong option like the right one"
BY_ORDER: Mapping[str, bool] = {"where order decides": True, "where words decide": False}
WORDS, PLACES, STAYING = "τ_b of words", "τ_b of places", "τ_b of words where the prediction stays"
MORE = "more than of the clean model"
MORE_BY_WORDS = "more where words decide"
FINISHED = "the model is a finished checkpoint"
_UNDEFINED = "undefined in every example"
_DIFFERENCE = (-2.0, 2.0)  # of two correlations
_TOGETHER = "n counts questions, or examples where there are none; those about one passage are resampled together."


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


def accuracy_lines(place: Place, found: Reading, before: QuestionValues | None = None) -> Iterator[dict[str, Any]]:
    """Lines of one model on clean or attacked examples; `before`: how the comparison's model answers the clean ones."""
    asked, passages = found.asked, found.asked.passages
    yield mean_line(place.labels, ACCURACY, found.right, SHARE, "", passages)
    if before is not None:
        yield mean_line(place.labels, CHANGE, found.right - before, CHANGE_OF_SHARE, "", passages)
    for name, kind in BY_ORDER.items():
        those = np.array([known is kind for known in asked.by_order])
        if those.any():
            yield mean_line(place.labels, f"accuracy {name}", found.right[those], SHARE, "", passages[those])
    if place.reads == ATTACKED:
        degrees = [annotation(example.meta, Moved).degree for example in found.examples]
        known = asked.mean(np.array(degrees, dtype=np.float64))  # None is NaN
        if not np.isnan(known).all():
            yield mean_line(place.labels, DEGREE, known, SHARE, "", passages)
        if asked.has_options and (alike := asked.alike(found.examples)).any():
            yield mean_line(place.labels, ALIKE, alike, SHARE, "", passages)


def moved_lines(
    moved: Moves, asked: Asked, attack: str, learned: str, less: Moves | None = None
) -> Iterator[dict[str, Any]]:
    """Lines of the explainers of one model; `less`: what they are compared with."""
    passages = asked.passages
    for name, scores in moved.items():
        place = {"explainer": name, "attack": attack, "model": LEARNED[learned]}
        if isinstance(scores, str):
            yield line(place, WORDS, note=scores)
            continue
        yield mean_line(place, WORDS, scores.words, CORRELATION, _UNDEFINED, passages)
        yield mean_line(place, STAYING, scores.staying, CORRELATION, "undefined, or no prediction stays", passages)
        yield mean_line(place, PLACES, scores.places, CORRELATION, "lengths differ, or undefined", passages)
        yield from _by_order(place, scores.words, asked)
        if less is not None and not isinstance(base := less[name], str):
            yield mean_line(place, MORE, scores.words - base.words, _DIFFERENCE, _UNDEFINED, passages)


def _by_order(place: Mapping[str, str], taus: QuestionValues, asked: Asked) -> Iterator[dict[str, Any]]:
    """τ_b of words of the questions that order decides and of those that words do, and how much more the latter is."""
    kinds, known = np.array(asked.by_order), ~np.isnan(taus)
    parts = [known & (kinds == kind) for kind in BY_ORDER.values()]
    if not all(part.any() for part in parts):
        return
    for name, part in zip(BY_ORDER, parts, strict=True):
        yield mean_line(place, f"{WORDS} {name}", taus[part], CORRELATION, "", asked.passages[part])
    both = parts[0] | parts[1]
    more = clustered_difference(taus[both], parts[1][both], asked.passages[both], bounds=CORRELATION)
    yield figure_line(place, MORE_BY_WORDS, more)


def accuracies(rows: list[dict[str, Any]]) -> Table:
    """The lines of `accuracy_lines` as a table."""
    return Table(
        name="order_attacks",
        title="Accuracy under attacks on the words",
        labels=("attack", "model", "reads"),
        rows=pd.DataFrame(rows),
        sentences=(
            _TOGETHER,
            "Change: from the model that learned from clean examples and reads clean ones, of the same questions.",
        ),
        drawing=Drawing("bars", x="attack", y=(ACCURACY,), series="model", panels=("reads",)),
    )


def baselines(asked: Asked, learned: Sequence[Example] | None) -> Table:
    """What answers without reading; the largest class is that of `learned`, or of the examples where there are none."""
    if asked.has_options:
        n = len(asked.examples)
        chance = asked.right(np.zeros(n))
        exact = "no interval: exact for these questions"
        rows = [
            line({"baseline": "chance"}, ACCURACY, float(chance.mean()), n=len(chance), note=exact),
            mean_line(
                {"baseline": "longest option"},
                ACCURACY,
                asked.right(lengths(asked.examples)),
                SHARE,
                "",
                asked.passages,
            ),
        ]
        told = ["Of equally long options each is chosen as often, by chance all are."]
    else:
        labels = np.array([example.label for example in asked.examples])
        known = labels if learned is None else np.array([example.label for example in learned])
        largest = labels == np.bincount(known[known >= 0]).argmax()
        where = "of these examples" if learned is None else "of the training split"
        rows = [
            mean_line(
                {"baseline": f"largest class {where}"}, ACCURACY, largest.astype(float), SHARE, "", asked.passages
            )
        ]
        told = []
    return Table(
        name="order_baselines",
        title="Accuracy without reading",
        labels=("baseline",),
        rows=pd.DataFrame(rows),
        sentences=tuple(told),
    )


def explanations(rows: list[dict[str, Any]]) -> Table:
    """The lines of `moved_lines` as a table."""
    labels = ("explainer", "attack", "model")
    return Table(
        name="order_explanations",
        title="How explanations move with the words",
        labels=labels,
        rows=frame(rows, labels),
        sentences=(
            "τ_b between scores before and after, of the examples that an attack changes: of the words that it shuffles "
            "(where it shuffles none, of all that are left), and of the places where these stand, in examples of the same "
            "length.",
            _TOGETHER,
            "'More than of the clean model' is τ_b for this model minus τ_b for the model trained on clean examples, on the "
            "same questions. 'More where words decide' is τ_b on questions decided by words minus τ_b on questions decided "
            "by order, for the same model.",
        ),
        drawing=Drawing("bars", x="attack", y=(WORDS,), series="explainer", panels=("model",)) if rows else None,
    )


@dataclass(frozen=True)
class Pair:
    """Models of one seed: one learned from clean examples, the other from examples under an attack.

    Attributes:
        clean, attacked: what either says of the examples that are like those that it learned from.
        clean_moves, attacked_moves: how the explanations of either move under the attack.
    """

    attack: Attack
    seed: int
    clean: Reading
    attacked: Reading
    clean_moves: Moves
    attacked_moves: Moves


def pairs(found: Sequence[Pair], explained: Asked) -> list[Table]:
    """What the models of every pair answer, and how much more the explanations of the second go with the words."""
    rows, more = [], []
    for pair in found:
        place = {"attack": pair.attack, "seed": str(pair.seed)}
        for metric, reading in (("clean, reads clean", pair.clean), ("attacked, reads attacked", pair.attacked)):
            rows.append(
                mean_line(place, f"{ACCURACY}, learned {metric}", reading.right, SHARE, "", reading.asked.passages)
            )
        for name, scores in pair.attacked_moves.items():
            if not isinstance(scores, str) and not isinstance(base := pair.clean_moves[name], str):
                difference = scores.words - base.words
                where = {"explainer": name, **place}
                more.append(mean_line(where, MORE, difference, _DIFFERENCE, _UNDEFINED, explained.passages))
    of_models = Table(
        name="order_pairs",
        title="Pairs of models under attacks on the words",
        labels=("attack", "seed"),
        rows=pd.DataFrame(rows),
        sentences=("Seed: of the training of both models.", _TOGETHER),
    )
    labels = ("explainer", "attack", "seed")
    of_explainers = Table(
        name="order_pairs_explanations",
        title="How much more explanations go with the words where order says nothing, by pair of models",
        labels=labels,
        rows=frame(more, labels),
        sentences=("Intervals are over questions, of these models.", _TOGETHER),
        drawing=Drawing("bars", x="explainer", y=(MORE,), series="seed", panels=("attack",)) if more else None,
    )
    return [of_models, of_explainers]
