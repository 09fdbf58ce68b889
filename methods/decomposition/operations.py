"""How each operation acts on the parts of a decomposed activation; see `methods.decomposition.decomposed`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmark.errors import NotApplicable
from methods.decomposition.decomposed import Decomposed, decomposed, plain

if TYPE_CHECKING:
    from methods.decomposition.part_rules import Rules

_Function = Callable[..., Any]
_Args = tuple[Any, ...]
_Kwargs = Mapping[str, Any]

# Linear in their tensors: they act on each part as on the whole.
_LINEAR = (
    Tensor.view, Tensor.view_as, Tensor.reshape, torch.reshape, Tensor.transpose, torch.transpose, Tensor.permute,
    torch.permute, Tensor.contiguous, Tensor.__getitem__, Tensor.split, torch.split, Tensor.chunk, torch.chunk,
    Tensor.unbind, torch.unbind, torch.cat, Tensor.expand, Tensor.squeeze, torch.squeeze, Tensor.unsqueeze,
    torch.unsqueeze, Tensor.flatten, torch.flatten, Tensor.repeat_interleave, torch.repeat_interleave, Tensor.to,
    Tensor.type, Tensor.float, Tensor.double, Tensor.clone, torch.clone, Tensor.select, torch.stack, Tensor.gather,
    torch.gather, Tensor.index_select, torch.index_select, Tensor.neg, torch.neg, Tensor.__neg__,
)  # fmt: skip
_REDUCTIONS = (Tensor.sum, torch.sum, Tensor.mean, torch.mean)
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


def plain_tree(tree: Any) -> Any:
    """Nested values without their parts."""
    return pytree.tree_map_only(Decomposed, plain, tree)


def refuse(what: str) -> None:
    """NotApplicable for an operation without an affine map."""
    raise NotApplicable(f"vector decomposition has no rule for {what}, which this model uses")


def aligned(x: Decomposed, whole: Tensor) -> Tensor:
    """Parts in the shape of a result that x may have been broadcast to."""
    if x.dim() != whole.dim():
        refuse("an operation that adds dimensions to an activation")
    return x.parts if x.shape == whole.shape else x.parts.expand(len(x.parts), *whole.shape)


def _linear_map(rules: "Rules", function: _Function, args: _Args, kwargs: _Kwargs) -> Any:
    """Part by part; the other tensors among the arguments are indices or sizes."""
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Decomposed)]
    if function in _REDUCTIONS or len({leaves[place].bias for place in places}) > 1:
        leaves = [rules.settled(leaf) if isinstance(leaf, Decomposed) else leaf for leaf in leaves]
    bias = leaves[places[0]].bias
    if function in (torch.cat, torch.stack) and len(places) < sum(isinstance(leaf, Tensor) for leaf in leaves):
        refuse("joining an activation and a constant")

    def call(*tensors: Tensor) -> Any:
        values = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        positional, named = pytree.tree_unflatten(values, spec)
        return function(*positional, **named)

    whole = call(*(plain(leaves[place]) for place in places))
    parts = torch.vmap(call)(*(leaves[place].parts for place in places))
    if isinstance(whole, Tensor):
        return decomposed(whole, parts, rules, bias)
    return tuple(decomposed(one, part, rules, bias) for one, part in zip(whole, parts, strict=True))


def _statistic(rules: "Rules", function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    rules.normalising()
    result: Tensor = function(*plain_tree(args), **plain_tree(kwargs))
    return result


def activation(rules: "Rules", function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    """`x_k · f(x)/x`, and 0 where x = 0 (f(0) = 0 for all that are served)."""
    x = rules.settled(args[0])
    whole = function(*plain_tree(args), **kwargs)
    z = plain(x)
    return decomposed(whole, x.parts * torch.where(z == 0, 0.0, whole / z), rules)


def _linear(rules: "Rules", _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    def call(x: Decomposed, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return rules.linear(x, weight, bias)

    return call(*args, **kwargs)


def _affine_product(rules: "Rules", _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    """torch.addmm(bias, x, weight)."""
    if kwargs or not isinstance(args[1], Decomposed):
        refuse("a scaled torch.addmm")
    return rules.linear(args[1], args[2].t(), args[0])


def _matmul(rules: "Rules", _f: _Function, args: _Args, _k: _Kwargs) -> Tensor:
    a, b = args
    if not isinstance(a, Decomposed):
        return rules.attend(a, b)
    whole = torch.matmul(plain(a), plain(b))
    if isinstance(b, Decomposed):
        return whole  # attention scores
    a = rules.settled(a)
    return decomposed(whole, torch.matmul(a.parts, b), rules)


def _add(rules: "Rules", _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    if kwargs:
        refuse("a scaled addition (torch.add with alpha)")
    return rules.add(args[0], args[1])


def _subtract(rules: "Rules", _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    a, b = args
    if kwargs or not isinstance(a, Decomposed):
        refuse("subtracting an activation from a constant")
    minus = decomposed(-plain(b), -b.parts, rules, b.bias) if isinstance(b, Decomposed) else -b
    return rules.add(a, minus)


def _multiply(rules: "Rules", _f: _Function, args: _Args, _k: _Kwargs) -> Tensor:
    a, b = args
    whole = plain(a) * plain(b)
    if isinstance(a, Decomposed) and isinstance(b, Decomposed):
        left, right = rules.settled(a).parts, rules.settled(b).parts
        return decomposed(whole, 0.5 * (left * plain(b) + plain(a) * right), rules)
    x, factor = (a, b) if isinstance(a, Decomposed) else (b, a)
    if x.dim() != whole.dim():
        refuse("a product that adds dimensions to an activation")
    x = rules.settled(x, but="attended")
    return decomposed(whole, x.parts * factor, rules, x.bias)


def _divide(rules: "Rules", function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    a, b = args
    if kwargs or isinstance(b, Decomposed):
        refuse("division by an activation")
    whole = function(plain(a), b)
    if a.dim() != whole.dim():
        refuse("a quotient that adds dimensions to an activation")
    a = rules.settled(a, but="attended")
    return decomposed(whole, a.parts / b, rules, a.bias)


def _layer_norm(rules: "Rules", function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    def call(
        x: Decomposed,
        normalized_shape: tuple[int, ...],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        rules.normalising()
        x = rules.settled(x)
        dims = tuple(range(-len(normalized_shape), 0))
        whole = plain(x)
        deviation = (whole.var(dims, correction=0, keepdim=True) + eps).sqrt()
        parts = (x.parts - x.parts.mean(dims, keepdim=True)) / deviation
        result = function(whole, normalized_shape, weight, bias, eps)
        made = decomposed(result, parts if weight is None else parts * weight, rules)
        return rules.settled(rules.hold(made, bias))

    return call(*args[:5], **kwargs)


def _rms_norm(rules: "Rules", function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    def call(
        x: Decomposed, normalized_shape: tuple[int, ...], weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        rules.normalising()
        x = rules.settled(x)
        dims = tuple(range(-len(normalized_shape), 0))
        whole = plain(x)
        floor = torch.finfo(whole.dtype).eps if eps is None else eps
        parts = x.parts * (whole.square().mean(dims, keepdim=True) + floor).rsqrt()
        result = function(whole, normalized_shape, weight, eps)
        return decomposed(result, parts if weight is None else parts * weight, rules)

    return call(*args, **kwargs)


def _dropout(_rules: "Rules", _f: _Function, args: _Args, _k: _Kwargs) -> Any:
    """The identity: models are in evaluation mode."""
    return args[0]


_Handler = Callable[["Rules", _Function, _Args, _Kwargs], Any]
HANDLERS: dict[_Function, _Handler] = {
    **dict.fromkeys((*_LINEAR, *_REDUCTIONS), _linear_map),
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
