"""Vector decomposition: a tensor is carried through the unmodified model together with the parts that it is the sum of.

Given the attention probabilities, the statistics of normalisation layers and the slopes of activations of one example, a
transformer is affine. A `Decomposed` goes through the model in place of an activation. Its values are those of the model,
bit for bit; on its parts `[N, *shape]` every operation acts by the affine map that it is at this example:

- views, selections, sums, products with constants: the operation itself, part by part;
- `x Wᵀ + b`: `x_k Wᵀ`, and b as `bias` says;
- layer norm: `(x_k − mean(x_k)) / std(x) ⊙ γ`, with the deviation of the whole, and β as `bias` says; RMS norm likewise;
- attention: `Σ_j A_ij x_kj`; scores and probabilities are constants;
- activations: `x_k · f(x)/x`, the slope through the origin (DecompX);
- product of two activations (gated feed-forward layers): half of it by either factor, `½ (a_k b + a b_k)`.

So Σ_k x_k = x after every operation, unless biases are dropped. An operation without such a map ends in NotApplicable,
never in silently wrong parts.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from methods.propagation.decomposed import Decomposed, Waiting, decomposed, plain, settled
from methods.propagation.mode import ModuleCall, Propagation
from methods.propagation.operations import (
    Args,
    Function,
    Kwargs,
    difference_operands,
    linear_operands,
    norm_operands,
    sum_operands,
)

BiasShare = Literal["absdot", "apart", "none"]
Order = Literal["code", "paper"]


class Parts(Propagation):
    """The affine map of every operation, and who gets the biases.

    A bias waits in the last part until an operation needs the parts; then the parts that it was added to share it. What
    attention has mixed waits on until the residual sum, so that value bias and output bias are one, `W_O b_V + b_O`.

    Attributes:
        bias: whose the biases are. "absdot": the parts share a bias by their scalar products with it (`settled`), and the
            last part keeps what no other part has a share of. "apart": the last part keeps all. "none": biases are dropped.
        order: which parts share the bias of an attention. "code": those of the residual sum. "paper": those of the
            attention alone.
        owners: [N−1, B, T], which parts a token of the first block belongs to: its values go to them whole, biases
            included, as in the published code. None: these biases are like all others.
    """

    name = "vector decomposition"

    def __init__(self, bias: BiasShare = "apart", order: Order = "code", owners: Tensor | None = None) -> None:
        super().__init__()
        self.bias, self.order, self.owners = bias, order, owners
        self.handlers = {
            "move": self._map,
            "negate": self._map,
            "reduce": self._reduce,
            "identity": lambda _f, args, _k: args[0],
            "linear": lambda function, args, kwargs: self.linear(*linear_operands(function, args, kwargs)),
            "matmul": self._matmul,
            "add": lambda _f, args, kwargs: self.add(*sum_operands(args, kwargs)),
            "subtract": self._subtract,
            "product": self._product,
            "quotient": self._quotient,
            "activation": self._activation,
            "layer_norm": self._norm,
            "rms_norm": self._norm,
            **dict.fromkeys(("power", "variance", "softmax"), self._statistic),
        }

    def is_active(self, tensor: Tensor) -> bool:
        """A tensor with parts."""
        return isinstance(tensor, Decomposed)

    def normalising(self) -> None:
        """Called where the deviation of an activation is taken; a subclass that does not know the deviation refuses here."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x Wᵀ + b`."""
        x = settled(self._of_activation(x), but="attended")
        return self._hold(decomposed(F.linear(plain(x), weight, bias), F.linear(x.parts, weight), x.waiting), bias)

    def add(self, a: Any, b: Any) -> Tensor:
        """The sum of two activations, or of one and a constant."""
        whole = plain(a) + plain(b)
        if isinstance(a, Decomposed) and isinstance(b, Decomposed):
            return self._sum(whole, a, b)
        x, constant = (a, b) if isinstance(a, Decomposed) else (b, a)
        x = settled(x, but="attended")
        shift = constant if isinstance(constant, Tensor) else whole.new_tensor(constant)
        return self._hold(decomposed(whole, self._aligned(x, whole), x.waiting), shift.expand(whole.shape))

    def _sum(self, whole: Tensor, a: Decomposed, b: Decomposed) -> Decomposed:
        """Waiting biases are shared out before the sum; in the code's order those of an attention after it."""
        last: Waiting | None = "attended" if self.order == "code" else None
        a, b = settled(a, but=last), settled(b, but=last)
        waiting: Waiting = "held" if "attended" in (a.waiting, b.waiting) else "nothing"
        return settled(decomposed(whole, self._aligned(a, whole) + self._aligned(b, whole), waiting))

    def _hold(self, x: Decomposed, bias: Tensor | None) -> Decomposed:
        """x, whose values contain a bias ([D] or [*shape]) and its parts not yet, with that bias in the last part."""
        if bias is None or self.bias == "none":
            return x
        waiting: Waiting = "held" if self.bias == "absdot" and x.waiting == "nothing" else x.waiting
        return decomposed(plain(x), torch.cat([x.parts[:-1], x.parts[-1:] + bias]), waiting)

    def _attend(self, attention: Tensor, values: Decomposed) -> Decomposed:
        """`Σ_j A_ij v_j`."""
        values, self.owners = self._owned(values), None
        parts = torch.einsum("...ij,n...jd->n...id", attention, values.parts)
        waiting: Waiting = "attended" if self.bias == "absdot" else values.waiting
        return decomposed(torch.matmul(attention, plain(values)), parts, waiting)

    def _owned(self, values: Decomposed) -> Decomposed:
        """The values of the first block with their biases."""
        if self.owners is None:
            return values
        shares, rest = self.owners[:, :, None, :, None], values.parts[-1:]
        parts = torch.cat([values.parts[:-1] + shares * rest, rest * (1 - shares.sum(0, keepdim=True))])
        return decomposed(plain(values), parts)

    def _aligned(self, x: Decomposed, whole: Tensor) -> Tensor:
        """Parts in the shape of a result that x may have been broadcast to."""
        if x.dim() != whole.dim():
            self.refuse("an operation that adds dimensions to an activation")
        return x.parts if x.shape == whole.shape else x.parts.expand(len(x.parts), *whole.shape)

    def _of_activation(self, x: Any) -> Decomposed:
        if not isinstance(x, Decomposed):
            self.refuse("an operation on a constant with parameters that depend on an activation")
        return x

    def _map(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        """Part by part; the other tensors among the arguments are indices or sizes."""
        leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
        places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Decomposed)]
        if function in (torch.cat, torch.stack) and len(places) < sum(isinstance(leaf, Tensor) for leaf in leaves):
            self.refuse("joining an activation and a constant")
        activations = [leaves[place] for place in places]
        if len({x.waiting for x in activations}) > 1:
            activations = [settled(x) for x in activations]

        def call(*tensors: Tensor) -> Any:
            values = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                values[place] = tensor
            positional, named = pytree.tree_unflatten(values, spec)
            return function(*positional, **named)

        whole, parts = call(*map(plain, activations)), torch.vmap(call)(*(x.parts for x in activations))
        waiting = activations[0].waiting
        if isinstance(whole, Tensor):
            return decomposed(whole, parts, waiting)
        return tuple(decomposed(one, part, waiting) for one, part in zip(whole, parts, strict=True))

    def _reduce(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        return self._map(function, (settled(args[0]), *args[1:]), kwargs)

    def _statistic(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        """A constant of the example: a norm's statistics, attention probabilities."""
        self.normalising()
        result: Tensor = function(*plain(args), **plain(kwargs))
        return result

    def _activation(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        """`x_k · f(x)/x`, and 0 where x = 0."""
        x = settled(args[0])
        if isinstance(function, ModuleCall) and bool(function(plain(x).new_zeros(1)).any()):
            self.refuse("an activation that is not 0 at 0")
        z = plain(x)
        whole = function(z, *args[1:], **kwargs)
        return decomposed(whole, x.parts * torch.where(z == 0, 0.0, whole / z))

    def _matmul(self, _function: Function, args: Args, _kwargs: Kwargs) -> Tensor:
        a, b = args
        if not isinstance(a, Decomposed):
            return self._attend(a, b)
        whole = torch.matmul(plain(a), plain(b))
        if isinstance(b, Decomposed):
            return whole  # attention scores
        return decomposed(whole, torch.matmul(settled(a).parts, b))

    def _subtract(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        a, b = difference_operands(function, args, kwargs)
        return self.add(a, decomposed(-plain(b), -b.parts, b.waiting) if isinstance(b, Decomposed) else -b)

    def _product(self, _function: Function, args: Args, _kwargs: Kwargs) -> Tensor:
        a, b = args
        whole = plain(a) * plain(b)
        if isinstance(a, Decomposed) and isinstance(b, Decomposed):
            return decomposed(whole, 0.5 * (settled(a).parts * plain(b) + plain(a) * settled(b).parts))
        x, factor = (a, b) if isinstance(a, Decomposed) else (b, a)
        return self._scaled(whole, x, lambda parts: parts * factor)

    def _quotient(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        a, b = args
        if kwargs or isinstance(b, Decomposed):
            self.refuse("division by an activation")
        return self._scaled(function(plain(a), b), a, lambda parts: parts / b)

    def _scaled(self, whole: Tensor, x: Decomposed, scale: Callable[[Tensor], Tensor]) -> Tensor:
        """x times or by a constant."""
        if x.dim() != whole.dim():
            self.refuse("a product that adds dimensions to an activation")
        x = settled(x, but="attended")
        return decomposed(whole, scale(x.parts), x.waiting)

    def _norm(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        self.normalising()
        norm = norm_operands(function, (plain(args[0]), *args[1:]), kwargs)
        parts, centred = settled(args[0]).parts, norm.centre()
        if norm.centred:
            parts = parts - parts.mean(norm.dims, keepdim=True)
        parts = parts * (centred.square().mean(norm.dims, keepdim=True) + norm.epsilon).rsqrt()
        whole = function(*plain(args), **kwargs)
        scaled = decomposed(whole, parts if norm.weight is None else parts * norm.weight)
        return settled(self._hold(scaled, norm.bias))
