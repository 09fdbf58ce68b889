"""Who gets the biases of a decomposed activation; see `methods.decomposition.decomposed`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import resolve_name

from benchmark.models.blocks import replacing_forward
from methods.decomposition.decomposed import Bias, Decomposed, decomposed, plain
from methods.decomposition.operations import HANDLERS, activation, aligned, plain_tree, refuse
from methods.relevance.conservative import is_activation

_Function = Callable[..., Any]
_Args = tuple[Any, ...]
_Kwargs = Mapping[str, Any]

BiasShare = Literal["absdot", "apart", "none"]
Order = Literal["code", "paper"]


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
        if (handler := HANDLERS.get(function)) is not None:
            return handler(self, function, args, kwargs)
        result = function(*plain_tree(args), **plain_tree(kwargs))
        if isinstance(result, Tensor) and result.is_floating_point():
            refuse(resolve_name(function) or str(function))
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
        return self.hold(decomposed(whole, aligned(x, whole), self, x.bias), shift.expand(whole.shape))

    def _sum(self, whole: Tensor, a: Decomposed, b: Decomposed) -> Decomposed:
        """Biases that wait are shared before the sum; those of an attention after it, unless `order` is the paper's."""
        last: Bias | None = "attended" if self.order == "code" else None
        a, b = self.settled(a, but=last), self.settled(b, but=last)
        waits = "attended" in (a.bias, b.bias)
        made = decomposed(whole, aligned(a, whole) + aligned(b, whole), self, "held" if waits else "given")
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
                    refuse("an activation that is not 0 at 0")
                return activation(x.rules, forward, (x,), {})

        return call

    with replacing_forward(modules, sloped):
        yield
