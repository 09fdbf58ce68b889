"""Run one transformer block again, from its recorded input, without the blocks below and above it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models.attention_interface import Tape, ValueEdit, recording
from benchmark.models.blocks import BlockTape, Reached, observing
from benchmark.models.classifier import Classifier, Tensors
from benchmark.models.next_token import refuse_whole
from benchmark.models.streams import ENCODER


def run_block(
    model: Classifier,
    tensors: Tensors,
    layer: int,
    hidden: Float[Tensor, "B T D"],
    *,
    value_edits: Sequence[ValueEdit] = (),
    replace: Mapping[int, Tensor] = MappingProxyType({}),
) -> Tensor:
    """The output [B T D] of block `layer` where it reads `hidden`.

    Args:
        model: any instrumented classifier.
        tensors: inputs with the batch dimension of `hidden`, from which the model makes masks and positions.
        layer: number of the block, counted in attention calls.
        hidden: what the block reads.
        value_edits: applied to the value vectors before the product with the attention probabilities.
        replace: by layer, probabilities that stand in for the layer's own.

    Returns:
        What the block gives, or what a value edit's descendants raised as `Reached` before its end.

    Raises:
        NotApplicable: a decoder's block, which reads the states of the encoder as well.
    """
    if model.streams.queries[layer] != ENCODER:
        raise NotApplicable(
            f"the block of '{model.attention_names[layer]}' reads the encoder too: it cannot be run alone"
        )
    refuse_whole(tensors)
    tape = Tape(modules=frozenset(map(id, model.attention_modules)), value_edits=value_edits, replace=replace)
    blocks = BlockTape(tape, start=(layer, hidden), stop=layer)
    model.cost.forward_passes += len(hidden) / model.n_layers
    try:
        with torch.no_grad(), recording(tape), observing(model.model, model.attention_modules, blocks):
            model.model(**tensors)
    except Reached as reached:
        return reached.output
    raise AssertionError(f"block {layer} was not reached")
