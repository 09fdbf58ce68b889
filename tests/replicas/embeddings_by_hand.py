"""Embeddings of the model of transformers, gradients there, and their reduction one number at a time."""

import math

import torch

from tests.replicas.conftest import assert_same


def embedded(example, ids=None):
    return example.model.get_input_embeddings()(example.ids if ids is None else ids).detach()


def gradient(example, embeddings, output="logit"):
    """∂F/∂e at these embeddings, [T, D]."""
    point = embeddings.clone().requires_grad_()
    logits = example.model(inputs_embeds=point).logits[0]
    value = logits[example.target] if output == "logit" else logits.softmax(0)[example.target]
    return torch.autograd.grad(value, point)[0][0]


def reduced(vector, how):
    numbers = [float(v) for v in vector]
    return {
        "dot": sum(numbers),
        "absolute": abs(sum(numbers)),
        "l1": sum(abs(v) for v in numbers),
        "l2": math.sqrt(sum(v * v for v in numbers)),
    }[how]


def check(method, model, batch, target, plain, slow):
    """`slow(example, row)` gives one score per token of the example alone."""
    found = method(model, batch, target).tokens
    for row, example in enumerate(plain):
        assert_same(found[row, : example.length], torch.tensor(slow(example, row), dtype=torch.float64))
        assert not found[row, example.length :].any()
