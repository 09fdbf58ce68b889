"""Intervals and bounds that need no resampling: of samples with few distinct values, and of any bounded one."""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Array = NDArray[np.float64]

LEVEL = 0.95
"""Coverage of every interval."""

_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
_HALVINGS = 60


def wilson(share: Array, n: int) -> tuple[Array, Array]:
    """Score interval of a proportion: all π with |share − π| ≤ z √(π (1 − π) / n) (Wilson 1927).

    Args:
        share: [k] observed proportions of n examples.
        n: examples.

    Returns:
        Lower and upper end [k]; for a share of 1 the lower one is n / (n + z²).
    """
    z2 = _Z**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return np.where(share <= 0, 0.0, middle - half), np.where(share >= 1, 1.0, middle + half)


def paired_score(more: Array, less: Array, n: int) -> tuple[Array, Array]:
    """Score interval of the mean of values in {−1, 0, 1}, as differences of two 0/1 values are (Tango 1998, eq. 8).

    All Δ with |b − c − n Δ| ≤ z √(n (2 q + Δ (1 − Δ))), where b values are 1, c are −1, and q is the most probable share
    of −1 given Δ: the positive root of 2 n q² + ((2n − b + c) Δ − b − c) q − c Δ (1 − Δ) = 0. With b = c = 0 it is
    ± z² / (n + z²): to each side as far as Wilson's interval of a constant sample reaches to its one.

    Args:
        more: [k] how many of n values are 1.
        less: [k] how many are −1.
        n: examples.

    Returns:
        Lower and upper end [k].
    """
    z2 = _Z**2
    estimate = (more - less) / n

    def inside(delta: Array) -> NDArray[np.bool_]:
        linear = (2 * n - more + less) * delta - more - less
        root = np.sqrt(np.maximum(linear**2 + 8 * n * less * delta * (1 - delta), 0.0))
        variance = np.maximum((root - linear) / (2 * n) + delta * (1 - delta), 0.0)
        return np.asarray((more - less - n * delta) ** 2 <= z2 * n * variance)

    ends = []
    for edge in (-1.0, 1.0):
        near, far = estimate.astype(np.float64), np.full(estimate.shape, edge)
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            is_inside = inside(middle)
            near, far = np.where(is_inside, middle, near), np.where(is_inside, far, middle)
        ends.append(far)
    return ends[0], ends[1]


def exact_bounds(values: Array, low: float, high: float) -> tuple[float, float]:
    """Bounds of the mean of any distribution on [low, high], from how many values differ from the commonest one.

    With c the commonest value, the mean is c + E(X − c)⁺ − E(c − X)⁺, which lies between c − π₋ (c − low) and
    c + π₊ (high − c), π± the probability of a value above and below c. Those are proportions, whose upper Clopper-Pearson
    limits at (1 + .95) / 2 each stand for them; where all n values are equal both are 1 − .025^(1/n).
    For a c that is fixed beforehand they hold at 95 % at least; they are wide where few values are equal.

    Args:
        values: [n], within [low, high].
        low: least possible value; an end that needs an infinite one is infinite.
        high: largest possible value.
    """
    n = len(values)
    distinct, counts = np.unique(values, return_counts=True)
    common = distinct[counts == counts.max()]
    centre = float(common[np.argmin(np.abs(common - values.mean()))])
    below, above = (_upper_limit(int(side.sum()), n) for side in (values < centre, values > centre))
    down = below * (centre - low) if centre > low else 0.0
    up = above * (high - centre) if centre < high else 0.0
    return centre - down, centre + up


def anderson_bounds(values: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds of the mean of any distribution on [low, high], from how far its distribution function can be (Anderson 1969).

    With probability .975 the function lies below the sample's plus ε = √(ln 40 / (2 n)) (Massart
    1990). The least mean that this leaves takes the share ε from the largest values and gives it to `low`. They hold at
    95 % at least, for any n.

    Args:
        values: [n, k], within [low, high].
        low: least possible value [k].
        high: largest possible value [k].

    Returns:
        Lower and upper bound [k], infinite where the range is.
    """
    n = len(values)
    share = min(1.0, float(np.sqrt(np.log(2 / (1 - LEVEL)) / (2 * n))))
    weights = np.clip(1 - share - np.arange(n) / n, 0, 1 / n)
    ordered = np.sort(values, axis=0)
    return share * low + weights @ ordered, share * high + weights @ ordered[::-1]


def _upper_limit(count: int, n: int) -> float:
    """Upper Clopper-Pearson limit of a proportion: the π at which `count` or fewer of n have probability (1 − level) / 2."""
    return 1.0 if count == n else float(betaincinv(count + 1, n - count, (1 + LEVEL) / 2))
