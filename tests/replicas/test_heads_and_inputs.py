"""Gradient × input, Taylor expansion and accuracy difference, by hooks and loops on the model of transformers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from methods.accuracy_difference import AccuracyDifference
from methods.gradient_x_input import GradientXInput
from methods.taylor import Taylor
from tests.replicas.conftest import assert_same


def test_gradient_x_input(model, batch, target, plain):
    found = GradientXInput()(model, batch, target).tokens
    for row, example in enumerate(plain):
        embeddings = example.model.get_input_embeddings()(example.ids).detach().requires_grad_()
        logits = example.model(inputs_embeds=embeddings).logits
        (gradient,) = torch.autograd.grad(logits[0, example.target], embeddings)
        slow = torch.zeros(example.length, dtype=torch.float64)
        for token, dimension in np.ndindex(*embeddings.shape[1:]):
            slow[token] += (gradient[0, token, dimension] * embeddings[0, token, dimension]).detach()
        assert_same(found[row, : example.length], slow)
        assert not found[row, example.length :].any()


def with_contexts(example, edit):
    """Logits of one example, with `edit(layer, context)` applied to what each layer's heads give to its output."""
    handles = [
        block.attention.output.dense.register_forward_pre_hook(lambda _, args, layer=layer: (edit(layer, args[0]),))
        for layer, block in enumerate(example.model.bert.encoder.layer)
    ]
    try:
        return example.logits().logits
    finally:
        for handle in handles:
            handle.remove()


def taylor_by_hand(example, objective):
    """Σ_i |Σ_d ctx[i,h,d] ∂L/∂ctx[i,h,d]|, one head and token at a time."""
    contexts = []

    def keep(_, context):
        contexts.append(context)
        return context

    logits = with_contexts(example, keep)
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


@pytest.mark.parametrize("objective", ["loss", "logits"])
def test_taylor(model, batch, target, plain, objective):
    method = Taylor(objective)
    heads = method(model, batch, target).heads
    slow = torch.stack([taylor_by_hand(example, objective) for example in plain])
    assert_same(heads, slow)
    mean = slow.sum(0) / len(plain)
    normalised = torch.stack([layer / torch.sqrt((layer**2).sum()) for layer in mean])
    assert_same(method.aggregate_heads(heads), normalised)


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

                without = int(with_contexts(example, mask).argmax()) == target
                assert float(found[row, masked_layer, masked_head]) == whole - without
                seen.add(whole - without)
    assert seen == {-1, 0, 1}


def test_accuracy_difference_in_small_chunks_is_the_same(model, batch, target):
    small = type(model)(**{**vars(model), "memory_budget": 1})
    assert torch.equal(
        AccuracyDifference()(small, batch, target).heads, AccuracyDifference()(model, batch, target).heads
    )
