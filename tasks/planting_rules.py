"""Which label an example gets and which class's feature it holds: known rules for any data set (Zhou et al. 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.randomness import generator


@dataclass(frozen=True)
class Rules:
    """Draws labels and features; each example has a stream of its own.

    Attributes:
        classes: how many there are.
        kept: the probability that an example keeps its label; else it is one of the others, all alike probable.
        strength: the probability that a feature is that of the example's new label; else it is that of another.
        rate: the probability that an example holds a feature.
        seed: of the draws.
    """

    classes: int
    kept: float
    strength: float
    rate: float
    seed: int

    def draw(self, uid: str, label: int, *, flipped: bool) -> tuple[int, int | None, np.random.Generator]:
        """New label, the class whose feature is planted (None: none), and the stream for what else is drawn.

        Args:
            uid: the example's.
            label: the example's, known.
            flipped: whether the feature goes with the other labels as often as it would with its own.
        """
        rng = generator(self.seed, "planted", uid)
        new = label if rng.random() < self.kept else self._other(rng, label)
        holds, agrees = rng.random() < self.rate, rng.random() < (1 - self.strength if flipped else self.strength)
        other = self._other(rng, new)
        return new, (new if agrees else other) if holds else None, rng

    def _other(self, rng: np.random.Generator, label: int) -> int:
        return (label + 1 + int(rng.integers(self.classes - 1))) % self.classes


def drawn_part(examples: Sequence[int], count: int | None, seed: int) -> list[int]:
    """`count` of these places, drawn without replacement, in their order; all without a count."""
    if count is None or count >= len(examples):
        return list(examples)
    return sorted(generator(seed, "part").choice(list(examples), count, replace=False).tolist())
