"""From what a few batches took to what any batch takes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

_LEAST = 1e-6  # seconds: what a clock tells apart


@dataclass(frozen=True)
class Shape:
    """How large a batch is.

    Attributes:
        examples: how many it has; a mean where that is not known.
        tokens: how long they are with their padding.
    """

    examples: float
    tokens: int

    def terms(self, count: int) -> list[float]:
        """1, its tokens, its pairs of tokens: the first `count` of these."""
        return [1.0, self.examples * self.tokens, self.examples * self.tokens**2][:count]


@dataclass(frozen=True)
class Line:
    """Seconds as a sum of terms, each of which can only add."""

    coefficients: tuple[float, ...]

    def __call__(self, shape: Shape) -> float:
        """Seconds of a batch."""
        return float(np.dot(self.coefficients, shape.terms(len(self.coefficients))))


def fit(shapes: Sequence[Shape], seconds: Sequence[float]) -> Line:
    """The line that errs least, in shares of what was measured; pairs of tokens count where three lengths were timed."""
    count = 3 if len({shape.tokens for shape in shapes}) > 2 else 2
    measured = np.maximum(seconds, _LEAST)
    terms = np.array([shape.terms(count) for shape in shapes])
    scale = terms.max(axis=0)
    found, _ = nnls(terms / scale / measured[:, None], np.ones(len(measured)))
    return Line(tuple(found / scale))


def straight(x: Sequence[float], y: Sequence[float], at: float) -> float:
    """`a + b·x` at another x; neither a nor b is below 0. Measured at one x alone, it is the same everywhere."""
    if len(set(x)) < 2:
        return sum(y) / len(y)
    scale, measured = max(*x, 1e-9), np.maximum(y, _LEAST)
    terms = np.array([[1.0, value / scale] for value in x])
    (a, b), _ = nnls(terms / measured[:, None], np.ones(len(measured)))
    return float(a + b * at / scale)
