"""Which final states a classifier reads, measured; the guess about a family that is not in the table is checked by it."""

import logging
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from benchmark.models.blocks import blocks_of
from benchmark.models.classifier import Classifier
from benchmark.types import Batch

logger = logging.getLogger(__name__)


def states_read(model: Classifier, batch: Batch) -> Bool[Tensor, "B T"]:
    """True for the tokens with `∂y_0/∂x[j] ≠ 0`, x the output of the last block.

    Of an encoder–decoder: for the decoder's positions.
    """
    states: list[Tensor] = []

    def leaf(_module: nn.Module, _args: Any, output: Any) -> Any:
        other_outputs = output[1:] if isinstance(output, tuple) else None
        states.append((output if other_outputs is None else output[0]).detach().requires_grad_())
        return states[-1] if other_outputs is None else (states[-1], *other_outputs)

    handle = blocks_of(model.model, model.attention_modules)[-1].register_forward_hook(leaf)
    try:
        with torch.enable_grad():
            logits = model.model(**batch.tensors).logits
    finally:
        handle.remove()
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), states[-1:])
    return gradient.abs().sum(-1) > 0


def check_guess(model: Classifier, batch: Batch) -> None:
    """Warn where the classifier reads other tokens than the guessed family says."""
    measured, guessed = states_read(model, batch)[0], model.read_weights(batch)[0] > 0
    if not torch.equal(measured, guessed):
        logger.warning(
            "the guess is wrong: the logits of '%s' depend on the final states of the tokens %s, not %s, of %d; readouts "
            "start from the wrong row",
            model.name,
            *(", ".join(map(str, row.nonzero().flatten().tolist())) for row in (measured, guessed)),
            len(measured),
        )
