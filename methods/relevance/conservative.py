"""Gradient × input with normalisers held constant and gates halved (Ali 2022; `rule_sets.Conservative`).

An ordinary backward pass: the forward pass runs inside a `TorchFunctionMode` that detaches the denominators of
normalisation layers. Attention probabilities are held constant by an edit of the instrumented attention.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import activations

from benchmark.errors import NotApplicable
from benchmark.models.blocks import replacing_forward

_Function = Callable[..., Any]


def is_activation(module: nn.Module) -> bool:
    """Whether a module is an activation function, whatever operations it is written with."""
    return type(module).__module__ in (activations.__name__, "torch.nn.modules.activation")


def _layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    dims = tuple(range(-len(shape), 0))
    centred = x - x.mean(dims, keepdim=True)
    scaled = centred / (centred.detach().square().mean(dims, keepdim=True) + eps).sqrt()
    scaled = scaled if weight is None else scaled * weight
    return scaled if bias is None else scaled + bias


def _rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    dims = tuple(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    scaled = x / (x.detach().square().mean(dims, keepdim=True) + eps).sqrt()
    return scaled if weight is None else scaled * weight


def _product(a: Any, b: Any) -> Any:
    both = all(isinstance(x, Tensor) and x.requires_grad for x in (a, b))
    return (a * b.detach() + a.detach() * b) / 2 if both else a * b


def _unknown(*_args: Any, **_kwargs: Any) -> Any:
    raise NotApplicable("conservative propagation has no rule for group or batch normalisation, which this model uses")


class FrozenNorms(TorchFunctionMode):
    """Normalisation layers of the library, and those written out with a root (RMS norms of decoders)."""

    def __init__(self) -> None:
        super().__init__()
        roots = (torch.sqrt, Tensor.sqrt, torch.rsqrt, Tensor.rsqrt)
        self.handlers: Mapping[_Function, _Function] = {
            F.layer_norm: _layer_norm,
            F.rms_norm: _rms_norm,
            F.group_norm: _unknown,
            F.batch_norm: _unknown,
            **{root: lambda x, root=root: root(x).detach() for root in roots},
            **dict.fromkeys((torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__), _product),
        }

    def __torch_function__(
        self, func: _Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Dispatch one call, past any other mode around this one."""
        with torch._C.DisableTorchFunction():
            return self.handlers.get(func, func)(*args, **kwargs or {})


@contextmanager
def freezing(model: nn.Module) -> Iterator[None]:
    """Make every forward pass of `model` in this block one whose normalisers are constants and whose gates are halved."""
    patched = [module for module in model.modules() if is_activation(module)]

    def as_it_is(_module: nn.Module, forward: _Function) -> _Function:
        """Without the mode: the products inside GELU's formula are no gates."""

        def call(x: Tensor) -> Any:
            with torch._C.DisableTorchFunction():
                return forward(x)

        return call

    with replacing_forward(patched, as_it_is), FrozenNorms():
        yield
