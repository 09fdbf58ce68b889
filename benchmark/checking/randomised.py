"""Randomised: explanations of a model whose weights are drawn anew are others."""

import numpy as np

from benchmark.checking.report import Finding
from benchmark.checking.sign import rank_correlation
from benchmark.checking.subject import Subject
from benchmark.errors import NotApplicable
from benchmark.models.fresh_weights import freshly, stages_of

DRAWS = 12
MOST = 0.5
"""Mean rank correlation of a pass over the draws: texts this short have correlations by chance whose mean stays below."""


def randomised(subject: Subject) -> Finding:
    """Spearman's ρ of token scores with those on models whose weights are all drawn anew, mean over draws and inputs.

    A method that explains the input and not the model has 1 (Adebayo et al. 2018). Whether a real model's explanations pass,
    with an interval, is asked by the analysis `randomised`.
    """
    place = subject.place
    own = subject.own.tokens
    if own is None:
        raise NotApplicable("the method does not score tokens")
    stages = stages_of(place.model)
    found, constant = [], 0
    for draw in range(DRAWS):
        fresh = freshly(place.model, stages, draw)
        other = subject.explain(place.batch, place.target, fresh).tokens
        assert other is not None
        for row, units in enumerate(place.batch.units.cpu().numpy()):
            mine, theirs = (scores[row].detach().double().cpu().numpy()[units >= 0] for scores in (own, other))
            if np.ptp(mine) == 0 or np.ptp(theirs) == 0:
                constant += 1
            else:
                found.append(rank_correlation(mine, np.round(theirs, 12)))
    if not found:
        raise NotApplicable("all scores of each example are equal, on the model or on those of fresh weights")
    mean = float(np.mean(found))
    words = f"mean ρ = {mean:.2f} of {len(found)} explanations with those of the model on {DRAWS} draws of all weights"
    if constant:
        words += f" ({constant} were constant)"
    if mean <= MOST:
        return Finding(words, max(mean, 0.0), MOST)
    return Finding(f"{words}: the scores show the input, and hardly the model", mean, MOST)
