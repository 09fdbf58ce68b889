"""Gradients block by block: when, which, and that no two layers' attention is held at once."""

import weakref
from dataclasses import replace

import pytest
import torch

from benchmark.checking import small_models
from benchmark.models.attention_interface import hold_constant
from benchmark.models.recomputing import TIMES, attention_gradients, is_long, visit_gradients
from benchmark.targets import ClassTarget
from methods.edges.base import visit_attention

TARGET = torch.tensor([0, 2, 1])


@pytest.fixture(scope="module", params=["bert", "albert", "modernbert", "bart", "gpt2", "beit"])
def model(request, tmp_path_factory):
    return small_models.load(request.param, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def batch(model):
    return model.encode(small_models.inputs(model.config.model_type))


def whole(model, batch, record, rows="all", edits=()):
    trace = model.run(batch, record=(record,), grad=True, rows=rows, edits=edits)
    recorded = trace.attentions if record == "attentions" else trace.hidden
    return recorded, model.gradients(trace.logits, recorded, weights=ClassTarget(TARGET).seed(trace.logits))


def visited(model, batch, **options):
    found = {}
    visit_gradients(model, batch, ClassTarget(TARGET).seed, lambda layer, *pair: found.update({layer: pair}), **options)
    return found


def test_an_input_is_long_beyond_a_multiple_of_the_budget(model):
    assert not is_long(replace(model, memory_budget=model.attention_bytes(7) // TIMES + 1), 7)
    assert is_long(replace(model, memory_budget=model.attention_bytes(7) // TIMES - 1), 7)


@pytest.mark.parametrize("rows", ["all", "read"])
@pytest.mark.parametrize("record", ["attentions", "hidden"])
@pytest.mark.parametrize("edits", [(), (hold_constant,)], ids=["", "constant"])
def test_the_gradients_are_those_of_one_graph(model, batch, record, rows, edits):
    found = visited(model, batch, record=record, rows=rows, edits=edits)
    assert sorted(found) == list(range(model.n_layers))
    for layer, (tensor, gradient) in enumerate(zip(*whole(model, batch, record, rows, edits), strict=True)):
        assert torch.equal(found[layer][0], tensor)
        assert found[layer][1].shape == gradient.shape
        assert torch.allclose(found[layer][1], gradient, rtol=1e-10, atol=1e-12 * float(gradient.abs().max()))


def test_a_gradient_is_there_when_it_is_asked_for(model, batch):
    gradient_of = attention_gradients(model, batch, ClassTarget(TARGET).seed, "read")
    for layer, gradient in enumerate(whole(model, batch, "attentions", "read")[1]):
        for _ in range(2):
            assert torch.allclose(gradient_of(layer), gradient, rtol=1e-9, atol=1e-10 * float(gradient.abs().max()))


def test_no_two_blocks_are_held_at_once(model, batch, monkeypatch):
    """Of a block of several calls all are there together."""
    made, alive, softmax = [], [], torch.nn.functional.softmax

    def observed(*args, **kwargs):
        result = softmax(*args, **kwargs)
        made.append(weakref.ref(result.untyped_storage()))
        return result

    def look(*_):
        alive.append(sum(storage() is not None for storage in made))

    monkeypatch.setattr(torch.nn.functional, "softmax", observed)
    visit_gradients(model, batch, ClassTarget(TARGET).seed, look)
    visit_attention(model, batch, look)
    assert len(alive) == 2 * model.n_layers
    assert max(alive) == (2 if model.streams.count == 2 else 1)
    made.clear()
    kept = model.run(batch, record=("attentions",), grad=True)
    look()
    assert alive[-1] == len(kept.attentions) == model.n_layers, "what is held can be seen"


def test_the_model_and_the_graph_of_others_are_left_alone(model, batch):
    before = model.run(batch).logits
    visited(model, batch)
    assert not any("forward" in module.__dict__ for module in model.model.modules())
    assert torch.equal(model.run(batch).logits, before)

    def fail(*_):
        raise KeyError("from a visitor")

    with pytest.raises(KeyError, match="from a visitor"):
        visit_gradients(model, batch, ClassTarget(TARGET).seed, fail)
    assert torch.equal(model.run(batch).logits, before)
