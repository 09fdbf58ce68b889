"""What is measured of a family that is not in the table: which final states its classifier reads, and what padding does."""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from benchmark.errors import UserError
from benchmark.models.blocks import blocks_of
from benchmark.models.classifier import Classifier
from benchmark.types import Batch

logger = logging.getLogger(__name__)

_ROUNDING = 1e-3  # of the largest logit: what another shape of the batch may change in float32
_TIMES = 5  # how often the longer text repeats the inner tokens


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


def check_padding(model: Classifier, inputs: Mapping[str, Tensor]) -> None:
    """UserError where the logits of a text change with what is beside it in a batch.

    Where a family's own forward lets padding through, a text has other logits in a batch than alone, and its explanations
    and tests would depend on what it is batched with.

    Args:
        inputs: `input_ids` of a text, and what goes with them.
    """
    longer = {name: torch.cat([ids[:1], *[ids[1:-1]] * _TIMES, ids[-1:]]) for name, ids in inputs.items()}
    with torch.no_grad():  # the model's own pass: what is measured here is no cost of an explanation
        alone, beside = (
            model.model(**model.encode(batch).tensors).logits[0].float() for batch in ([inputs], [inputs, longer])
        )
    change = float((beside - alone).abs().max())
    rounding = max(_ROUNDING, 10 * torch.finfo(model.encoder.dtype).eps)
    if change > rounding * max(1.0, float(alone.abs().max())):
        raise UserError(
            f"model '{model.name}' is of the family {model.config.model_type}, in which padding reaches the logits: those "
            f"of a text change by {change:.2g} when a longer one is beside it in a batch; it is not supported"
        )


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
