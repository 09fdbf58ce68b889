"""A tiny random BERT twice: instrumented, and as transformers makes it with eager attention."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification

import benchmark
from benchmark.checking import small_models
from methods.shared.unit_game import UnitGame
from tests import text_models
from tests.replicas.blocks_by_hand import Case

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

    def logits_with_contexts(self, edit):
        """Logits with `edit(layer, context)` applied to what each layer's heads give to its output."""
        handles = [
            block.attention.output.dense.register_forward_pre_hook(lambda _, args, layer=layer: (edit(layer, args[0]),))
            for layer, block in enumerate(self.model.bert.encoder.layer)
        ]
        try:
            return self.logits().logits
        finally:
            for handle in handles:
                handle.remove()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return small_models.save("bert", tmp_path_factory.mktemp("replicas"))


@pytest.fixture(scope="session")
def model(folder):
    return benchmark.load_model(folder, dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def batch(model):
    """Three inputs of different lengths, padded."""
    return model.encode(small_models.inputs("bert", (7, 5, 9)))


@pytest.fixture(scope="session")
def target():
    return torch.tensor(TARGETS)


@pytest.fixture(scope="session")
def plain(folder):
    eager = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float64
    ).eval()
    inputs = small_models.inputs("bert", (7, 5, 9))
    return [
        Plain(eager, torch.tensor([item["input_ids"]]), target) for item, target in zip(inputs, TARGETS, strict=True)
    ]


@pytest.fixture(scope="module", params=["bert", "gpt2"])
def case(request, tmp_path_factory):
    return Case(request.param, tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module", params=[name for name in small_models.FAMILIES if name != "bart"])  # cross-attention
def any_model(request, tmp_path_factory):
    """A model with one stream of tokens, and a batch."""
    model = small_models.load(request.param, tmp_path_factory.mktemp("families"))
    return model, model.encode(small_models.inputs(request.param))


@pytest.fixture(scope="session")
def reader_folder(tmp_path_factory):
    """A BERT that reads text."""
    return text_models.save_bert(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="session")
def reader(reader_folder):
    """It, instrumented."""
    return benchmark.load_model(reader_folder, dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def eager_reader(reader_folder):
    """It, as transformers makes it."""
    return AutoModelForSequenceClassification.from_pretrained(
        reader_folder, attn_implementation="eager", dtype=torch.float64
    ).eval()


@pytest.fixture
def played(monkeypatch):
    """What the games of a run were asked and what they answered."""
    games = []
    call = UnitGame.__call__

    def kept(self, present):
        answer = call(self, present)
        games.append((present.double(), answer.double()))
        return answer

    monkeypatch.setattr(UnitGame, "__call__", kept)
    return games


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_same(ours, slow):
    assert ours.shape == slow.shape
    assert torch.allclose(ours, slow, atol=1e-9, rtol=1e-9), float((ours - slow).abs().max())
