"""Each head masked for itself by a hook on the model of transformers."""

import numpy as np
import torch

from methods.accuracy_difference import AccuracyDifference
from tests.replicas.registry import replicates


@replicates(AccuracyDifference)
def test_accuracy_difference(model, batch, plain):
    """For every class as the target, so that heads that lose it and heads that win it both occur."""
    seen = set()
    for target in range(3):
        found = AccuracyDifference()(model, batch, torch.full((len(batch),), target)).heads
        for row, example in enumerate(plain):
            n_heads = model.n_heads
            width = example.model.config.hidden_size // n_heads
            whole = int(example.logits().logits.argmax()) == target
            for masked_layer, masked_head in np.ndindex(model.n_layers, n_heads):

                def mask(layer, context, masked=(masked_layer, masked_head), width=width):
                    if layer != masked[0]:
                        return context
                    zeroed = context.clone()
                    zeroed[..., masked[1] * width : (masked[1] + 1) * width] = 0
                    return zeroed

                without = int(example.logits_with_contexts(mask).argmax()) == target
                assert float(found[row, masked_layer, masked_head]) == whole - without
                seen.add(whole - without)
    assert seen == {-1, 0, 1}


def test_accuracy_difference_in_small_chunks_is_the_same(model, batch, target):
    small = type(model)(**{**vars(model), "memory_budget": 1})
    assert torch.equal(
        AccuracyDifference()(small, batch, target).heads, AccuracyDifference()(model, batch, target).heads
    )
