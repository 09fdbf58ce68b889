"""A tensor that knows what it is the sum of: `x = Σ_k x_k`.

Given the attention probabilities, the statistics of normalisation layers and the slopes of activations of one example, a
transformer is affine. A `Decomposed` goes through the unmodified model in place of an activation: its own values are
those of the model, bit for bit, and every operation on it acts on its parts `[N, *shape]` by the affine map that the
operation is at this example:

- views, selections, sums, products with constants: the operation itself, part by part;
- `x Wᵀ + b`: `x_k Wᵀ`, and b as the rules say;
- layer norm: `(x_k − mean(x_k)) / std(x) ⊙ γ`, with the deviation of the whole, and β as the rules say; RMS norm likewise;
- attention: `Σ_j A_ij x_kj`; scores and probabilities are constants;
- activations: `x_k · f(x)/x`, the slope through the origin (DecompX);
- product of two activations (gated feed-forward layers): half of it by either factor, `½ (a_k b + a b_k)`.

So Σ_k x_k = x after every operation, where biases are given to the parts and not dropped. An operation without such a
map ends in NotApplicable, never in silently wrong parts.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from methods.decomposition.part_rules import Rules


Bias = Literal["given", "held", "attended"]
"""Where the biases of an activation are: with the parts that they were given to; in the last part until the next operation
that needs its parts; or in the last part until the residual sum, since attention has mixed them."""


class Decomposed(Tensor):
    """An activation and its parts; made by `decomposed`.

    Attributes:
        parts: [N, *shape].
        rules: how operations act on them.
        bias: where its biases are.
    """

    parts: Tensor
    rules: "Rules"
    bias: Bias

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Dispatch one operation to the rules of the first decomposed argument."""
        with torch._C.DisableTorchFunctionSubclass():
            return _first(args, kwargs or {}).rules.apply(func, args, kwargs or {})


def decomposed(whole: Tensor, parts: Tensor, rules: "Rules", bias: Bias = "given") -> Decomposed:
    """`whole` [*shape] with its `parts` [N, *shape]."""
    made: Decomposed = Tensor._make_subclass(Decomposed, whole.detach())
    made.parts, made.rules, made.bias = parts, rules, bias
    return made


def plain(value: Any) -> Any:
    """The value without its parts; anything else as it is."""
    with torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(Tensor) if isinstance(value, Decomposed) else value


def _first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Decomposed:
    for value in (*args, *kwargs.values()):
        if isinstance(value, Decomposed):
            return value
        if isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, Decomposed):
                    return item
    raise AssertionError("no decomposed argument")
