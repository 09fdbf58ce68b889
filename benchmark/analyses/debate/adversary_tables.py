"""What adversarial attention found, as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from benchmark.analyses.debate.scopes import Scope
from benchmark.analyses.means import SHARE, mean_line
from benchmark.models.divergences import LARGEST_JSD
from benchmark.randomness import generator
from benchmark.results.store import Ragged
from benchmark.results.tables import Drawing, Table, frame, line
from benchmark.results.wording import number
from benchmark.types import Batch
from benchmark.units import pool

DIVERGENCE, CHANGE, BETWEEN, POSSIBLE = "JSD", "change", "between", "largest possible"
OWN, FOUND = "read tokens/own", "read tokens/found"
OWN_OUTPUT, FOUND_OUTPUT = "read tokens/own output", "read tokens/found output"

_ATTENTION = ("attention", "adversarial attention")
_ALL = "all"  # what stands for all classes
_LARGEST = "largest JSD"
_SHARE = "share of examples"
_EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_NOTHING = "no attention to edit"
_MOST_DIFFERENT = 6  # examples that stand before those in random order
_MOST_CLASSES = 3  # whose probabilities are told


@dataclass(frozen=True)
class Told:
    """What was found, and what it is called.

    Attributes:
        found: arrays of the examples.
        labels: of the classes.
        tolerance: ε.
        threshold: see `AdversarialAttention`.
        restarts: K.
    """

    found: Ragged
    labels: Sequence[str]
    tolerance: float
    threshold: float
    restarts: int

    def of(self, scope: str, name: str) -> NDArray[Any]:
        """An array of a scope."""
        return self.found.arrays[f"{scope}/{name}"]

    def largest(self, scope: str) -> NDArray[Any]:
        """The largest JSD of each example."""
        largest: NDArray[Any] = self.of(scope, DIVERGENCE).max(axis=1)
        return largest

    @property
    def predicted(self) -> list[str]:
        """The class that each example is predicted to be of."""
        return [self.labels[int(c)] for c in self.found.arrays["predicted"]]


def means(told: Told, scopes: Sequence[Scope], refused: Mapping[str, str]) -> Table:
    """By scope and predicted class: largest JSD, how often it is large, how many restarts find one and how they differ."""
    rows = []
    classes = {_ALL: np.ones(len(told.found.uids), dtype=bool)}
    classes |= {name: np.array(told.predicted) == name for name in told.labels}
    large = f"share with JSD > {told.threshold:g}"
    for scope in scopes:
        restarts = told.of(scope.name, DIVERGENCE)
        largest, defined = told.largest(scope.name), ~np.isnan(restarts[:, 0])
        metrics = {
            _LARGEST: (largest, (0.0, LARGEST_JSD), _NOTHING),
            large: (_where(defined, largest > told.threshold), SHARE, _NOTHING),
            "restarts that find one": (_where(defined, (restarts > told.threshold).mean(axis=1)), SHARE, _NOTHING),
            "JSD between restarts": (told.of(scope.name, BETWEEN), (0.0, LARGEST_JSD), "no example has two"),
            "largest possible JSD": (told.of(scope.name, POSSIBLE), (0.0, LARGEST_JSD), _NOTHING),
        }
        for called, chosen in classes.items():
            place = {"scope": scope.name, "predicted class": called}
            for name, (values, bounds, nothing) in metrics.items():
                key = f"{scope.key}.share_found" if (called, name) == (_ALL, large) else ""
                rows.append(mean_line(place, name, values[chosen], bounds, nothing, key=key))
    rows += [
        line({"scope": s, "predicted class": _ALL}, _LARGEST, note=f"left out: {why}") for s, why in refused.items()
    ]
    return Table(
        name="adversarial_attention",
        title=f"Adversarial attention: how different it can be while the output changes by at most {told.tolerance:g}",
        labels=("scope", "predicted class"),
        rows=pd.DataFrame(rows),
        sentences=(
            "JSD is the Jensen–Shannon divergence from the model's own attention, at most "
            f"ln 2 = {LARGEST_JSD:.3f} nats, as a mean over edited rows and heads; of {told.restarts} restarts the "
            "largest one whose output is within "
            f"{told.tolerance:g} in total variation, checked in a run of its own.",
            "That such attention exists does not say that the model's own is arbitrary: the restarts that find one differ "
            "from each other as much as JSD between restarts says.",
        ),
    )


def histogram(told: Told, scopes: Sequence[str]) -> Table:
    """Share of the examples in each bin of the largest JSD."""
    rows = []
    for scope in scopes:
        largest = told.largest(scope)
        place = np.clip(np.digitize(largest, _EDGES) - 1, 0, len(_EDGES) - 2)
        for i in range(len(_EDGES) - 1):
            labels = {"scope": scope, _LARGEST: f"{_EDGES[i]:g} to {_EDGES[i + 1]:g}"}
            rows.append(mean_line(labels, _SHARE, _where(~np.isnan(largest), place == i), SHARE, _NOTHING))
    return Table(
        name="adversarial_histogram",
        title=f"Histogram of the largest JSD of adversarial attention within {told.tolerance:g} of the output",
        labels=("scope", _LARGEST),
        rows=pd.DataFrame(rows),
        drawing=Drawing("bars", x=_LARGEST, y=(_SHARE,), panels=("scope",)) if any(r["n"] for r in rows) else None,
        printed=False,
    )


def examples(told: Told, scopes: Sequence[str]) -> Table:
    """Each example's figures."""
    labels = ("scope", "predicted class", "example")
    rows = []
    for scope in scopes:
        restarts, change = told.of(scope, DIVERGENCE), told.of(scope, CHANGE)
        best = np.nan_to_num(restarts).argmax(axis=1)
        for i, (uid, called) in enumerate(zip(told.found.uids, told.predicted, strict=True)):
            figures = {
                _LARGEST: restarts[i, best[i]],
                "change of the output": change[i, best[i]],
                "restarts that find one": (restarts[i] > told.threshold).mean(),
                "JSD between restarts": told.of(scope, BETWEEN)[i],
                "largest possible JSD": told.of(scope, POSSIBLE)[i],
            }
            place = dict(zip(labels, (scope, called, uid), strict=True))
            rows += [line(place, name, float(value), n=1) for name, value in figures.items() if not np.isnan(value)]
    title = "Adversarial attention of each example"
    return Table("adversarial_examples", title, labels, frame(rows, labels), printed=False)


def words(told: Told, scope: str, batches: Sequence[Batch]) -> Table:
    """The attention to each word, the model's own and the one found, where one was found, with the outputs of both.

    Args:
        told: what was found.
        scope: name of that of the row that the classifier reads.
        batches: the examples.
    """
    labels = ("example", "place", "word")
    place = {uid: i for i, uid in enumerate(told.found.uids)}
    lengths = {uid: int(n) for batch in batches for uid, n in zip(batch.uids, batch.attention_mask.sum(1), strict=True)}
    ends = np.cumsum([lengths[uid] for uid in told.found.uids])
    largest = told.largest(scope)
    of_example = {}
    for batch in batches:
        for b, uid in enumerate(batch.uids):
            if largest[place[uid]] > 0:
                part = slice(ends[place[uid]] - lengths[uid], ends[place[uid]])
                tokens = np.stack([told.found.arrays[name][part] for name in (OWN, FOUND)])
                outputs = _of_outputs(told, scope, place[uid], len(batch.words[b]) + 1)
                of_example[uid] = [*_of_words(batch, b, tokens), *outputs]
    order = _in_order({uid: float(largest[place[uid]]) for uid in of_example})
    rows = [row for uid in order for row in of_example[uid]]
    return Table(
        name="adversarial_words",
        title="Attention of the token that the classifier reads to each word: the model's own and an adversarial one",
        labels=labels,
        rows=frame(rows, labels),
        sentences=(
            "Mean over heads of the last layer, summed over the tokens of a word; each column of an example adds up "
            "to 1 with its special tokens.",
            f"The {_MOST_DIFFERENT} examples in which it differs most come first, then the others in an order drawn at "
            "random; examples for which none was found are left out.",
        ),
        drawing=Drawing("words", x="word", y=_ATTENTION, panels=("example",)) if rows else None,
        printed=False,
    )


def _of_words(batch: Batch, b: int, tokens: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Both attentions [2 T] to each word of an example, and at the end to its special tokens."""
    units = batch.units[b, : tokens.shape[1]].cpu()
    sums, visible = pool(torch.from_numpy(tokens), units.expand(2, -1), "sum")
    special = tokens[:, (units < 0).numpy()].sum(axis=1)
    rows = []
    for place in visible[0].nonzero()[:, 0].tolist():
        rows.append((place, batch.words[b][place], sums[:, place].tolist()))
    rows.append((len(batch.words[b]), "(special tokens)", special.tolist()))
    return [
        line({"example": batch.uids[b], "place": place, "word": word}, name, value, n=1)
        for place, word, both in rows
        for name, value in zip(_ATTENTION, both, strict=True)
    ]


def _of_outputs(told: Told, scope: str, i: int, place: int) -> list[dict[str, Any]]:
    """The probabilities of the most probable classes with both attentions, and how far the two are apart."""
    own, found = (told.found.arrays[name][i] for name in (OWN_OUTPUT, FOUND_OUTPUT))
    classes = np.argsort(-own, kind="stable")[:_MOST_CLASSES]
    notes = [", ".join(f"{told.labels[c]} {number(float(output[c]))}" for c in classes) for output in (own, found)]
    change, divergence = float(np.abs(own - found).sum() / 2), float(told.largest(scope)[i])
    notes[1] += f"; total variation {number(change)}, JSD {number(divergence)}"
    labels = {"example": told.found.uids[i], "place": place, "word": "output"}
    return [line(labels, name, note=note) for name, note in zip(_ATTENTION, notes, strict=True)]


def _in_order(largest: Mapping[str, float]) -> list[str]:
    """Those with the largest values first, then the others at random, in an order that an example's identifier decides."""
    falling = sorted(largest, key=lambda uid: -largest[uid])
    first, others = falling[:_MOST_DIFFERENT], falling[_MOST_DIFFERENT:]
    return [*first, *sorted(others, key=lambda uid: generator(0, "order of examples", uid).random())]


def _where(defined: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[np.float64]:
    return np.where(defined, values, np.nan)
