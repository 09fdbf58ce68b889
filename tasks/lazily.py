"""Examples that are made when they are asked for, so that a split holds neither open files nor all its pixels."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

from benchmark.types import Example


@dataclass(frozen=True)
class Lazily(Sequence[Example]):
    """Examples by their places; a slice of them is as lazy.

    Attributes:
        make: the example of a place.
        places: those of these examples, in their order.
        label_of: the label of a place, where it is known without making the example.
        image_uid_of: likewise the identifier of an image.
    """

    make: Callable[[int], Example]
    places: range
    label_of: Callable[[int], int] | None = None
    image_uid_of: Callable[[int], str] | None = None

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> "Lazily": ...
    def __getitem__(self, index: int | slice) -> "Example | Lazily":
        """One example, made now, or those of a slice, made later."""
        chosen = self.places[index]
        return self.make(chosen) if isinstance(chosen, int) else replace(self, places=chosen)

    def image_uids(self) -> list[str] | None:
        """The identifiers of images, none of which is made; None where they are not known, or the examples no images."""
        return None if self.image_uid_of is None else [self.image_uid_of(place) for place in self.places]

    def __iter__(self) -> Iterator[Example]:
        return map(self.make, self.places)


def labels_of(examples: Sequence[Example]) -> list[int]:
    """The label of each example, without making those whose labels are known."""
    if isinstance(examples, Lazily) and examples.label_of is not None:
        return [examples.label_of(place) for place in examples.places]
    return [example.label for example in examples]
