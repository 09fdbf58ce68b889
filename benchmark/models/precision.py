"""What is made of a model's weights and kept: a twin in a wider precision, for what cancels in its own, and |W|, W⁺, W⁻.

Both are made again where a weight has changed since. A change is noticed where it goes through torch (in place, or by
another tensor in its stead), not where it is written through `.data` or through an array that shares memory.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from benchmark.errors import NotApplicable
from benchmark.types import Batch

if TYPE_CHECKING:
    from benchmark.models.classifier import Classifier

Precision = Literal["model", "float64"]
"""What a computation runs in: float64 whatever the model's own precision is, or the model's own; of half precision float32,
which the rounded weights then run in, since differences of relevance have no digit left in a half."""

_State = tuple[int, int]
"""Where a weight lies, and how often it was changed in place."""

WeightPart = Literal["magnitude", "positive", "negative"]
"""`|W|`, `W⁺ = max(W, 0)` or `W⁻ = min(W, 0)`."""

_MADE: dict[WeightPart, Callable[[Tensor], Tensor]] = {
    "magnitude": torch.abs,
    "positive": lambda weight: weight.clamp(min=0),
    "negative": lambda weight: weight.clamp(max=0),
}
_PARTS_LIMIT = 1 << 28


@dataclass
class Twin:
    """A model's copies in wider precisions, each made at first use, and again where a weight has changed since.

    A copy shares nothing with the model, which is only read.

    Memory: 8 bytes for each parameter in float64, 4 in float32, for as long as the classifier that holds it lives.
    """

    source: nn.Module | None = None
    state: tuple[_State, ...] = ()
    modules: dict[torch.dtype, nn.Module] = field(default_factory=dict)

    def of(self, model: nn.Module, dtype: torch.dtype) -> nn.Module:
        """The copy of `model` as it is now."""
        state = tuple(map(_state, chain(model.parameters(), model.buffers())))
        if self.source is not model or self.state != state:
            self.source, self.state, self.modules = model, state, {}
        if dtype not in self.modules:
            self.modules[dtype] = double(model) if dtype == torch.float64 else copy.deepcopy(model).to(dtype)
        return self.modules[dtype]


def precise(model: "Classifier", precision: Precision) -> "Classifier":
    """The classifier itself, or its twin: the same passes, counted in the same cost, in float64 or float32.

    Raises:
        NotApplicable: the device has no float64.
    """
    dtype = torch.float64 if precision == "float64" else model.scores_dtype
    return model if model.dtype == dtype else around(model, model.twin.of(model.model, dtype))


def around(model: "Classifier", module: nn.Module) -> "Classifier":
    """The classifier with `module`, a copy of its model that may differ in weights and precision, in the model's place."""
    paths = {id(part): path for path, part in model.model.named_modules()}
    parts = dict(module.named_modules())
    attention = tuple(parts[paths[id(part)]] for part in model.attention_modules)
    dtype = next(module.parameters()).dtype
    return replace(model, model=module, encoder=replace(model.encoder, dtype=dtype), attention_modules=attention)


def double(model: nn.Module) -> nn.Module:
    """A copy in float64 that shares nothing with the model.

    Raises:
        NotApplicable: the device has no float64.
    """
    device = next(model.parameters()).device
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError) as error:
        raise NotApplicable(
            f"precision=float64 needs a device that computes in float64, and {device.type} does not; "
            "set model.device=cpu, or precision=model where rounding may be large"
        ) from error
    return copy.deepcopy(model).double()


def batch_for(model: "Classifier", batch: Batch) -> Batch:
    """The batch with images in the model's precision; ids stay as they are."""
    tensors, corrupted = (
        {name: tensor.to(model.dtype) if tensor.is_floating_point() else tensor for name, tensor in of.items()}
        for of in (batch.tensors, batch.corrupted)
    )
    return replace(batch, tensors=tensors, corrupted=corrupted)


@dataclass
class WeightParts:
    """|W|, W⁺ and W⁻ of weights, as far as `limit` bytes hold them; made again where a weight has changed since.

    Making |W| of all weights costs as much as a tenth of a pass over a short text.

    Attributes:
        limit: bytes.
        kept: by identity of the weight and part: the weight, where it lies and how often it was changed, its part.
    """

    limit: int = _PARTS_LIMIT
    kept: dict[tuple[int, WeightPart], tuple[Tensor, _State, Tensor]] = field(default_factory=dict, repr=False)

    def of(self, weight: Tensor, part: WeightPart) -> Tensor:
        """The part of the weight."""
        state, key = _state(weight), (id(weight), part)
        found = self.kept.get(key)
        if found is not None:
            if found[0] is weight and found[1] == state:
                return found[2]
            del self.kept[key]
        made = _MADE[part](weight.detach())
        if isinstance(weight, nn.Parameter) and self._size() + made.nbytes <= self.limit:
            self.kept[key] = weight, state, made
        return made

    def _size(self) -> int:
        return sum(made.nbytes for _, _, made in self.kept.values())

    def __reduce__(self) -> tuple[type["WeightParts"], tuple[int]]:
        """Copies begin empty: their weights are others."""
        return WeightParts, (self.limit,)


def _state(weight: Tensor) -> _State:
    return weight.data_ptr(), weight._version
