"""What explanations and tests of a comparison take, from which an analysis foretells what it will take itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_FORWARD = 1 / 3
"""Of a forward and backward pass, the share that is the forward pass: the backward pass does about twice the work."""


@dataclass(frozen=True)
class Spent:
    """Seconds of one example, as a plan has timed them.

    Attributes:
        examples: how many are scored.
        pass_seconds: of one plain forward and backward pass.
        explaining: by method, of its explanation for the predicted class.
        testing: by test, of all that it does with one explanation, mean over methods.
    """

    examples: int
    pass_seconds: float
    explaining: Mapping[str, float]
    testing: Mapping[str, float]

    @property
    def forward(self) -> float:
        """Of one forward pass."""
        return _FORWARD * self.pass_seconds

    def used(self, limit: int | None) -> int:
        """How many of the scored examples an analysis with this limit uses."""
        return self.examples if limit is None else min(limit, self.examples)

    def explained(self, methods: Iterable[str] | None = None) -> float:
        """Of one explanation by each of these methods (None: of all); what was not timed takes as long as the mean."""
        names = list(self.explaining if methods is None else methods)
        mean = sum(self.explaining.values()) / len(self.explaining) if self.explaining else 0.0
        return sum(self.explaining.get(name, mean) for name in names)

    def tested(self, tests: Iterable[str] | None = None) -> float:
        """Of one explanation by each of these tests (None: of all)."""
        return sum(self.testing.get(name, 0.0) for name in (self.testing if tests is None else tests))
