"""Gradient times input, one dimension at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmark.settings.declared import SettingError
from methods.gradient_x_input import GradientXInput
from tests.replicas.conftest import assert_same
from tests.replicas.embeddings_by_hand import check, embedded, gradient, reduced
from tests.replicas.registry import replicates


@replicates(GradientXInput, output="logit", attention="differentiated", outputs="explained")
@pytest.mark.parametrize("reduce", ["dot", "absolute", "l1", "l2"])
def test_gradient_x_input(model, batch, target, plain, reduce):
    def slow(example, _):
        e = embedded(example)
        return [reduced(g * v, reduce) for g, v in zip(gradient(example, e), e[0], strict=True)]

    check(GradientXInput(reduce), model, batch, target, plain, slow)


@replicates(GradientXInput, attention="differentiated", outputs="all")
@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize("reduce", ["absolute", "l1", "l2"])
def test_gradient_x_input_of_all_outputs(model, batch, target, plain, output, reduce):
    """Reduced for each output and then summed, as in the code of Jain & Wallace 2019."""

    def slow(example, _):
        e = embedded(example)
        total = [0.0] * example.length
        for c in range(len(model.labels)):
            rows = zip(gradient(replace(example, target=c), e, output), e[0], strict=True)
            total = [old + reduced(g * v, reduce) for old, (g, v) in zip(total, rows, strict=True)]
        return total

    method = GradientXInput(reduce, output, outputs="all")
    check(method, model, batch, target, plain, slow)
    assert not method.class_specific
    with pytest.raises(SettingError, match="absolute, l1 and l2 with outputs=all"):
        GradientXInput(outputs="all")


def test_gradient_x_input_by_a_loop_over_dimensions(model, batch, target, plain):
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
