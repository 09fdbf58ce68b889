"""Explanations of an example and of the same example with its words moved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import kendalltau

from benchmark.analyses.reading.answers import Reading, mean_by_question, question_of
from benchmark.annotations import Moved, annotation
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.types import Batch, Method
from benchmark.units import pool

_Scores = Float[NDArray[np.float64], " W"]


@dataclass(frozen=True)
class MovedScores:
    """How scores of words before and after an attack agree, for each question, or of other tasks each example.

    Of a question the mean over its options that the attack changes; NaN where there are none, or τ_b is undefined.

    Attributes:
        words: Kendall's τ_b between the scores of the words that both examples have.
        staying: the same over the examples whose predicted class stays.
        places: τ_b between the scores of the same places; NaN as well where the examples differ in length.
    """

    words: Float[NDArray[np.float64], " Q"]
    staying: Float[NDArray[np.float64], " Q"]
    places: Float[NDArray[np.float64], " Q"]


def moved_scores(method: Method, clean: Reading, attacked: Reading, explained: int) -> MovedScores:
    """Agreement of the explanations of the class that is predicted for the clean example.

    Args:
        method: the explainer.
        clean, attacked: what one model says of the same examples in the same order; the attacked ones have a `Moved`.
        explained: how many questions, or examples, the first ones.

    Raises:
        NotApplicable: the method gives no token scores.
    """
    distinct = dict.fromkeys(map(question_of, clean.examples))
    chosen = set(list(distinct)[:explained])
    n_read = max(place for place, example in enumerate(clean.examples, 1) if question_of(example) in chosen)
    taus, start = [], 0
    for first, second in zip(clean.batches, attacked.batches, strict=True):
        if start >= n_read:
            break
        target = clean.predicted[start : start + len(first)]
        start += len(first)
        before, after = (_word_scores(method, clean.model, batch, target) for batch in (first, second))
        for one, other, meta in zip(before, after, second.meta, strict=True):
            origin = annotation(meta, Moved).origin
            unchanged = origin == tuple(range(len(one)))
            taus.append((np.nan, np.nan) if unchanged else (_of_words(one, other, origin), _of_places(one, other)))
    words, places = np.array(taus, dtype=np.float64)[:n_read].T
    stays = (clean.predicted == attacked.predicted).numpy()[:n_read]
    examples = clean.examples[:n_read]
    return MovedScores(
        mean_by_question(examples, words),
        mean_by_question(examples, np.where(stays, words, np.nan)),
        mean_by_question(examples, places),
    )


def _word_scores(method: Method, model: Classifier, batch: Batch, target: torch.Tensor) -> Iterator[_Scores]:
    """Scores of the words of each example, NaN beyond the window."""
    tokens = method(model, batch, target.to(batch.units.device)).tokens
    if tokens is None:
        raise NotApplicable("a method of the comparison gives no token scores")
    scores, visible = pool(tokens, batch.units)
    values = scores.detach().double().masked_fill(~visible, torch.nan).cpu().numpy()
    for row, n_units in zip(values, batch.n_units.tolist(), strict=True):
        yield np.pad(row, (0, max(0, n_units - len(row))), constant_values=np.nan)[:n_units]


def _of_words(clean: _Scores, attacked: _Scores, origin: Sequence[int]) -> float:
    after = [place for place, before in enumerate(origin) if before >= 0]
    return _tau(clean[[origin[place] for place in after]], attacked[after])


def _of_places(clean: _Scores, attacked: _Scores) -> float:
    return _tau(clean, attacked) if len(clean) == len(attacked) else float("nan")


def _tau(first: _Scores, second: _Scores) -> float:
    """τ_b where both are known; NaN for fewer than two, or where all of one are alike."""
    known = np.isfinite(first) & np.isfinite(second)
    return float(kendalltau(first[known], second[known]).statistic) if known.sum() > 1 else float("nan")
