"""Units that share their score: how much of a ranking its scores leave open (docs/protocols.md, section 1)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.evaluations.base import rated_units
from benchmark.types import Attribution, Batch, Evaluation
from benchmark.units import Pool, pool


class Ties(NamedTuple):
    """Of each explanation, which of its rated units its scores do not tell apart.

    Attributes:
        constant: 1 where all rated units have one and the same score, and there are at least two; else 0.
        half: 1 where at least half of the rated units have one and the same score, and these are at least two; else 0.
        tied: share of the rated units that share their score with another one; 0 where none is rated.
    """

    constant: Float[Tensor, "N"]
    half: Float[Tensor, "N"]
    tied: Float[Tensor, "N"]


def ties(scores: Float[Tensor, "*n U"], rated: Bool[Tensor, "*n U"]) -> Ties:
    """The ties of each row of scores, among those that are rated."""
    ordered = torch.where(rated, scores.double(), torch.nan).sort(dim=-1).values  # NaN is last, and equal to nothing
    equal = ordered[..., 1:] == ordered[..., :-1]
    shared = torch.nn.functional.pad(equal, (1, 0)) | torch.nn.functional.pad(equal, (0, 1))
    n = rated.sum(-1)
    constant = (n > 1) & (equal.sum(-1) == n - 1)
    places = torch.arange(ordered.shape[-1], device=ordered.device).expand(ordered.shape)
    first = places.masked_fill(torch.nn.functional.pad(equal, (1, 0)), 0).cummax(-1).values  # of the units of one score
    most = (places - first + 1).amax(-1) if ordered.shape[-1] else n
    half = (most > 1) & (2 * most >= n)
    tied = shared.sum(-1).double() / n.clamp(min=1)
    return Ties(constant.double().flatten(), half.double().flatten(), tied.flatten())


def ties_of(batch: Batch, attribution: Attribution, evaluation: Evaluation) -> Ties:
    """Those of the scores that a test of tokens or classes ranks, after what it does to them.

    Scores of tokens are pooled to units (`pool` of the test, the maximum where it has none), and negative ones set to 0
    where the test does so (`clamp`). A method that scores pixels alone is taken by its pixels. There is one explanation
    of each example, or of each of its classes where the test reads classes.
    """
    given = attribution.classes if evaluation.reads == "classes" else attribution.tokens
    if given is None:
        pixels = attribution.pixels
        assert pixels is not None, "a test without scores is a dash"
        flat = pixels.flatten(1)
        return ties(flat, torch.ones_like(flat, dtype=torch.bool))
    how: Pool = getattr(evaluation, "pool", "max")
    least = 0.0 if getattr(evaluation, "clamp", False) else -torch.inf
    maps = given.unbind(1) if given.ndim == 3 else (given,)
    pooled = [pool(scores.to(batch.units.device), batch.units, how) for scores in maps]
    of_maps = [ties(scores.clamp(min=least), rated_units(batch, visible)) for scores, visible in pooled]
    return Ties(*(torch.cat(part) for part in zip(*of_maps, strict=True)))
