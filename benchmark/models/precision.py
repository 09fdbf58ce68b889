"""A float64 twin of a model, for what cancels in the model's own precision."""

import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from benchmark.errors import NotApplicable
from benchmark.types import Batch

if TYPE_CHECKING:
    from benchmark.models.classifier import Classifier

Precision = Literal["model", "float64"]
"""What a computation runs in: the model's own precision, or float64 whatever the model's is."""

_State = tuple[tuple[int, int], ...]


@dataclass
class Twin:
    """A model's copy in float64, made at first use, and again where a weight has changed since.

    The copy shares nothing with the model, which is only read. A change is noticed where it goes through torch (in place, or
    by another tensor in its stead), not where it is written through `.data` or through an array that shares memory.

    Memory: 8 bytes for each parameter, for as long as the classifier that holds it lives.
    """

    source: nn.Module | None = None
    state: _State = ()
    module: nn.Module | None = None

    def of(self, model: nn.Module) -> nn.Module:
        """The copy of `model` as it is now."""
        state = _state(model)
        if self.module is None or self.source is not model or self.state != state:
            self.source, self.state, self.module = model, state, double(model)
        return self.module


def precise(model: "Classifier", precision: Precision) -> "Classifier":
    """The classifier itself, or its twin: the same passes, counted in the same cost, in float64.

    Raises:
        NotApplicable: the device has no float64.
    """
    if precision == "model" or model.dtype == torch.float64:
        return model
    return around(model, model.twin.of(model.model))


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


def double_batch(batch: Batch) -> Batch:
    """The batch with images in float64; ids stay as they are."""
    tensors: dict[str, Tensor] = {name: t.double() if t.is_floating_point() else t for name, t in batch.tensors.items()}
    return replace(batch, tensors=tensors)


def _state(model: nn.Module) -> _State:
    """Where the weights lie and how often each was changed in place."""
    return tuple((tensor.data_ptr(), tensor._version) for tensor in chain(model.parameters(), model.buffers()))
