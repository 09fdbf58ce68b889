"""Gradient norms, integrated gradients and SmoothGrad, one example, step and dimension at a time."""

import math

import numpy as np
import pytest
import torch

import benchmark
from benchmark.errors import UserError
from benchmark.settings.randomness import generator
from methods.gradient_norm import GradientNorm
from methods.gradient_x_input import GradientXInput
from methods.integrated_gradients import IntegratedGradients
from methods.shared.input_gradients import baseline_embeddings, embeddings_of
from methods.shared.quadrature import nodes_and_weights
from methods.smoothgrad import SmoothGrad
from tests import text_models, tiny_models
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


@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize("p", [1, 2])
def test_gradient_norm(model, batch, target, plain, p, output):
    def slow(example, _):
        return [reduced(vector, f"l{p}") for vector in gradient(example, embedded(example), output)]

    check(GradientNorm(p, output), model, batch, target, plain, slow)


@pytest.mark.parametrize("reduce", ["dot", "absolute", "l1", "l2"])
def test_gradient_x_input(model, batch, target, plain, reduce):
    def slow(example, _):
        e = embedded(example)
        return [reduced(g * v, reduce) for g, v in zip(gradient(example, e), e[0], strict=True)]

    check(GradientXInput(reduce), model, batch, target, plain, slow)


def start_of(example, baseline):
    """The embeddings of [CLS] x' ... x' [SEP]."""
    e = embedded(example)
    start = torch.zeros_like(e) if baseline == "zero" else embedded(example, torch.zeros_like(example.ids))
    start[:, [0, -1]] = e[:, [0, -1]]
    return start


@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize("baseline", ["zero", "pad"])
@pytest.mark.parametrize("rule", ["right", "left", "gauss_legendre"])
def test_integrated_gradients(model, batch, target, plain, baseline, rule, output):
    def slow(example, _):
        e, start = embedded(example), start_of(example, baseline)
        nodes = {"right": [0.25, 0.5, 0.75, 1.0], "left": [0.0, 0.25, 0.5, 0.75]}.get(rule)
        nodes, weights = (nodes, [0.25] * 4) if nodes else nodes_and_weights(rule, 4)
        scores = [0.0] * example.length
        for alpha, weight in zip(nodes, weights, strict=True):
            g = gradient(example, start + alpha * (e - start), output)
            for token, dimension in np.ndindex(*g.shape):
                way = float(e[0, token, dimension] - start[0, token, dimension])
                scores[token] += float(weight) * way * float(g[token, dimension])
        return scores

    check(IntegratedGradients(4, rule, baseline, output), model, batch, target, plain, slow)


def test_small_chunks_give_the_same(model, batch, target):
    small = type(model)(**{**vars(model), "memory_budget": 1})
    for method in (GradientNorm(), IntegratedGradients(5), SmoothGrad(3)):
        assert_same(method(small, batch, target).tokens, method(model, batch, target).tokens)


@pytest.fixture(scope="module", params=tiny_models.FAMILIES)
def any_model(request, tmp_path_factory):
    folder = tiny_models.save(request.param, tmp_path_factory.mktemp("completeness"), scale=4.0)
    return request.param, benchmark.load_model(folder, dtype="float64", device="cpu")


def completeness_gap(model, batch, target, method):
    """Largest |Σ s − (y(e) − y(e'))|, as a share of the largest |y(e) − y(e')|."""
    start = baseline_embeddings(model, batch, embeddings_of(model, batch.tensors), method.baseline)
    logits = model.run(batch).logits - model.run(batch, embedding_edit=lambda _: start).logits
    difference = logits.gather(1, target[:, None])[:, 0]
    gap = method(model, batch, target).tokens.sum(1) - difference
    return float(gap.abs().max() / difference.abs().max())


def test_integrated_gradients_complete(any_model):
    """To the precision of the norms: those of llama and ModernBERT are computed in float32."""
    family, model = any_model
    batch, target = model.encode(tiny_models.inputs(family)), torch.tensor([0, 1, 2])
    baseline = "zero" if family in tiny_models.IMAGE_FAMILIES else "pad"
    few = completeness_gap(model, batch, target, IntegratedGradients(1, "left", baseline))
    many = completeness_gap(model, batch, target, IntegratedGradients(100, "gauss_legendre", baseline))
    assert many < 1e-5
    assert many < few / 1000


def test_integrated_gradients_score_what_moves_and_special_tokens_do_not(model, batch, target):
    """A path of no length scores nothing; [CLS] and [SEP] do not move."""
    found = IntegratedGradients(3, baseline="pad")(model, batch, target).tokens
    assert not found[batch.units < 0].any()
    padded = {
        **batch.tensors,
        "input_ids": torch.where(batch.units >= 0, model.pad_token_id, batch.tensors["input_ids"]),
    }
    same = type(batch)(**{**vars(batch), "tensors": padded})
    assert not IntegratedGradients(3, baseline="pad")(model, same, target).tokens.any()


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
        method, model, batch, target, plain, lambda example, row: smoothgrad_by_hand(example, batch.uids[row], method)
    )


def test_smoothgrad_with_vanishing_noise_is_the_gradient(model, batch, target):
    smooth = SmoothGrad(2, 1e-9)(model, batch, target).tokens
    assert torch.allclose(smooth, GradientNorm()(model, batch, target).tokens, rtol=1e-5)
    assert not torch.allclose(SmoothGrad(2, 0.3)(model, batch, target).tokens, smooth, rtol=1e-2)


def test_a_mask_baseline_is_the_mask_tokens_embedding(tmp_path):
    model = benchmark.load_model(text_models.save_bert(tmp_path), dtype="float64", device="cpu")
    batch = model.encode(["the untoldly film was good"])
    embeddings = embeddings_of(model, batch.tensors)
    start = baseline_embeddings(model, batch, embeddings, "mask")
    mask = model.model.get_input_embeddings().weight[model.mask_token_id]
    assert torch.equal(start[0, 1:-1], mask.expand(batch.units.shape[1] - 2, -1))
    assert torch.equal(start[0, [0, -1]], embeddings[0, [0, -1]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IntegratedGradients(0), "steps=0: allowed are whole numbers from 1"),
        (lambda: SmoothGrad(0), "samples=0: allowed are whole numbers from 1"),
        (lambda: SmoothGrad(noise=0), "noise=0: allowed are numbers above 0"),
    ],
)
def test_settings_that_do_not_exist(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_baselines_that_a_model_does_not_have(model, batch, target, any_model):
    with pytest.raises(
        UserError, match=r"baseline=mask needs a mask token and '.*' has none; use baseline=pad or zero"
    ):
        IntegratedGradients(2, baseline="mask")(model, batch, target)
    family, other = any_model
    if family in tiny_models.IMAGE_FAMILIES:
        images = other.encode(tiny_models.inputs(family))
        with pytest.raises(UserError, match="baseline=pad replaces tokens, and images have none; use baseline=zero"):
            IntegratedGradients(2, baseline="pad")(other, images, target)
