"""Sign: what speaks for the class scores above what speaks against it."""

import numpy as np
import scipy
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.checking.programs import TEXTS, family_like, place_of, vocabulary, word_scores
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.models.written.program import Head, Layer, Program

WEIGHTS = {"red": -3.0, "ink": -2.0, "oak": -1.0, "sun": 1.5, "ice": 2.5, "map": 3.5}
"""What each word says for yes."""

LEAST = 0.99
"""Rank correlation of a pass."""

_ROUNDING = 1e-6
"""Share of the largest score: two scores that differ by less are equal."""

PROGRAM = Program(
    words=vocabulary({word: {"says": weight} for word, weight in WEIGHTS.items()}),
    layers=(Layer((Head(moves=(("says", "answer", 1.0),), rests=False), Head())),),
    answer={"answer": 1.0},
)
"""One head looks at all words alike, and moves what each says to the answer."""


def sign(subject: Subject) -> Finding:
    """A bag of words, whose answer is the mean of what the words say, is explained in the order of what they say.

    `F = Σ_u w_u / T`, with w_u known. Spearman's ρ of the scores for each class with w, or −w; of scores without a sign
    with |w|, or with the positive part of w. A correlation of −1 is a sign that is turned round.
    """
    subject.need_class()
    family = family_like(subject.model)
    inner = subject.at(place_of(PROGRAM, family, TEXTS, "a bag of words"))
    batch = inner.place.batch
    known = np.array([[WEIGHTS[word] for word in text] for text in TEXTS])
    found = {}
    for answer, said in ((1, known), (0, -known)):
        scores = word_scores(batch, inner.explain(batch, inner.place.of_class(answer)))
        alike = not np.ptp(np.round(scores, 12), axis=1).any()  # it has nothing to say of this class
        found[alike, answer] = _of_class(scores, said, inner.model.labels[answer])
    telling = [one for (alike, _), one in found.items() if not alike] or list(found.values())
    return next((one for one in telling if not one.passes), telling[0])


def _of_class(scores: Float[NDArray, "B U"], known: Float[NDArray, "B U"], label: str) -> Finding:
    """Scores for a class beside what the words say for it."""
    found = {
        "what the words say": _mean(scores, known),
        "how much they say": _mean(scores, np.abs(known)),
        "what speaks for the class": _mean(scores, known.clip(min=0)),
    }
    name = max(found, key=lambda each: found[each])
    if found[name] >= LEAST:
        return Finding(f"ρ = {found[name]:.3f} with {name}, for each class", 1 - found[name], 1 - LEAST)
    where = f"class {label}"
    if min(found["what the words say"], -_mean(scores, (-known).clip(min=0))) <= -LEAST:
        turned = "what speaks against the class scores as what speaks for it should: the sign is turned"
        return Finding(f"ρ = −1 with what the words say: {turned}", 2.0, 1 - LEAST, where)
    told = ", ".join(f"{value:.2f} with {each}" for each, value in found.items())
    words = f"the order of the scores is not that of the words: ρ = {told}"
    if not np.ptp(np.round(scores, 12), axis=1).any():
        words += " (all words score alike)"
    return Finding(words, 1 - found[name], 1 - LEAST, where)


def _mean(scores: Float[NDArray, "B U"], known: Float[NDArray, "B U"]) -> float:
    return float(np.mean([rank_correlation(*pair) for pair in zip(scores, known, strict=True)]))


def rank_correlation(scores: Float[NDArray, "U"], known: Float[NDArray, "U"]) -> float:
    """Spearman's ρ of scores that are equal where they differ by rounding; 0 where nothing is ordered."""
    rounded = np.round(scores / max(float(np.abs(scores).max()), 1e-12) / _ROUNDING)
    if np.ptp(rounded) == 0 or np.ptp(known) == 0:
        return 0.0
    return float(scipy.stats.spearmanr(rounded, known).statistic)
