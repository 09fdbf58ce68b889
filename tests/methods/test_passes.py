"""Methods make the forward and backward passes that their docstrings name, and these are counted."""

from dataclasses import replace

import pytest
import torch

import benchmark
from benchmark.models.classifier import Cost
from methods.captum import Captum
from methods.gradient_norm import GradientNorm
from methods.gradient_x_input import GradientXInput
from methods.integrated_gradients import IntegratedGradients
from methods.kernel_shap import KernelShap
from methods.lime import Lime
from methods.shapley_sampling import ShapleySampling
from tests import text_models


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return benchmark.load_model(text_models.save_bert(tmp_path_factory.mktemp("passes")), dtype="float64", device="cpu")


@pytest.mark.parametrize(
    ("method", "forward", "backward"),
    [
        (GradientNorm(), 1, 1),
        (GradientXInput(), 1, 1),
        (IntegratedGradients(6), 7, 6),
        (benchmark.build("methods/smoothgrad", "samples=5"), 6, 5),
        (benchmark.build("methods/deeplift"), 3, 1),
        (benchmark.build("methods/attcat"), 1, 1),
        (benchmark.build("methods/leave_one_out"), 6, 0),
        (benchmark.build("methods/direct_logit_attribution"), 4 + 2 / 12, 1),
        (benchmark.build("methods/alti_logit"), 7 + 2 / 6, 1),
        (benchmark.build("methods/information_flow"), 3 + 2 / 12, 0),
        (benchmark.build("methods/attention_masking"), 6, 0),
        (ShapleySampling(samples=3), 16, 0),
        (KernelShap(samples=7), 7, 0),
        (Lime(samples=4), 4, 0),
        (Captum(algorithm="Saliency"), 2, 1),
        (Captum(algorithm="IntegratedGradients", arguments={"n_steps": 6}), 7, 6),
    ],
    ids=lambda value: getattr(value, "algorithm", type(value).__name__),
)
def test_the_passes_that_are_named_are_counted(reader, method, forward, backward):
    """Five units, two heads; equal coalitions are run once."""
    model = replace(reader, cost=Cost())
    method(model, model.encode(["the story was good !"]), torch.tensor([0]))
    at_most = isinstance(method, KernelShap | Lime)
    assert model.cost.forward_passes == pytest.approx(forward) or (at_most and model.cost.forward_passes < forward)
    assert model.cost.backward_passes == pytest.approx(backward)
