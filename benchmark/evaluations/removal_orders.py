"""The best and the worst order in which units can be removed (Edin et al. 2024; docs/protocols.md, section 8).

The area over the perturbation curve of an order π of U units is `AOPC(π) = (1/U) Σ_{k=1..U} d({π_1 … π_k})`, d(S) being how
much the probability of a class falls when the units S are removed. d depends on the set alone, not on the order of its
removal: all orders share 2^U values of d.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

Masks = Bool[NDArray[np.bool_], "K U"]
Drops = Callable[[Masks], Float[NDArray[np.float64], "K"]]
"""How much the probability falls for each of K sets of removed units."""


@dataclass(frozen=True)
class AopcBounds:
    """The lowest and the highest AOPC of the orders of removal that were searched; `exact` where no order can leave them."""

    low: float
    high: float
    exact: bool

    def normalised(self, aopc: float) -> float:
        """`(AOPC − low) / (high − low)`; within [0, 1] where the bounds are exact."""
        share = (aopc - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0) if self.exact else share  # exact: what is cut is the rounding of a sum


def prefixes(order: Int[NDArray[np.int64], "U"]) -> Masks:
    """The sets that an order removes: row k − 1 holds its first k units."""
    place = np.argsort(order)
    removed: Masks = place[None, :] <= np.arange(len(order))[:, None]
    return removed


def subsets(n: int) -> Masks:
    """All 2^n sets of n units; row s holds those whose bit is set in s."""
    masks: Masks = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    return masks


def recalled(drop: Float[NDArray[np.float64], "S"]) -> Drops:
    """The drops of any sets from those of all of them, in the order of `subsets`."""
    return lambda removed: drop[removed @ (1 << np.arange(removed.shape[1]))]


def exact_bounds(drop: Float[NDArray[np.float64], "S"]) -> AopcBounds:
    """Bounds over all n! orders, from the drops of all 2^n sets in the order of `subsets`, by dynamic programming.

    `H(S) = d(S) + max_{u ∈ S} H(S without u)`, `H(∅) = 0`; the highest AOPC is `H(all) / n`, the lowest that of the minimum.
    """
    n = len(drop).bit_length() - 1
    highest, lowest = np.zeros(2**n), np.zeros(2**n)
    for removed in range(1, 2**n):
        before = [removed ^ (1 << u) for u in range(n) if removed >> u & 1]
        highest[removed] = drop[removed] + highest[before].max()
        lowest[removed] = drop[removed] + lowest[before].min()
    return AopcBounds(float(lowest[-1] / n), float(highest[-1] / n), exact=True)


def beam_bounds(drops: Drops, n: int, width: int) -> AopcBounds:
    """Bounds over the orders that a beam search meets, one search upwards and one downwards.

    A partial order is extended by every unit that is left. The `width` partial orders with the largest (smallest) sum of
    drops so far are kept; as in the authors' code, two orders of one set are two entries. The true bounds are never inside
    the ones found: other orders may leave these.
    """
    beams = {sign: _Beam(sign, np.zeros((1, n), dtype=bool), np.zeros(1)) for sign in (1, -1)}
    for _ in range(n):
        extended = {sign: beam.extensions() for sign, beam in beams.items()}
        masks = np.concatenate([beam.removed for beam in extended.values()])
        drops_of_signs = np.split(drops(masks), [len(extended[1].removed)])
        beams = {sign: extended[sign].best(drop, width) for sign, drop in zip(beams, drops_of_signs, strict=True)}
    return AopcBounds(float(beams[-1].total[0] / n), float(beams[1].total[0] / n), exact=False)


@dataclass(frozen=True)
class _Beam:
    """Partial orders of a search for the largest sum of `sign` · drop: the units that each removed, and its sum so far."""

    sign: int
    removed: Masks
    total: Float[NDArray[np.float64], "K"]

    def extensions(self) -> "_Beam":
        """Every partial order with every unit that it left added; totals are those before."""
        entry, unit = np.nonzero(~self.removed)
        removed = self.removed[entry]
        removed[np.arange(len(unit)), unit] = True
        return _Beam(self.sign, removed, self.total[entry])

    def best(self, drop: Float[NDArray[np.float64], "K"], width: int) -> "_Beam":
        """The `width` best after adding the drops of the new sets; equal sums keep their order."""
        total = self.total + drop
        chosen = np.argsort(-self.sign * total, kind="stable")[:width]
        return _Beam(self.sign, self.removed[chosen], total[chosen])
