"""SmoothGrad with the same draws, one noisy input at a time."""

import math

import numpy as np
import pytest
import torch

from benchmark.errors import UserError
from benchmark.randomness import generator
from methods.gradient_norm import GradientNorm
from methods.smoothgrad import SmoothGrad
from tests.replicas.embeddings_by_hand import check, embedded, gradient, reduced
from tests.replicas.registry import replicates


def smoothgrad_by_hand(example, uid, method):
    e = embedded(example)
    numbers = e.numpy().ravel()
    scale = (
        max(numbers) - min(numbers) if method.scale == "range" else math.sqrt(np.mean((numbers - numbers.mean()) ** 2))
    )
    total = torch.zeros_like(e[0])
    for k in range(method.samples):
        noise = generator(method.seed, "noise", uid, str(k)).standard_normal(e.shape[1:]) * method.noise * scale
        total += gradient(example, e + torch.from_numpy(noise), method.output)
    mean = total / method.samples
    return [reduced(vector, method.reduce) for vector in (mean * e[0] if method.times_input else mean)]


@replicates(SmoothGrad, reduce={"l2", "l1"}, times_input=False)
@pytest.mark.parametrize(
    "method",
    [
        SmoothGrad(4),
        SmoothGrad(4, 0.3, "std", seed=1),
        SmoothGrad(3, times_input=True, reduce="dot"),
        SmoothGrad(3, reduce="l1", output="probability"),
    ],
)
def test_smoothgrad(model, batch, target, plain, method):
    check(
        method,
        model,
        batch,
        target,
        plain,
        lambda example, row: smoothgrad_by_hand(example, batch.draw_keys[row], method),
    )


def test_smoothgrad_with_vanishing_noise_is_the_gradient(model, batch, target):
    smooth = SmoothGrad(2, 1e-9)(model, batch, target).tokens
    assert torch.allclose(smooth, GradientNorm()(model, batch, target).tokens, rtol=1e-5)
    assert not torch.allclose(SmoothGrad(2, 0.3)(model, batch, target).tokens, smooth, rtol=1e-2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SmoothGrad(0), "samples=0: allowed are whole numbers from 1"),
        (lambda: SmoothGrad(noise=0), "noise=0: allowed are numbers above 0"),
    ],
)
def test_settings_that_do_not_exist(make, message):
    with pytest.raises(UserError, match=message):
        make()
