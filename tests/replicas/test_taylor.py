"""Taylor expansion by hooks and loops on the model of transformers, one head and token at a time."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from methods.taylor import Taylor
from tests.replicas.conftest import assert_same
from tests.replicas.registry import replicates


def taylor_by_hand(example, objective):
    """Σ_i |Σ_d ctx[i,h,d] ∂L/∂ctx[i,h,d]|, one head and token at a time."""
    contexts = []

    def keep(_, context):
        contexts.append(context)
        return context

    logits = example.logits_with_contexts(keep)
    loss = F.cross_entropy(logits, torch.tensor([example.target])) if objective == "loss" else logits.sum()
    gradients = torch.autograd.grad(loss, contexts)
    n_heads = example.model.config.num_attention_heads
    width = contexts[0].shape[-1] // n_heads
    result = torch.zeros(len(contexts), n_heads, dtype=torch.float64)
    for layer, head in np.ndindex(*result.shape):
        part = slice(head * width, (head + 1) * width)
        for token in range(example.length):
            inner = contexts[layer][0, token, part] @ gradients[layer][0, token, part]
            result[layer, head] += abs(inner.item())
    return result


@replicates(Taylor)
@pytest.mark.parametrize("objective", ["loss", "logits"])
def test_taylor(model, batch, target, plain, objective):
    method = Taylor(objective)
    heads = method(model, batch, target).heads
    slow = torch.stack([taylor_by_hand(example, objective) for example in plain])
    assert_same(heads, slow)
    mean = slow.sum(0) / len(plain)
    normalised = torch.stack([layer / torch.sqrt((layer**2).sum()) for layer in mean])
    assert_same(method.aggregate_heads(heads), normalised)
