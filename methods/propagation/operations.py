"""Which operations a transformer is made of: one table, `function -> kind`, for all that propagates through a model.

An operation that a new model brings is entered here once.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import activations

from benchmark.models.attention_interface import mask_scores

Function = Callable[..., Any]
Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]

Kind = Literal[
    "move", "identity", "detach", "mask", "select", "linear", "matmul", "add", "accumulate", "subtract", "negate", "product",
    "quotient", "activation", "elementwise", "softmax", "layer_norm", "rms_norm", "group_norm", "power", "variance", "root",
    "reciprocal_root", "reduce", "norm_module",
]  # fmt: skip
"""What an operation does with its activations:

- move: views, selections, joins and changes of type, which place numbers elsewhere;
- identity: dropout of a model in evaluation mode;
- mask: attention scores plus a mask; select: masked_fill and where;
- linear: x Wᵀ + b; matmul: a product of matrices; product and quotient: element by element;
- activation: an element-wise function that is 0 at 0; elementwise: one that need not be;
- reduce: a sum or mean over dimensions; variance, power, root and reciprocal_root: what norms are written with;
- norm_module: a whole normalisation layer, whatever operations it is written with.
"""

_OPERATIONS: Mapping[Kind, tuple[Function, ...]] = {
    "move": (
        Tensor.view, Tensor.view_as, Tensor.reshape, torch.reshape, Tensor.transpose, torch.transpose, Tensor.permute,
        torch.permute, Tensor.contiguous, Tensor.__getitem__, Tensor.split, torch.split, Tensor.chunk, torch.chunk,
        Tensor.unbind, torch.unbind, torch.cat, Tensor.expand, Tensor.squeeze, torch.squeeze, Tensor.unsqueeze,
        torch.unsqueeze, Tensor.flatten, torch.flatten, Tensor.repeat_interleave, torch.repeat_interleave, Tensor.to,
        Tensor.type, Tensor.type_as, Tensor.float, Tensor.double, Tensor.clone, torch.clone, Tensor.requires_grad_,
        Tensor.select, torch.stack, Tensor.gather, torch.gather, Tensor.index_select, torch.index_select,
    ),
    "identity": (F.dropout,),
    "detach": (Tensor.detach, torch.detach),
    "mask": (mask_scores,),
    "select": (Tensor.masked_fill, torch.where, Tensor.where),
    "linear": (F.linear, torch.addmm),
    "matmul": (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm),
    "add": (torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__),
    "accumulate": (Tensor.__iadd__,),
    "subtract": (torch.sub, Tensor.sub, Tensor.__sub__, Tensor.__rsub__),
    "negate": (torch.neg, Tensor.neg, Tensor.__neg__),
    "product": (torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__),
    "quotient": (torch.div, Tensor.div, Tensor.__truediv__),
    "activation": (F.gelu, F.relu, torch.relu, Tensor.relu, F.silu, F.tanh, torch.tanh, Tensor.tanh),
    "elementwise": (torch.sigmoid, Tensor.sigmoid, torch.exp, Tensor.exp, torch.erf),
    "softmax": (F.softmax, torch.softmax, Tensor.softmax),
    "layer_norm": (F.layer_norm, torch.layer_norm),
    "rms_norm": (F.rms_norm,),
    "group_norm": (F.group_norm, F.batch_norm),
    "power": (torch.pow, Tensor.pow, Tensor.__pow__, torch.square, Tensor.square),
    "variance": (torch.var, Tensor.var, torch.std, Tensor.std),
    "root": (torch.sqrt, Tensor.sqrt),
    "reciprocal_root": (torch.rsqrt, Tensor.rsqrt),
    "reduce": (torch.sum, Tensor.sum, torch.mean, Tensor.mean),
}  # fmt: skip

KINDS: Mapping[Function, Kind] = {function: kind for kind, functions in _OPERATIONS.items() for function in functions}


def module_kind(module: nn.Module) -> Kind | None:
    """The kind of a module that is one operation, whatever operations it is written with; None for any other."""
    if type(module).__module__ in (activations.__name__, "torch.nn.modules.activation"):
        return "activation"
    return "norm_module" if type(module).__name__.endswith("Norm") and not list(module.children()) else None


def linear_operands(function: Function, args: Args, kwargs: Kwargs) -> tuple[Tensor, Tensor, Tensor | None]:
    """(x, weight, bias) of `x Wᵀ + b`, however it was called; raises UnknownForm for a torch.addmm that scales its terms."""

    def of_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        return input, weight, bias

    if function is not torch.addmm:
        return of_linear(*args, **kwargs)
    if kwargs:
        raise UnknownForm("a scaled torch.addmm")
    bias, x, weight = args
    return x, weight.t(), bias


def sum_operands(args: Args, kwargs: Kwargs) -> tuple[Any, Any]:
    """(a, b) of a sum or difference as it was called."""
    if kwargs:
        raise UnknownForm("a scaled addition (torch.add with alpha)")
    return args[0], args[1]


def difference_operands(function: Function, args: Args, kwargs: Kwargs) -> tuple[Any, Any]:
    """(a, b) of `a − b`, whichever of the two was asked to subtract."""
    a, b = sum_operands(args, kwargs)
    return (b, a) if function is Tensor.__rsub__ else (a, b)


class Norm(NamedTuple):
    """`(x − m)/√(mean (x − m)² + ε) · weight + bias` over `dims`, with m the mean of x, or 0 where not `centred`."""

    x: Tensor
    dims: tuple[int, ...]
    weight: Tensor | None
    bias: Tensor | None
    epsilon: float
    centred: bool

    def scaled(self, normalised: Tensor) -> Tensor:
        """`normalised · weight + bias`."""
        result = normalised if self.weight is None else normalised * self.weight
        return result if self.bias is None else result + self.bias

    def centre(self) -> Tensor:
        """`x − m`."""
        return self.x - self.x.mean(self.dims, keepdim=True) if self.centred else self.x


def norm_operands(function: Function, args: Args, kwargs: Kwargs) -> Norm:
    """What F.layer_norm or F.rms_norm was called with."""

    def of_layer_norm(
        input: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
    ) -> Norm:
        return Norm(input, _last(shape), weight, bias, eps, centred=True)

    def of_rms_norm(input: Tensor, shape: Any, weight: Any = None, eps: float | None = None) -> Norm:
        floor = torch.finfo(input.dtype).eps if eps is None else eps
        return Norm(input, _last(shape), weight, None, floor, centred=False)

    return of_rms_norm(*args, **kwargs) if function is F.rms_norm else of_layer_norm(*args, **kwargs)


def _last(shape: Any) -> tuple[int, ...]:
    return tuple(range(-len(tuple(shape)), 0))


class UnknownForm(Exception):  # noqa: N818 (becomes NotApplicable in the mode, which knows for whom)
    """An operation of a known kind was called in a form that nobody has a rule for."""
