"""|W| of a model's weights, kept between passes: making them costs as much as a tenth of a pass over a short text."""

from dataclasses import dataclass, field

from torch import Tensor, nn

_LIMIT = 1 << 28


@dataclass
class Magnitudes:
    """The magnitudes of weights, as far as `limit` bytes hold them; made again where a weight has changed since.

    Changes are noticed as `benchmark.models.precision.Twin` notices them.

    Attributes:
        limit: bytes.
        kept: by identity of the weight: the weight, where it lies and how often it was changed, its magnitude.
    """

    limit: int = _LIMIT
    kept: dict[int, tuple[Tensor, tuple[int, int], Tensor]] = field(default_factory=dict, repr=False)

    def of(self, weight: Tensor) -> Tensor:
        """`|W|`."""
        state = (weight.data_ptr(), weight._version)
        found = self.kept.pop(id(weight), None)
        same = found is not None and found[0] is weight and found[1] == state
        magnitude = found[2] if found is not None and same else weight.detach().abs()
        if isinstance(weight, nn.Parameter) and self._size() + magnitude.nbytes <= self.limit:
            self.kept[id(weight)] = weight, state, magnitude
        return magnitude

    def _size(self) -> int:
        return sum(magnitude.nbytes for _, _, magnitude in self.kept.values())

    def __reduce__(self) -> tuple[type["Magnitudes"], tuple[int]]:
        """Copies begin empty: their weights are others."""
        return Magnitudes, (self.limit,)
