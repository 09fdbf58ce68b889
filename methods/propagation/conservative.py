"""Gradient × input with normalisers held constant and gates halved (Ali 2022; `rule_sets.Conservative`).

An ordinary backward pass; attention probabilities are held constant by an edit of the instrumented attention.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmark.models.ledger import Ledger
from methods.propagation.mode import Handler, Propagation, ordinary
from methods.propagation.operations import Args, Function, Kind, Kwargs, linear_operands, norm_operands


class FrozenNorms(Propagation):
    """Detaches the denominators of normalisation layers, and of those written out with a root (RMS norms of decoders).

    All other operations keep their gradient; activations are single operations: products inside GELU's formula are no gates.

    Args:
        identity: whether activations pass relevance unchanged, `x ∂/∂x = f(x)`, rather than by their gradient.
        constant_gates: whether of a product with one factor that comes from an activation this factor, the gate, is held
            constant, rather than each factor having half.
    """

    name = "conservative propagation"

    def __init__(self, *, identity: bool = False, constant_gates: bool = False) -> None:
        super().__init__()
        self.identity, self.constant_gates = identity, constant_gates
        self.handlers = {
            "activation": self._activation,
            "product": self._product,
            "layer_norm": _norm,
            "rms_norm": _norm,
            "root": _root,
            "reciprocal_root": _root,
            "group_norm": lambda *_: self.refuse("group or batch normalisation"),
        }

    def noted(
        self, ledger: Ledger, kind: Kind, handler: Handler, function: Function, args: Args, kwargs: Kwargs
    ) -> Any:
        """The operation with the relevance, a value times its gradient, that reaches it and that leaves it."""
        bias = linear_operands(function, args, kwargs)[2] if kind == "linear" else None
        smooth = kind in ("activation", "elementwise") and not self.identity
        return ledger.note(
            kind,
            partial(handler, function),
            args,
            kwargs,
            self.is_active,
            exempt="x f'(x) is not f(x)" if smooth else "",
            of_bias=None if bias is None else lambda slope: slope * bias.detach(),
            by_value=True,
        )

    def unknown(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        """Its gradient is what is wanted."""
        return ordinary(function, args, kwargs)

    def _activation(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        y = function(*args, **kwargs)
        if self.identity:
            x = args[0]
            y = x * (y / torch.where(x == 0, 1, x)).detach()
        if self.constant_gates:
            y.is_gate = True
        return y

    def _product(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        a, b = args[:2]
        if not (self.acts_on(a) and self.acts_on(b)):
            return function(*args, **kwargs)
        first, second = (getattr(factor, "is_gate", False) for factor in (a, b))
        if first != second:
            return a.detach() * b if first else a * b.detach()
        return (a * b.detach() + a.detach() * b) / 2


def _norm(function: Function, args: Args, kwargs: Kwargs) -> Tensor:
    norm = norm_operands(function, args, kwargs)
    centred = norm.centre()
    return norm.scaled(centred / (centred.detach().square().mean(norm.dims, keepdim=True) + norm.epsilon).sqrt())


def _root(function: Function, args: Args, kwargs: Kwargs) -> Tensor:
    root: Tensor = function(*args, **kwargs)
    return root.detach()
