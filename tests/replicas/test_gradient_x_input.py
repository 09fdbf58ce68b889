"""Gradient times input, one dimension at a time."""

import numpy as np
import pytest
import torch

from methods.gradient_x_input import GradientXInput
from tests.replicas.conftest import assert_same
from tests.replicas.embeddings_by_hand import check, embedded, gradient, reduced
from tests.replicas.registry import replicates


@replicates(GradientXInput, output="logit", attention="differentiated")
@pytest.mark.parametrize("reduce", ["dot", "absolute", "l1", "l2"])
def test_gradient_x_input(model, batch, target, plain, reduce):
    def slow(example, _):
        e = embedded(example)
        return [reduced(g * v, reduce) for g, v in zip(gradient(example, e), e[0], strict=True)]

    check(GradientXInput(reduce), model, batch, target, plain, slow)


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
