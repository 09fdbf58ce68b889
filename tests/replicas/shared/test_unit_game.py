"""Explainers of a game of units: additive games, draws and rounding."""

import random

import numpy as np
import pytest
import torch
from torch import nn

import benchmark
from benchmark.models.classifier import Classifier
from benchmark.models.families import Family
from benchmark.models.streams import ENCODER, Streams
from methods.kernel_shap import KernelShap
from methods.lime import Lime
from methods.occlusion import Occlusion
from methods.shapley_sampling import ShapleySampling
from methods.shared.unit_game import settled
from tests.replicas.games_by_hand import TARGET, TEXTS


class Sum(nn.Module):
    """Logits are a sum over tokens: what a unit adds does not depend on the others."""

    def __init__(self, config):
        super().__init__()
        torch.manual_seed(3)
        self.config = config
        self.embedding = nn.Embedding(60, 3).double()

    def get_input_embeddings(self):
        return self.embedding

    def forward(self, input_ids, attention_mask, token_type_ids):
        logits = (self.embedding(input_ids) * attention_mask[:, :, None]).sum(1)
        return type("Output", (), {"logits": logits})()


@pytest.fixture(scope="module")
def additive(reader):
    model = Sum(reader.config)
    return Classifier(
        name="sum", model=model, encoder=reader.encoder, labels=("a", "b", "c"),
        family=Family("first", (1, 1), guessed=True),
        attention_modules=(model,), streams=Streams(("0",), (ENCODER,), (ENCODER,)), n_heads=1, fingerprint="",
    )  # fmt: skip


@pytest.mark.parametrize("operator", ["mask", "delete", "zero_embedding"])
def test_on_an_additive_model_shapley_values_are_leave_one_out(additive, operator):
    batch = additive.encode(TEXTS)
    settings = {"operator": operator, "output": "logit"}
    expected = Occlusion(**settings)(additive, batch, TARGET).tokens
    sampled = ShapleySampling(samples=3, **settings)(additive, batch, TARGET).tokens
    regressed = KernelShap(samples=60, **settings)(additive, batch, TARGET).tokens
    fitted = Lime(samples=200, alpha=1e-6, **settings)(additive, batch, TARGET).tokens
    assert torch.allclose(sampled, expected, atol=1e-5)  # captum sums in float32
    assert torch.allclose(regressed, expected, atol=1e-3)
    assert torch.allclose(fitted, expected, atol=1e-3)
    assert not any(tokens[batch.units < 0].any() for tokens in (sampled, regressed, fitted))


@pytest.mark.parametrize("name", ["shapley_sampling", "kernel_shap", "lime"])
def test_a_seed_is_all_that_changes_a_draw(reader, name):
    batch = reader.encode(TEXTS)
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, other = (benchmark.build(f"methods/{name}", "samples=5", f"seed={seed}") for seed in (0, 1))
    first = one(reader, batch, TARGET).tokens
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    torch.manual_seed(5), np.random.seed(5)
    assert torch.equal(one(reader, batch, TARGET).tokens, first)
    assert not torch.allclose(other(reader, batch, TARGET).tokens, first)


def test_scores_are_settled_to_forty_binary_digits():
    values = torch.tensor([0.3, -0.1, 1e-3, 0.0], dtype=torch.float64)
    assert torch.allclose(settled(values), values, rtol=0, atol=2.0**-41)
    assert torch.equal(settled(values * (1 + 2.0**-50)), settled(values)), "last bits do not show"
    assert torch.equal(settled(settled(values)), settled(values))
    for odd in (torch.zeros(2, dtype=torch.float64), torch.tensor([torch.inf, 1.0], dtype=torch.float64)):
        assert torch.equal(settled(odd), odd)
