"""Does a test put explanations in the order of how much of them was lost? (docs/protocols.md, section 14)"""

from collections.abc import Mapping
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.trust.again import Again, on_tokens
from benchmark.evaluations.base import Column as Scores
from benchmark.randomness import generator
from benchmark.results.statistics import Interval, interval
from benchmark.targets import Target
from benchmark.types import Batch

RUNGS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of an example's units whose scores change places."""

_CORRELATION = (-1.0, 1.0)
_EQUAL = 1e-9


def degraded(scores: Scores, share: float, seed: int, uid: str) -> Scores:
    """The scores after those of a share of the units, drawn at random, are permuted among these units.

    The units of a smaller share are among those of a larger one, and of share 1 all scores are in a random order.
    """
    draw = generator(seed, "ladder", uid)
    chosen = draw.permutation(len(scores))[: round(share * len(scores))]
    lost = scores.copy()
    lost[chosen] = scores[draw.permutation(chosen)]
    return lost


def climbed(
    again: Again, batch: Batch, tokens: Float[Tensor, "B T"], seed: int
) -> Mapping[str, Float[NDArray[np.float64], "B R"]]:
    """By column the figures of each example on every rung."""
    units = list(again.units(batch, tokens))
    steps = []
    for share in RUNGS:
        lost = on_tokens(batch, [(places, degraded(own, share, seed, batch.uids[b])) for b, places, own in units])
        steps.append(again.figures(batch, partial(given, lost)))
    return {key: np.stack([step[key] for step in steps], axis=1) for key in steps[0]}


def given(tokens: Tensor, target: Target) -> Tensor:
    """The same scores whatever is explained."""
    return tokens


def order_of_rungs(figures: Float[NDArray[np.float64], "N R"]) -> Interval:
    """Mean over examples of −ρ, Spearman's correlation of the share that was lost and the test's figure.

    1 where every loss is seen; 0 in an example in which the test tells no rung from another.
    """
    known = figures[np.isfinite(figures).all(1)]
    return interval(np.array([_fall(own) for own in known]), bounds=_CORRELATION)


def _fall(figures: Float[NDArray[np.float64], " R"]) -> float:
    """−ρ, with mean ranks of figures that are equal."""
    equal = np.abs(figures[:, None] - figures[None]) <= _EQUAL
    above = (figures[:, None] > figures[None]) & ~equal
    ranks = above.sum(1) + (equal.sum(1) - 1) / 2
    centred, rungs = ranks - ranks.mean(), np.arange(len(figures)) - (len(figures) - 1) / 2
    scale = np.sqrt((centred**2).sum() * (rungs**2).sum())
    return float(-(centred * rungs).sum() / scale) if scale > 0 else 0.0
