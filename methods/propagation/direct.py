"""The direct path to a logit: what is added to the residual stream, past all other sublayers.

The outputs of attention and of feed-forward networks are constants, whatever these compute. Normalisations of the stream
are the affine maps that they are at the example (the deviation of the whole, no β), and so is the classification head, its
activations being lines through the origin. What an attention sublayer adds at token i of layer l then reaches the explained
number F by a linear map, `g_li · x`.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.models.blocks import blocks_of
from benchmark.targets import Target
from benchmark.types import Batch
from methods.propagation.block_parts import refuse_cross_attention
from methods.propagation.decomposed import Decomposed, decomposed, plain
from methods.propagation.mode import propagating
from methods.propagation.operations import Args, Function, Kwargs
from methods.propagation.part_rules import Parts


class _DirectPath(Parts):
    """One part, which only the residual stream carries, and at each layer's first sum something of 0 to differentiate by.

    Attributes:
        added: what is added to the part at the residual sum of each layer's attention, [B T D].
    """

    name = "the direct path"

    def __init__(self, added: list[Tensor]) -> None:
        super().__init__("none")
        self.added = added
        self._within_blocks = True
        self._attending: int | None = None

    def attend(self, layer: int, value: Tensor) -> Tensor:
        """The attention of a layer has its values: the next sum on the stream is that with its output."""
        self._attending = layer
        return value

    def leave_blocks(self, *_call: Any) -> None:
        """The head follows."""
        self._within_blocks = False

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Within a block a constant, since what it gives is no longer the stream."""
        if self._within_blocks:
            return nn.functional.linear(plain(x), weight, bias)
        return super().linear(x, weight, bias)

    def unknown(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        """Within a block a constant too, as what experts of a feed-forward network compute."""
        if self._within_blocks:
            return function(*plain(args), **plain(kwargs))
        return super().unknown(function, args, kwargs)

    def add(self, a: Any, b: Any) -> Tensor:
        """The stream and what a sublayer adds to it."""
        x = super().add(a, b)
        if self._attending is None:
            return x
        added, self._attending = self.added[self._attending], None
        return decomposed(plain(x), x.parts + added) if isinstance(x, Decomposed) else x


def direct_gradients(model: Classifier, batch: Batch, target: Target) -> tuple[Float[Tensor, "B T D"], ...]:
    """`g_li = ∂F/∂(what attention adds at token i of layer l)` along the direct path, one tensor per layer.

    Raises:
        NotApplicable: the model has cross-attention, uses an operation whose affine map is not known, or has a residual
            stream that does not reach the logits.
    """
    refuse_cross_attention(model)
    hidden = model.run(batch, record=("hidden",)).hidden[0]
    start = decomposed(hidden, torch.zeros_like(hidden)[None])
    with torch.enable_grad():
        added = [torch.zeros_like(hidden).requires_grad_() for _ in range(model.n_layers)]
        mode = _DirectPath(added)
        handle = blocks_of(model.model, model.attention_modules)[-1].register_forward_hook(mode.leave_blocks)
        try:
            with propagating(model.model, mode):
                # recorded attention keeps all rows of the last block, as `added` has them
                trace = model.run(batch, start=(0, start), value_edits=[mode.attend], record=("attentions",), grad=True)
        finally:
            handle.remove()
        logits = trace.logits
        if not isinstance(logits, Decomposed):
            raise NotApplicable("the residual stream of this model does not reach its logits by sums and norms alone")
        explained = target.of_parts(logits.parts, plain(logits))
    return model.gradients(explained[0], added)
