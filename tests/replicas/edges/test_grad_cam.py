"""Attention weighted by a mean of its gradient, head by head."""

import numpy as np
import pytest
import torch

from methods.edges.grad_cam import GradCam
from tests.replicas.edges.by_hand import compare
from tests.replicas.registry import replicates


@replicates(GradCam)
@pytest.mark.parametrize("mean_over", ["matrix", "read_row"])
def test_grad_cam(model, batch, target, plain, mean_over):
    def slow(_, example):
        attention, gradient = example.attentions_and_gradients()
        n = example.length
        result = torch.zeros_like(attention)
        for layer, head in np.ndindex(*attention.shape[:2]):
            if mean_over == "matrix":
                cells = [gradient[layer, head, i, j] for i in range(n) for j in range(n)]
            else:  # row CLS, without the special tokens at both ends
                cells = [gradient[layer, head, 0, j] for j in range(1, n - 1)]
            result[layer, head] = attention[layer, head] * sum(cells) / len(cells)
        return result

    compare(GradCam(mean_over), model, batch, target, plain, slow)
