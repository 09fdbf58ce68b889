"""A tiny random BERT twice: instrumented, and as transformers makes it with eager attention."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification

import benchmark
from tests import tiny_models

TARGETS = (0, 2, 1)


@dataclass(frozen=True)
class Plain:
    """One example alone, without padding, in the model as transformers makes it."""

    model: Any
    ids: torch.Tensor
    target: int

    @property
    def length(self):
        return self.ids.shape[1]

    def logits(self, **options):
        return self.model(input_ids=self.ids, **options)

    def attentions_and_gradients(self):
        """A and ∂y_t/∂A, [L, H, T, T] each."""
        output = self.logits(output_attentions=True)
        gradients = torch.autograd.grad(output.logits[0, self.target], output.attentions)
        return torch.cat(output.attentions).detach(), torch.cat(gradients)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tiny_models.save("bert", tmp_path_factory.mktemp("replicas"))


@pytest.fixture(scope="session")
def model(folder):
    return benchmark.load_model(folder, dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def batch(model):
    """Three inputs of different lengths, padded."""
    return model.encode(tiny_models.inputs("bert", (7, 5, 9)))


@pytest.fixture(scope="session")
def target():
    return torch.tensor(TARGETS)


@pytest.fixture(scope="session")
def plain(folder):
    eager = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float64
    ).eval()
    inputs = tiny_models.inputs("bert", (7, 5, 9))
    return [
        Plain(eager, torch.tensor([item["input_ids"]]), target) for item, target in zip(inputs, TARGETS, strict=True)
    ]


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_same(ours, slow):
    assert ours.shape == slow.shape
    assert torch.allclose(ours, slow, atol=1e-9, rtol=1e-9), float((ours - slow).abs().max())
