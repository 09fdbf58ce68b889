"""captum by name: relations to our own methods, and what it cannot serve."""

from dataclasses import replace

import pytest
import torch

import benchmark
from benchmark.checking import small_models
from benchmark.errors import UserError
from methods.captum import Captum
from methods.gradient_norm import GradientNorm
from methods.gradient_x_input import GradientXInput
from methods.integrated_gradients import IntegratedGradients
from methods.occlusion import Occlusion
from tests.replicas.conftest import assert_same


def test_captums_integrated_gradients_are_ours(model, batch, target):
    method = Captum(algorithm="IntegratedGradients", arguments={"n_steps": 7}, baseline="pad")
    theirs = method(model, batch, target).tokens
    assert_same(theirs, IntegratedGradients(7, baseline="pad")(model, batch, target).tokens)
    small = type(model)(**{**vars(model), "memory_budget": 1})
    assert_same(method(small, batch, target).tokens, theirs)


def test_captums_gradients_are_ours(model, batch, target):
    saliency, product = (Captum(algorithm=name) for name in ("Saliency", "InputXGradient"))
    assert_same(saliency(model, batch, target).tokens, GradientNorm(1)(model, batch, target).tokens)
    assert_same(product(model, batch, target).tokens, GradientXInput()(model, batch, target).tokens)
    signed = replace(saliency, arguments={"abs": False})(model, batch, target).tokens
    assert not torch.allclose(signed, GradientNorm(1)(model, batch, target).tokens)


def test_captums_ablation_and_occlusion_are_ours(reader):
    batch = reader.encode(["a dull plot", "the story was good"])
    target = torch.tensor([1, 0])
    ablated = Captum(algorithm="FeatureAblation")(reader, batch, target).tokens
    assert torch.allclose(ablated, Occlusion(output="logit")(reader, batch, target).tokens, atol=1e-6)
    occluded = Captum(algorithm="Occlusion", arguments={"sliding_window_shapes": [2]})(reader, batch, target).tokens
    assert torch.allclose(occluded, Occlusion(2, output="logit")(reader, batch, target).tokens, atol=1e-6)


def test_sampled_gradients_belong_to_the_example(model, batch, target):
    method = Captum(algorithm="GradientShap", arguments={"n_samples": 4, "stdevs": 0.1})
    found = method(model, batch, target).tokens
    row = model.encode(small_models.inputs("bert", (7, 5, 9))[1:2])
    single = method(model, replace(row, uids=batch.uids[1:2], keys=batch.keys[1:2]), target[1:2]).tokens
    assert_same(single[0], found[1, :5])
    assert not torch.allclose(replace(method, seed=1)(model, batch, target).tokens, found)


@pytest.mark.parametrize(
    ("algorithm", "settings", "message"),
    [
        ("Salience", {}, "algorithm=Salience is no class of captum.attr that can be served; did you mean Saliency"),
        ("Nothing", {}, "algorithm=Nothing is no class of captum.attr that can be served; allowed: FeatureAblation"),
        ("LayerGradCam", {}, "algorithm=LayerGradCam is no class of captum.attr that can be served"),
        ("DeepLift", {}, "algorithm=DeepLift is no class of captum.attr that can be served"),
        ("FeaturePermutation", {}, "algorithm=FeaturePermutation is no class of captum.attr that can be served"),
        ("Occlusion", {}, "arguments.sliding_window_shapes is not set, and captum's Occlusion needs it"),
        (
            "Saliency",
            {"arguments": {"abss": 1}},
            "arguments.abss is no argument of captum's Saliency that can be set; did you mean abs",
        ),
        (
            "Lime",
            {"arguments": {"baselines": 1}},
            "arguments.baselines is no argument of captum's Lime that can be set",
        ),
    ],
)
def test_what_captum_cannot_serve_says_so_in_one_line(algorithm, settings, message):
    with pytest.raises(UserError, match=message) as error:
        Captum(algorithm=algorithm, **settings)
    assert "\n" not in str(error.value)


def test_a_value_that_captum_refuses_is_no_trace(model, batch, target):
    with pytest.raises(UserError, match="captum's IntegratedGradients refuses its arguments"):
        Captum(algorithm="IntegratedGradients", arguments={"method": "simpson"})(model, batch, target)


def test_arguments_are_set_from_a_configuration():
    built = benchmark.build("methods/captum", "algorithm=Occlusion", "arguments={sliding_window_shapes: [2]}")
    assert built == Captum(algorithm="Occlusion", arguments={"sliding_window_shapes": (2,)})
    assert benchmark.build("methods/captum", "arguments={n_steps: 5}").arguments == {"n_steps": 5}
