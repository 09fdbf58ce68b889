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
from methods.decomposition.decomposed import Bias, Decomposed, decomposed, plain
from methods.relevance.conservative import is_activation

_Function = Callable[..., Any]
_Args = tuple[Any, ...]
_Kwargs = Mapping[str, Any]

BiasShare = Literal["absdot", "apart", "none"]
Order = Literal["code", "paper"]

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


@dataclass
class Rules:
    """The affine map of every operation, and who gets the biases.

    A bias waits in the last part until an operation needs the parts: it is shared by the parts that it was added to. What
    attention has mixed waits on until the residual sum, so that value bias and output bias are one, `W_O b_V + b_O`.

    Attributes:
        bias: "absdot", part k gets the share `|b·x_k| / Σ_k |b·x_k|` of a bias b, the last part what no other part has
            a share of; "apart", the last part keeps all; "none", biases are dropped.
        order: "code", the bias of an attention is shared by the parts of the residual sum; "paper", by those of the
            attention alone.
        owners: [N−1, B, T], which parts own a token of the first block: its values go to them whole, biases included, as
            in the published code. None: these biases are like all others.
    """

    bias: BiasShare = "apart"
    order: Order = "code"
    owners: Tensor | None = None

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
        x = self.settled(x, but="attended")
        return self.hold(decomposed(F.linear(plain(x), weight, bias), F.linear(x.parts, weight), self, x.bias), bias)

    def add(self, a: Any, b: Any) -> Tensor:
        """The sum of two activations, or of one and a constant."""
        whole = plain(a) + plain(b)
        if isinstance(a, Decomposed) and isinstance(b, Decomposed):
            return self._sum(whole, a, b)
        x, constant = (a, b) if isinstance(a, Decomposed) else (b, a)
        x = self.settled(x, but="attended")
        shift = constant if isinstance(constant, Tensor) else whole.new_tensor(constant)
        return self.hold(decomposed(whole, _aligned(x, whole), self, x.bias), shift.expand(whole.shape))

    def _sum(self, whole: Tensor, a: Decomposed, b: Decomposed) -> Decomposed:
        """Biases that wait are shared before the sum; those of an attention after it, unless `order` is the paper's."""
        last = "attended" if self.order == "code" else None
        a, b = self.settled(a, but=last), self.settled(b, but=last)
        waits = "attended" in (a.bias, b.bias)
        made = decomposed(whole, _aligned(a, whole) + _aligned(b, whole), self, "held" if waits else "given")
        return self.settled(made)

    def attend(self, attention: Tensor, values: Decomposed) -> Decomposed:
        """`Σ_j A_ij v_j`."""
        values, self.owners = self._owned(values), None
        parts = torch.einsum("...ij,n...jd->n...id", attention, values.parts)
        waits: Bias = "attended" if self.bias == "absdot" else values.bias
        return decomposed(torch.matmul(attention, plain(values)), parts, self, waits)

    def _owned(self, values: Decomposed) -> Decomposed:
        """The values of the first block with their biases."""
        if self.owners is None:
            return values
        shares, rest = self.owners[:, :, None, :, None], values.parts[-1:]
        parts = torch.cat([values.parts[:-1] + shares * rest, rest * (1 - shares.sum(0, keepdim=True))])
        return decomposed(plain(values), parts, self)

    def hold(self, x: Decomposed, bias: Tensor | None) -> Decomposed:
        """x, which has a bias ([D] or [*shape]) that its parts do not have yet: it waits in the last part."""
        if bias is None or self.bias == "none":
            return x
        parts = torch.cat([x.parts[:-1], x.parts[-1:] + bias])
        waits: Bias = "held" if self.bias == "absdot" and x.bias == "given" else x.bias
        return decomposed(plain(x), parts, self, waits)

    def settled(self, x: Decomposed, but: Bias | None = None) -> Decomposed:
        """x with no bias waiting, unless it waits as `but` says."""
        if x.bias in ("given", but):
            return x
        parts, bias = x.parts[:-1], x.parts[-1]
        weights = torch.linalg.vecdot(parts, bias).abs().unsqueeze(-1)
        total = weights.sum(0)
        nobody = total == 0
        weights = weights / total.masked_fill(nobody, 1.0)
        rest = bias * nobody.to(weights.dtype)
        return decomposed(plain(x), torch.cat([torch.addcmul(parts, weights, bias), rest[None]]), self)


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
    if function in _REDUCTIONS or len({leaves[place].bias for place in places}) > 1:
        leaves = [rules.settled(leaf) if isinstance(leaf, Decomposed) else leaf for leaf in leaves]
    bias = leaves[places[0]].bias
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
        return decomposed(whole, parts, rules, bias)
    return tuple(decomposed(one, part, rules, bias) for one, part in zip(whole, parts, strict=True))


def _statistic(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    rules.normalising()
    result: Tensor = function(*_plain(args), **_plain(kwargs))
    return result


def activation(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    """`x_k · f(x)/x`, and 0 where x = 0 (f(0) = 0 for all that are served)."""
    x = rules.settled(args[0])
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
    if not isinstance(a, Decomposed):
        return rules.attend(a, b)
    whole = torch.matmul(plain(a), plain(b))
    if isinstance(b, Decomposed):
        return whole  # attention scores
    a = rules.settled(a)
    return decomposed(whole, torch.matmul(a.parts, b), rules)


def _add(rules: Rules, _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    if kwargs:
        _refuse("a scaled addition (torch.add with alpha)")
    return rules.add(args[0], args[1])


def _subtract(rules: Rules, _f: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    a, b = args
    if kwargs or not isinstance(a, Decomposed):
        _refuse("subtracting an activation from a constant")
    minus = decomposed(-plain(b), -b.parts, rules, b.bias) if isinstance(b, Decomposed) else -b
    return rules.add(a, minus)


def _multiply(rules: Rules, _f: _Function, args: _Args, _k: _Kwargs) -> Tensor:
    a, b = args
    whole = plain(a) * plain(b)
    if isinstance(a, Decomposed) and isinstance(b, Decomposed):
        left, right = rules.settled(a).parts, rules.settled(b).parts
        return decomposed(whole, 0.5 * (left * plain(b) + plain(a) * right), rules)
    x, factor = (a, b) if isinstance(a, Decomposed) else (b, a)
    if x.dim() != whole.dim():
        _refuse("a product that adds dimensions to an activation")
    x = rules.settled(x, but="attended")
    return decomposed(whole, x.parts * factor, rules, x.bias)


def _divide(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    a, b = args
    if kwargs or isinstance(b, Decomposed):
        _refuse("division by an activation")
    whole = function(plain(a), b)
    if a.dim() != whole.dim():
        _refuse("a quotient that adds dimensions to an activation")
    a = rules.settled(a, but="attended")
    return decomposed(whole, a.parts / b, rules, a.bias)


def _layer_norm(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
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


def _rms_norm(rules: Rules, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
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


def _dropout(_rules: Rules, _f: _Function, args: _Args, _k: _Kwargs) -> Any:
    """The identity: models are in evaluation mode."""
    return args[0]


_Handler = Callable[[Rules, _Function, _Args, _Kwargs], Any]
_HANDLERS: dict[_Function, _Handler] = {
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
