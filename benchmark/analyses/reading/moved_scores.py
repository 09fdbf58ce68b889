"""Explanations of an example and of the same example with its words moved."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from benchmark.analyses.reading.answers import QuestionValues, Reading
from benchmark.annotations import Moved, annotation
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.types import Batch, Method
from benchmark.units import pool

WordScores = Float[NDArray[np.float64], " W"]


@dataclass(frozen=True)
class MovedScores:
    """How scores of words before and after an attack agree, for each question.

    Of a question the mean over its options that the attack changes; NaN where there are none, or τ_b is undefined.

    Attributes:
        words: Kendall's τ_b between the scores of the words that the attack shuffles; where it shuffles none of the clean
            example's, of all that are left of it.
        staying: the same over the examples whose predicted class stays.
        places: τ_b between the scores of the places that hold shuffled words after the attack and the scores of the same
            places before; NaN as well where the examples differ in length.
    """

    words: QuestionValues
    staying: QuestionValues
    places: QuestionValues


def word_scores(method: Method, model: Classifier, batch: Batch, target: Int[torch.Tensor, "B"]) -> list[WordScores]:
    """Scores of the words of each example for its class `target`, NaN beyond the window.

    Raises:
        NotApplicable: the method gives no token scores.
    """
    tokens = method(model, batch, target.to(batch.units.device)).tokens
    if tokens is None:
        raise NotApplicable("it gives no token scores")
    scores, visible = pool(tokens, batch.units)
    values = scores.detach().double().masked_fill(~visible, torch.nan).cpu().numpy()
    return [
        np.pad(row, (0, max(0, n_units - len(row))), constant_values=np.nan)[:n_units]
        for row, n_units in zip(values, batch.n_units.tolist(), strict=True)
    ]


def moved_scores(
    clean: Reading, attacked: Reading, before: Sequence[WordScores], after: Sequence[WordScores]
) -> MovedScores:
    """Agreement of the explanations of one class before and after.

    Args:
        clean, attacked: what one model says of the same examples in the same order; the attacked ones have a `Moved`.
        before, after: scores of their words.
    """
    asked, taus = clean.asked, []
    for one, other, example in zip(before, after, attacked.examples, strict=True):
        moved = annotation(example.meta, Moved)
        unchanged = moved.origin == tuple(range(len(one)))
        taus.append((np.nan, np.nan) if unchanged else (_of_words(one, other, moved), _of_places(one, other, moved)))
    words, places = np.array(taus, dtype=np.float64).T
    stays = (clean.predicted == attacked.predicted).numpy()
    return MovedScores(asked.mean(words), asked.mean(np.where(stays, words, np.nan)), asked.mean(places))


def _compared(moved: Moved) -> list[int]:
    """Places after the attack of the shuffled words of the clean example, or where there are none of all of its words."""
    kept = [place for place, before in enumerate(moved.origin) if before >= 0]
    return [place for place in kept if moved.shuffled[place]] or kept


def _of_words(clean: WordScores, attacked: WordScores, moved: Moved) -> float:
    after = _compared(moved)
    return _tau(clean[[moved.origin[place] for place in after]], attacked[after])


def _of_places(clean: WordScores, attacked: WordScores, moved: Moved) -> float:
    at = _compared(moved)
    return _tau(clean[at], attacked[at]) if len(clean) == len(attacked) else float("nan")


def _tau(first: WordScores, second: WordScores) -> float:
    """τ_b where both are known; NaN for fewer than two, or where all of one are alike."""
    known = np.isfinite(first) & np.isfinite(second)
    return float(scipy.stats.kendalltau(first[known], second[known]).statistic) if known.sum() > 1 else float("nan")
