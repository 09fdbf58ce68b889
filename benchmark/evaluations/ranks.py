"""Rankings of units: seeded ties, selections of the best, and rank correlation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.curves import counts
from benchmark.randomness import generator

UNORDERED = "a score is NaN, which orders nothing"


def tie_keys(uids: Sequence[str], n: int, seed: int) -> Float[Tensor, "B N"]:
    """Random keys that order tied units: the first n numbers of each example's own generator.

    A longer row begins with the shorter one, so padding to another number of columns changes nothing.
    """
    keys = np.stack([generator(seed, "ties", uid).random(n) for uid in uids]) if len(uids) else np.zeros((0, n))
    return torch.from_numpy(keys)


def descending_ranks(
    scores: Float[Tensor, "B N"], eligible: Bool[Tensor, "B N"], keys: Float[Tensor, "B N"]
) -> Int[Tensor, "B N"]:
    """Rank of each unit among the eligible ones of its example: 0 for the highest score, N for what is not eligible.

    Args:
        scores: one score per unit.
        eligible: which units are ranked.
        keys: order of tied units (`tie_keys`), ascending.

    Raises:
        NotApplicable: an eligible score is NaN, which is no place in an order.
    """
    if bool((scores.isnan() & eligible).any()):
        raise NotApplicable(UNORDERED)
    n = scores.shape[1]
    by_key = keys.argsort(dim=1).to(scores.device)
    eligible_scores = torch.where(eligible, scores, scores.new_tensor(-torch.inf)).gather(1, by_key)
    # a score of -inf must still come before what is not eligible: two stable sorts, the last one decides
    order = by_key.gather(1, eligible_scores.argsort(dim=1, descending=True, stable=True))
    not_ranked = (~eligible).gather(1, order).to(torch.uint8)
    order = order.gather(1, not_ranked.argsort(dim=1, stable=True))
    ranks = torch.empty_like(order).scatter_(1, order, torch.arange(n, device=order.device).expand_as(order))
    return torch.where(eligible, ranks, n)


def best(ranks: Int[Tensor, "B N"], count: Int[Tensor, "K B"]) -> Bool[Tensor, "K B N"]:
    """The `count` best units of each example, for each of K counts."""
    eligible = ranks < ranks.shape[1]
    return (ranks[None] < count[:, :, None]) & eligible[None]


def worst(ranks: Int[Tensor, "B N"], count: Int[Tensor, "K B"]) -> Bool[Tensor, "K B N"]:
    """The `count` worst eligible units of each example, for each of K counts."""
    eligible = ranks < ranks.shape[1]
    n = eligible.sum(dim=1)
    return (ranks[None] >= (n[None] - count)[:, :, None]) & eligible[None]


def best_share(
    scores: Float[Tensor, "K B N"], eligible: Bool[Tensor, "B N"], share: float, uids: Sequence[str], seed: int
) -> Bool[Tensor, "K B N"]:
    """The best ⌈share · n⌉ of the n eligible units of each example, by each of K scores.

    Args:
        scores: K scores of each unit.
        eligible: which units are ranked.
        share: above 0, so that at least one of them is the best.
        uids: of the examples.
        seed: of the order of tied units, which is one and the same for all K scores of an example.
    """
    keys = tie_keys(uids, scores.shape[2], seed)
    count = counts(eligible.sum(1), [share], "up")
    return torch.stack([best(descending_ranks(each, eligible, keys), count)[0] for each in scores])


def constant(rows: NDArray) -> NDArray[np.bool_]:
    """Which rows [R n] order nothing: all scores equal, or fewer than two."""
    if rows.shape[1] < 2:
        return np.ones(len(rows), dtype=bool)
    flags: NDArray[np.bool_] = (rows == rows[:, :1]).all(axis=1)
    return flags


def tau_b(rows: NDArray, reference: NDArray) -> NDArray[np.float64]:
    """Kendall's τ_b of each row [R n] with one reference [n], all rows at once.

    With s_ij = sign(a_i − a_j) over all pairs, τ_b = Σ s^a s^b / √(Σ (s^a)² Σ (s^b)²), as in `kendall`.
    NaN where a row or the reference is constant, or holds a NaN.
    """
    left, right = np.triu_indices(rows.shape[1], k=1)
    signs = np.sign(rows[:, left] - rows[:, right])
    other = np.sign(reference[left] - reference[right])
    norm = np.sqrt((signs**2).sum(axis=1) * (other**2).sum())
    taus: NDArray[np.float64] = np.divide(signs @ other, norm, out=np.full(len(rows), np.nan), where=norm != 0)
    return taus


def tau_b_matrix(rows: NDArray) -> NDArray[np.float64]:
    """Kendall's τ_b of every two rows [R n], all at once [R R]: as in `tau_b`, exactly 1 of a row with itself.

    NaN where one of the two is constant, or holds a NaN.
    """
    left, right = np.triu_indices(rows.shape[1], k=1)
    signs = np.sign(rows[:, left] - rows[:, right])
    squares = (signs**2).sum(axis=1)
    norm = np.sqrt(squares[:, None] * squares[None])
    taus: NDArray[np.float64] = np.divide(signs @ signs.T, norm, out=np.full(norm.shape, np.nan), where=norm != 0)
    return taus


@dataclass(frozen=True)
class Correlation:
    """Kendall's τ_b and its two-sided p value; both NaN where it is undefined."""

    tau: float
    p: float
    undefined: bool


def kendall(a: NDArray, b: NDArray) -> Correlation:
    """Kendall's τ_b = (P − Q) / √((P + Q + T_a)(P + Q + T_b)) between two rows of scores [n].

    P counts concordant, Q discordant pairs, T_a and T_b the pairs tied in one row alone (Kendall 1945).
    It is undefined where a row is constant or n < 2, for there is no order to correlate. A NaN in a row gives a NaN that is
    not "undefined".
    """
    if constant(a[None])[0] or constant(b[None])[0]:
        return Correlation(float("nan"), float("nan"), undefined=True)
    result = scipy.stats.kendalltau(a, b, nan_policy="propagate")
    return Correlation(float(result.statistic), float(result.pvalue), undefined=False)
