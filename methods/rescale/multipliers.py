"""DeepLIFT's multipliers through the unmodified model's own graph: the rescale rule (Shrikumar 2017, section 3).

Inputs and references run together, as the two halves of one batch, inside a `TorchFunctionMode` that gives every operation
that is not linear a backward pass of multipliers: `m = Δout/Δin`, Δ the difference between an input's row and its
reference's. Linear operations keep their ordinary gradient, which is their multiplier. Gradients of the first half are
then multipliers, and every rule here is exact: `Σ m_in Δin = m_out Δout`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from benchmark.errors import NotApplicable
from benchmark.models.attention_interface import mask_scores
from benchmark.models.blocks import replacing_forward
from methods.relevance.conservative import is_activation
from methods.relevance.propagation import _MOVES, _differentiable
from methods.rescale.multiplier_rules import MatrixProduct, Normalised, Product, ReciprocalRoot, Secant, Softmax

_Function = Callable[..., Any]
_Args = tuple[Any, ...]
_Kwargs = Mapping[str, Any]

_ELEMENTWISE = (
    F.gelu, F.relu, torch.relu, F.silu, torch.tanh, Tensor.tanh, torch.sigmoid, Tensor.sigmoid, torch.exp, Tensor.exp,
    torch.erf,
)  # fmt: skip
_LINEAR = (
    *_MOVES, F.linear, torch.addmm, F.dropout, mask_scores, torch.neg, Tensor.neg, Tensor.__neg__, torch.sum, Tensor.sum,
    torch.mean, Tensor.mean, torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__, torch.sub, Tensor.sub,
    Tensor.__sub__, Tensor.__rsub__, Tensor.masked_fill, torch.where, Tensor.where,
)  # fmt: skip
_PRODUCTS = (torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__)
_MATMULS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm)
_QUOTIENTS = (torch.div, Tensor.div, Tensor.__truediv__)


class _RescaleMode(TorchFunctionMode):
    """Gives operations on activations their multipliers; one that is neither linear nor known is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Tensor] = []

    def __torch_function__(
        self, func: _Function, types: Any, args: _Args = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Dispatch one call."""
        kwargs = kwargs or {}
        if not _differentiable(args, kwargs):
            return func(*args, **kwargs)
        if func in _ELEMENTWISE:
            return _apply(Secant, args[0], lambda x: func(x, *args[1:], **kwargs))
        if func in _PRODUCTS and (root := self._root(args)) is not None:
            return _apply(Normalised, args[0] if args[1] is root else args[1], root)
        if func in (*_PRODUCTS, *_MATMULS) and all(isinstance(x, Tensor) and x.requires_grad for x in args[:2]):
            return _apply(MatrixProduct if func in _MATMULS else Product, *args[:2])
        if func in (F.softmax, torch.softmax, Tensor.softmax):
            return _softmax(*args, **kwargs)
        if func in (F.layer_norm, torch.layer_norm):
            return _layer_norm(*args, **kwargs)
        if func in (torch.rsqrt, Tensor.rsqrt):
            self.roots.append(_apply(ReciprocalRoot, args[0]))
            return self.roots[-1]
        if func in (torch.pow, Tensor.pow, Tensor.__pow__) and args[1] == 2:
            return _apply(Product, args[0], args[0])
        result = func(*args, **kwargs)
        by_constant = func in _QUOTIENTS and not _differentiable(args[1:], {})
        linear = by_constant or func in (*_LINEAR, *_PRODUCTS, *_MATMULS, Tensor.detach, torch.detach)
        if isinstance(result, Tensor) and result.is_floating_point() and not linear:
            raise NotApplicable(f"DeepLIFT has no rule for {resolve_name(func) or func}, which this model uses")
        return result

    def _root(self, args: _Args) -> Tensor | None:
        """The factor that is one of a norm's reciprocal roots, where the other is an activation."""
        if not all(isinstance(x, Tensor) and x.requires_grad for x in args[:2]):
            return None
        return next((root for root in self.roots if any(x is root for x in args[:2])), None)


def _apply(rule: type[torch.autograd.Function], *args: Any) -> Any:
    return rule.apply(*args)  # type: ignore[no-untyped-call]


def _softmax(z: Tensor, dim: int = -1, dtype: torch.dtype | None = None, **_: Any) -> Any:
    z = z if dtype is None else z.to(dtype)
    return _apply(Softmax, z.transpose(dim, -1)).transpose(dim, -1)


def _layer_norm(
    x: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *_: Any
) -> Tensor:
    """Linear centring, a product for the square, the root, and the division by it."""
    dims = tuple(range(-len(tuple(shape)), 0))
    centred = x - x.mean(dims, keepdim=True)
    variance = _apply(Product, centred, centred).mean(dims, keepdim=True)
    result: Tensor = _apply(Normalised, centred, _apply(ReciprocalRoot, variance + eps))
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@contextmanager
def rescaling(model: nn.Module) -> Iterator[None]:
    """Make the gradient of every forward pass of `model` in this block one of multipliers."""
    patched = [module for module in model.modules() if is_activation(module) and not list(module.children())]

    def whole(_module: nn.Module, forward: _Function) -> _Function:
        """An activation written with several operations is one element-wise function, with one multiplier."""

        def call(x: Tensor) -> Any:
            with torch._C.DisableTorchFunction():
                return _apply(Secant, x, forward)

        return call

    with replacing_forward(patched, whole), _RescaleMode():
        yield
