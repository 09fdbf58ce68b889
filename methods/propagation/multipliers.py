"""DeepLIFT's multipliers through the unmodified model's own graph: the rescale rule (Shrikumar 2017, section 3).

Inputs and references run together, as the two halves of one batch. The mode gives every operation that is not linear a
backward pass of multipliers, `m = Δout/Δin`, with Δ the difference between the row of an input and that of its reference.
Linear operations keep their ordinary gradient, which is their multiplier. Gradients of the first half are then multipliers.
"""

from typing import Any

import torch
from torch import Tensor

from methods.propagation.mode import Propagation, apply, ordinary
from methods.propagation.multiplier_rules import MatrixProduct, Normalised, Product, ReciprocalRoot, Secant, Softmax
from methods.propagation.operations import Args, Function, Kind, Kwargs, norm_operands


class RescaleRule(Propagation):
    """Gives operations on activations their multipliers; one that is neither linear nor known is refused."""

    name = "DeepLIFT"

    def __init__(self) -> None:
        super().__init__()
        linear: tuple[Kind, ...] = (
            "move", "identity", "detach", "mask", "select", "linear", "add", "accumulate", "subtract", "negate", "reduce",
        )  # fmt: skip
        self.handlers = {
            **dict.fromkeys(linear, ordinary),
            **dict.fromkeys(("activation", "elementwise"), _secant),
            **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
            "softmax": _softmax,
            "matmul": self._matmul,
            "product": self._product,
            "quotient": self._quotient,
            "power": self._power,
            "reciprocal_root": self._reciprocal_root,
        }
        self._roots: list[Tensor] = []

    def _matmul(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        both = all(map(self.acts_on, args))
        return apply(MatrixProduct, *args) if both else function(*args, **kwargs)

    def _product(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        """A product of an activation and the reciprocal root of a norm is treated as the division that it stands for."""
        a, b = args[:2]
        if not (self.acts_on(a) and self.acts_on(b)):
            return function(*args, **kwargs)
        if (root := next((root for root in self._roots if root is a or root is b), None)) is not None:
            return apply(Normalised, a if b is root else b, root)
        return apply(Product, a, b)

    def _quotient(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        return self.unknown(function, args, kwargs) if self.acts_on(*args[1:]) else function(*args, **kwargs)

    def _power(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        exponent = kwargs.get("exponent", (*args, 2)[1])  # torch.square has none
        square = isinstance(exponent, int | float) and exponent == 2
        return apply(Product, args[0], args[0]) if square else self.unknown(function, args, kwargs)

    def _reciprocal_root(self, _function: Function, args: Args, _kwargs: Kwargs) -> Any:
        self._roots.append(apply(ReciprocalRoot, *args))
        return self._roots[-1]


def _secant(function: Function, args: Args, kwargs: Kwargs) -> Any:
    return apply(Secant, args[0], lambda x: function(x, *args[1:], **kwargs))


def _softmax(_function: Function, args: Args, kwargs: Kwargs) -> Any:
    def call(z: Tensor, dim: int = -1, dtype: torch.dtype | None = None, **_: Any) -> Any:
        z = z if dtype is None else z.to(dtype)
        return apply(Softmax, z.transpose(dim, -1)).transpose(dim, -1)

    return call(*args, **kwargs)


def _norm(function: Function, args: Args, kwargs: Kwargs) -> Tensor:
    """Linear centring, a product for the square, the root, and the division by it."""
    norm = norm_operands(function, args, kwargs)
    centred = norm.centre()
    mean_square = apply(Product, centred, centred).mean(norm.dims, keepdim=True)
    return norm.scaled(apply(Normalised, centred, apply(ReciprocalRoot, mean_square + norm.epsilon)))
