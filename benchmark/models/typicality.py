"""How strange a text (or an image) is to a model: its states against those of reference texts (pure numpy).

Notation: N texts, R reference texts, L layers (one state each), D dimensions.

The states of a text are the largest of its tokens in every layer and dimension, h[l, d]. Max-Simes-Fisher: with the smaller
tail q[l, d] = (min(#{reference ≤ h}, #{reference ≥ h}) + 1) / (R + 1),

    S_l = min_k q_(k) · D / k    over the dimensions in order of q (Simes),
    s(x) = −2 Σ_l ln q'_l        with q' of S_l among those of reference texts (Fisher),

higher for stranger texts. In the authors' program q = min(c, 1 − c) of the share c below, which is 0 wherever one of D
dimensions lies at the end of the reference, so that S_l is 0 for most texts where D is large; here both tails count what is
equal, and the text itself. One half of the reference gives q, the other q': of one set for both, a reference text would
count itself.

Source: Haroush et al. 2022, as Madsen et al. 2024 use it for texts; the halves are this project's.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

States = Float[NDArray[np.float32], "N L D"]
Strangeness = Float[NDArray[np.float64], " N"]


@dataclass(frozen=True)
class Reference:
    """What is typical.

    Attributes:
        values: of the first half of the reference texts, sorted in every layer and dimension [R/2 L D].
        simes: S of the second half, sorted in every layer [R/2 L].
    """

    values: Float[NDArray[np.float32], "R L D"]
    simes: Float[NDArray[np.float64], "R L"]

    @staticmethod
    def of(states: States) -> "Reference":
        """Of reference texts; the halves are every other one.

        Raises:
            ValueError: there are fewer than four.
        """
        if len(states) < 4:
            raise ValueError("fewer than four texts are no reference")
        values = np.sort(states[::2], axis=0)
        return Reference(values, np.sort(_simes(values, states[1::2]), axis=0))

    def strangeness(self, states: States) -> Strangeness:
        """s(x) of each text."""
        of_layers = _simes(self.values, states)
        tails = [_tail(own, given) for own, given in zip(self.simes.T, of_layers.T, strict=True)]
        told: Strangeness = -2 * np.log(np.stack(tails)).sum(0)
        return told


def _simes(values: Float[NDArray[np.float32], "R L D"], states: States) -> Float[NDArray[np.float64], "N L"]:
    """S of every layer, from sorted reference values."""
    n_layers, size = states.shape[1:]
    found = np.empty((len(states), n_layers))
    for layer in range(n_layers):
        q = np.sort(np.stack([_tail(values[:, layer, d], states[:, layer, d]) for d in range(size)], axis=1), axis=1)
        found[:, layer] = (q * size / np.arange(1, size + 1)).min(1)
    return found


def _tail(reference: Float[NDArray, " R"], given: Float[NDArray, " N"]) -> Float[NDArray[np.float64], " N"]:
    """The smaller tail of each value among sorted ones, in which equal values and the value itself are counted."""
    low = np.searchsorted(reference, given, side="right")
    high = len(reference) - np.searchsorted(reference, given, side="left")
    tail: NDArray[np.float64] = (np.minimum(low, high) + 1) / (len(reference) + 1)
    return tail


def paired_auroc(
    natural: Strangeness, changed: Strangeness, weights: Float[NDArray[np.float64], "B N"]
) -> Float[NDArray[np.float64], " B"]:
    """The chance that a changed text is stranger than a natural one, ties as halves (Mann and Whitney's U over N²).

    Of the same texts before and after, for resamples that count each text so often.
    """
    later: Bool[NDArray[np.bool_], "N N"] = changed[None, :] > natural[:, None]
    wins = later + 0.5 * (changed[None, :] == natural[:, None])
    total = weights.sum(1)
    chances: NDArray[np.float64] = ((weights @ wins) * weights).sum(1) / total**2
    return chances
