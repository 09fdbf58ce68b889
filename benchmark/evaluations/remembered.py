"""What a test computes of an example whatever the method is, remembered so that the methods of a comparison share it."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass
class Remembered(Generic[Value]):
    """Values of the last examples, by what they depend on.

    Attributes:
        most: how many examples are remembered.
    """

    most: int = 10_000
    _kept: OrderedDict[Hashable, Value] = field(default_factory=OrderedDict, init=False, repr=False)

    def of(self, keys: Sequence[Hashable], compute: Callable[[list[int]], Sequence[Value]]) -> list[Value]:
        """The values of these keys; `compute` is given the places of those that are not known, and gives theirs."""
        if missing := [place for place, key in enumerate(keys) if key not in self._kept]:
            self._kept.update({keys[place]: value for place, value in zip(missing, compute(missing), strict=True)})
        values = [self._kept[key] for key in keys]
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return values
