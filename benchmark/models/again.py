"""Parts of a batch that are encoded when they are asked for, and let go again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from torch import Tensor

from benchmark.types import Batch


@dataclass(frozen=True, eq=False)
class TensorsAgain(Mapping[str, Tensor]):
    """The tensors of a batch; which there are is known without encoding it.

    Attributes:
        names: of the tensors.
        whole: the encoded batch, from a memory of the last ones or anew.
        of: which of its tensors: those of its inputs, or of their corrupted counterparts.
    """

    names: tuple[str, ...]
    whole: Callable[[], Batch]
    of: Literal["tensors", "corrupted"] = "tensors"

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.names:
            raise KeyError(name)
        whole = self.whole()
        return (whole.tensors if self.of == "tensors" else whole.corrupted)[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class MasksAgain(Sequence[np.ndarray | None]):
    """The masks of a batch of images.

    Attributes:
        examples: how many the batch has.
        whole: the encoded batch.
    """

    examples: int
    whole: Callable[[], Batch]

    def __len__(self) -> int:
        return self.examples

    @overload
    def __getitem__(self, index: int) -> np.ndarray | None: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[np.ndarray | None]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | Sequence[np.ndarray | None] | None:
        """The mask of an example."""
        return self.whole().masks[index]
