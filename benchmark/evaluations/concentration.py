"""How much of a mass lies in few places: of token scores, of attention, of edge scores. All of it in float64."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

_ROUNDING = 1e-9  # 0.1 · 30 is no more than 3


def gini(mass: Float[NDArray, "*n K"]) -> Float[NDArray, "*n"]:
    """The Gini index `Σ_k (2k − K − 1) m_(k) / (K Σ_k m_k)` of masses m ≥ 0, m_(1) the smallest; NaN where all are 0.

    0 where all are equal, `1 − 1/K` where one place holds everything.

    Source: Hurley & Rickard 2009, who compare measures of sparsity (unread; the formula is that of the documentation of
    Xplique's `Sparseness`, after Chalasani et al. 2020, who use it for attributions).
    """
    count = mass.shape[-1]
    weights = 2 * np.arange(1, count + 1) - count - 1
    return _over(np.sort(mass, axis=-1) @ weights.astype(np.float64), count * mass.sum(-1))


def entropy(mass: Float[NDArray, "*n K"]) -> Float[NDArray, "*n"]:
    """`−Σ_k p_k ln p_k` in nats with `p = m / Σ m`, in [0, ln K], 0 ln 0 = 0; NaN where all are 0.

    Source: Bhatt et al. 2020, equation 3 (unread; the documentation of Xplique's `Complexity` gives it).
    """
    total = mass.sum(-1, keepdims=True)
    p = _over(mass, total)
    logarithm = np.log(p, out=np.zeros_like(p), where=p > 0)
    return np.where(total[..., 0] > 0, -(p * logarithm).sum(-1), np.nan) + 0.0


def top_shares(mass: Float[NDArray, "*n K"], shares: Sequence[float]) -> Float[NDArray, "*n S"]:
    """The share of all mass in the ⌈share · K⌉ largest of K places, at least one; NaN where all are 0."""
    cumulated = np.cumsum(-np.sort(-mass, axis=-1), axis=-1)
    counts = [max(1, int(np.ceil(share * mass.shape[-1] - _ROUNDING))) for share in shares]
    return np.minimum(_over(cumulated[..., [count - 1 for count in counts]], mass.sum(-1)[..., None]), 1.0)


def _over(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.broadcast_to(whole, part.shape)
    found: NDArray[np.float64] = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return found
