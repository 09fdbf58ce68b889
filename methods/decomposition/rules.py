"""How each operation acts on the parts of a decomposed activation; see `methods.decomposition.decomposed`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import resolve_name
from torch.utils import _pytree as pytree

from benchmark.errors import NotApplicable
from benchmark.models.blocks import replacing_forward
from methods.decomposition.decomposed import Decomposed, decomposed, plain
from methods.relevance.conservative import is_activation

_Function = Callable[..., Any]
_Args = tuple[Any, ...]
_Kwargs = Mapping[str, Any]

BiasShare = Literal["absdot", "apart", "none"]

# Linear in their tensors: they act on each part as on the whole.
_LINEAR = (
    Tensor.view, Tensor.view_as, Tensor.reshape, torch.reshape, Tensor.transpose, torch.transpose, Tensor.permute,
    torch.permute, Tensor.contiguous, Tensor.__getitem__, Tensor.split, torch.split, Tensor.chunk, torch.chunk,
    Tensor.unbind, torch.unbind, torch.cat, Tensor.expand, Tensor.squeeze, torch.squeeze, Tensor.unsqueeze,
    torch.unsqueeze, Tensor.flatten, torch.flatten, Tensor.repeat_interleave, torch.repeat_interleave, Tensor.to,
    Tensor.type, Tensor.float, Tensor.double, Tensor.clone, torch.clone, Tensor.select, torch.stack, Tensor.gather,
    torch.gather, Tensor.index_select, torch.index_select, Tensor.neg, torch.neg, Tensor.__neg__, Tensor.sum, torch.sum,
    Tensor.mean, torch.mean,
)  # fmt: skip
# What they give is a constant of the example: norms' statistics and attention scores.
_STATISTICS = (
    Tensor.pow, torch.pow, Tensor.__pow__, Tensor.square, torch.square, Tensor.var, torch.var, Tensor.std, torch.std,
    F.softmax, torch.softmax, Tensor.softmax,
)  # fmt: skip
_ACTIVATIONS = (F.gelu, F.relu, torch.relu, Tensor.relu, F.silu, F.tanh, torch.tanh, Tensor.tanh)
_MATMULS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm)
_ADDS = (torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
_SUBTRACTIONS = (torch.sub, Tensor.sub, Tensor.__sub__)
_PRODUCTS = (torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__)
_QUOTIENTS = (torch.div, Tensor.div, Tensor.__truediv__)


@dataclass
class Rules:
    """The affine map of every operation, and who gets the biases.

    Attributes:
        bias: "absdot", part k gets the share `|b·x_k| / Σ_k |b·x_k|` of a bias b, the last part what no other part has
            a share of; "apart", the last part gets all; "none", biases are dropped.
    """

    bias: BiasShare = "apart"

    def apply(self, function: _Function, args: _Args, kwargs: _Kwargs) -> Any:
        """The result of one operation: decomposed, or plain where it is a constant or no activation."""
        if (handler := _HANDLERS.get(function)) is not None:
            return handler(self, function, args, kwargs)
        result = function(*_plain(args), **_plain(kwargs))
        if isinstance(result, Tensor) and result.is_floating_point():
            _refuse(resolve_name(function) or str(function))
        return result

    def normalising(self) -> None:
        """Called where the deviation of an activation is taken; rules that do not know it refuse."""

    def linear(self, x: Decomposed, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x Wᵀ + b`."""
        return decomposed(F.linear(plain(x), weight, bias), self.give(F.linear(x.parts, weight), bias), self)

    def add(self, a: Any, b: Any) -> Tensor:
        """The sum of two activations, or of one and a constant."""
        whole = plain(a) + plain(b)
        if isinstance(a, Decomposed) and isinstance(b, Decomposed):
            return decomposed(whole, _aligned(a, whole) + _aligned(b, whole), self)
        x, constant = (a, b) if isinstance(a, Decomposed) else (b, a)
        shift = constant if isinstance(constant, Tensor) else whole.new_tensor(constant)
        return decomposed(whole, self.give(_aligned(x, whole), shift.expand(whole.shape)), self)

    def give(self, parts: Tensor, bias: Tensor | None) -> Tensor:
        """Parts [N, *shape] with their shares of a bias, which is [D] or [*shape]."""
        if bias is None or self.bias == "none":
            return parts
        if self.bias == "apart":
            return torch.cat([parts[:-1], parts[-1:] + bias])
        weights = torch.linalg.vecdot(parts[:-1], bias.expand(parts.shape[1:])).abs().unsqueeze(-1)
        total = weights.sum(0)
        nobody = total == 0
        weights = weights / total.masked_fill(nobody, 1.0)
        return torch.addcmul(parts, torch.cat([weights, nobody.to(weights.dtype).unsqueeze(0)]), bias)


def _plain(tree: Any) -> Any:
    return pytree.tree_map_only(Decomposed, plain, tree)


def _refuse(what: str) -> None:
    raise NotApplicable(f"vector decomposition has no rule for {what}, which this model uses")


def _aligned(x: Decomposed, whole: Tensor) -> Tensor:
    """Parts in the shape of a result that x may have been broadcast to."""
    if x.dim() != whole.dim():
        _refuse("an operation that adds dimensions to an activation")
    return x.parts if x.shape == whole.shape else x.parts.expand(len(x.parts), *whole.shape)


def _linear_map(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Any:
    """Part by part; the other tensors among the arguments are indices or sizes."""
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Decomposed)]
    if function in (torch.cat, torch.stack) and len(places) < sum(isinstance(leaf, Tensor) for leaf in leaves):
        _refuse("joining an activation and a constant")

    def call(*tensors: Tensor) -> Any:
        values = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        positional, named = pytree.tree_unflatten(values, spec)
        return function(*positional, **named)

    whole = call(*(plain(leaves[place]) for place in places))
    parts = torch.vmap(call)(*(leaves[place].parts for place in places))
    if isinstance(whole, Tensor):
        return decomposed(whole, parts, rules)
    return tuple(decomposed(one, part, rules) for one, part in zip(whole, parts, strict=True))


def _statistic(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    rules.normalising()
    result: Tensor = function(*_plain(args), **_plain(kwargs))
    return result


def activation(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    """`x_k · f(x)/x`, and 0 where x = 0 (f(0) = 0 for all that are served)."""
    x = args[0]
    whole = function(*_plain(args), **kwargs)
    z = plain(x)
    return decomposed(whole, x.parts * torch.where(z == 0, 0.0, whole / z), rules)


def _linear(rules: Rules, _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    def call(x: Decomposed, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return rules.linear(x, weight, bias)

    return call(*args, **kwargs)


def _affine_product(rules: Rules, _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    """torch.addmm(bias, x, weight)."""
    if kwargs or not isinstance(args[1], Decomposed):
        _refuse("a scaled torch.addmm")
    return rules.linear(args[1], args[2].t(), args[0])


def _matmul(rules: Rules, _f: _Function, args: _Args, _k: _Kwargs) -> Tensor:
    a, b = args
    whole = torch.matmul(plain(a), plain(b))
    if isinstance(a, Decomposed) and isinstance(b, Decomposed):
        return whole  # attention scores
    if isinstance(a, Decomposed):
        return decomposed(whole, torch.matmul(a.parts, b), rules)
    return decomposed(whole, torch.einsum("...ij,n...jd->n...id", a, b.parts), rules)


def _add(rules: Rules, _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    if kwargs:
        _refuse("a scaled addition (torch.add with alpha)")
    return rules.add(args[0], args[1])


def _subtract(rules: Rules, _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    a, b = args
    if kwargs or not isinstance(a, Decomposed):
        _refuse("subtracting an activation from a constant")
    minus = decomposed(-plain(b), -b.parts, rules) if isinstance(b, Decomposed) else -b
    return rules.add(a, minus)


def _multiply(rules: Rules, _f: _Function, args: _Args, _k: _Kwargs) -> Tensor:
    a, b = args
    whole = plain(a) * plain(b)
    if isinstance(a, Decomposed) and isinstance(b, Decomposed):
        return decomposed(whole, 0.5 * (a.parts * plain(b) + plain(a) * b.parts), rules)
    x, factor = (a, b) if isinstance(a, Decomposed) else (b, a)
    if x.dim() != whole.dim():
        _refuse("a product that adds dimensions to an activation")
    return decomposed(whole, x.parts * factor, rules)


def _divide(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    a, b = args
    if kwargs or isinstance(b, Decomposed):
        _refuse("division by an activation")
    whole = function(plain(a), b)
    if a.dim() != whole.dim():
        _refuse("a quotient that adds dimensions to an activation")
    return decomposed(whole, a.parts / b, rules)


def _layer_norm(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    def call(
        x: Decomposed,
        normalized_shape: tuple[int, ...],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        rules.normalising()
        dims = tuple(range(-len(normalized_shape), 0))
        whole = plain(x)
        deviation = (whole.var(dims, correction=0, keepdim=True) + eps).sqrt()
        parts = (x.parts - x.parts.mean(dims, keepdim=True)) / deviation
        result = function(whole, normalized_shape, weight, bias, eps)
        return decomposed(result, rules.give(parts if weight is None else parts * weight, bias), rules)

    return call(*args[:5], **kwargs)


def _rms_norm(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    def call(
        x: Decomposed, normalized_shape: tuple[int, ...], weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        rules.normalising()
        dims = tuple(range(-len(normalized_shape), 0))
        whole = plain(x)
        floor = torch.finfo(whole.dtype).eps if eps is None else eps
        parts = x.parts * (whole.square().mean(dims, keepdim=True) + floor).rsqrt()
        result = function(whole, normalized_shape, weight, eps)
        return decomposed(result, parts if weight is None else parts * weight, rules)

    return call(*args, **kwargs)


def _dropout(_rules: Rules, _f: _Function, args: _Args, _k: _Kwargs) -> Any:
    """The identity: models are in evaluation mode."""
    return args[0]


_Handler = Callable[[Rules, _Function, _Args, _Kwargs], Any]
_HANDLERS: dict[_Function, _Handler] = {
    **dict.fromkeys(_LINEAR, _linear_map),
    **dict.fromkeys(_STATISTICS, _statistic),
    **dict.fromkeys(_ACTIVATIONS, activation),
    **dict.fromkeys(_MATMULS, _matmul),
    **dict.fromkeys(_ADDS, _add),
    **dict.fromkeys(_SUBTRACTIONS, _subtract),
    **dict.fromkeys(_PRODUCTS, _multiply),
    **dict.fromkeys(_QUOTIENTS, _divide),
    F.linear: _linear,
    torch.addmm: _affine_product,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.dropout: _dropout,
}


@contextmanager
def frozen_activations(model: nn.Module) -> Iterator[None]:
    """Let activation modules act on decomposed activations as a whole, whatever operations they are written with."""
    modules = [module for module in model.modules() if is_activation(module) and not list(module.children())]

    def sloped(_module: nn.Module, forward: _Function) -> _Function:
        def call(x: Tensor) -> Tensor:
            if not isinstance(x, Decomposed):
                result: Tensor = forward(x)
                return result
            with torch._C.DisableTorchFunctionSubclass():
                if bool(forward(x.new_zeros(1)).any()):
                    _refuse("an activation that is not 0 at 0")
                return activation(x.rules, forward, (x,), {})

        return call

    with replacing_forward(modules, sloped):
        yield
