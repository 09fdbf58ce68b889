"""One block run alone gives what it gives in the whole model, and nothing stays behind."""

import pytest
import torch

from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.models import run_block
from benchmark.models.streams import ENCODER


@pytest.fixture(scope="module", params=small_models.FAMILIES)
def model(request, tmp_path_factory):
    return small_models.load(request.param, tmp_path_factory.mktemp("models"))


@pytest.fixture
def batch(model):
    return model.encode(small_models.inputs(model.config.model_type))


def test_a_block_alone_gives_the_next_ones_input(model, batch):
    hidden = model.run(batch, record=("hidden",)).hidden
    before = model.cost.forward_passes
    stacked = model.streams.queries.count(ENCODER)  # all blocks but those of a decoder
    for layer in range(stacked - 1):
        assert torch.equal(run_block(model, batch.tensors, layer, hidden[layer]), hidden[layer + 1])
    assert model.cost.forward_passes - before == pytest.approx(len(batch) * (stacked - 1) / model.n_layers)
    assert not any(module.__dict__.get("forward") for module in model.model.modules())


def test_a_decoders_block_is_not_run_without_its_encoder(tmp_path):
    model = small_models.load("bart", tmp_path)
    batch = model.encode(small_models.inputs("bart"))
    hidden = model.run(batch, record=("hidden",)).hidden
    before = model.cost.forward_passes
    for layer, name in enumerate(model.attention_names[2:], start=2):
        with pytest.raises(NotApplicable, match=f"the block of '{name}' reads the encoder too"):
            run_block(model, batch.tensors, layer, hidden[layer])
    assert model.cost.forward_passes == before


def test_value_vectors_have_a_head_for_each_query_head_and_can_be_edited(model, batch):
    hidden = model.run(batch, record=("hidden",)).hidden
    seen = []

    def silence(layer, value):
        seen.append((layer, value.shape))
        return torch.zeros_like(value)

    silent = run_block(model, batch.tensors, 1, hidden[1], value_edits=[silence])
    assert seen == [(1, (len(batch), model.n_heads, batch.units.shape[1], seen[0][1][-1]))]
    nothing = torch.zeros(len(batch), model.n_heads, *2 * batch.units.shape[1:], dtype=torch.float64)
    assert torch.equal(silent, run_block(model, batch.tensors, 1, hidden[1], replace={1: nothing}))
    assert not torch.allclose(silent, run_block(model, batch.tensors, 1, hidden[1]))


def test_an_edit_that_fails_leaves_the_model_as_it_was(model, batch):
    hidden = model.run(batch, record=("hidden",)).hidden

    def fail(_layer, _value):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_block(model, batch.tensors, 0, hidden[0], value_edits=[fail])
    assert not any(module.__dict__.get("forward") for module in model.model.modules())
    assert torch.equal(model.run(batch, record=("hidden",)).hidden[-1], hidden[-1])
