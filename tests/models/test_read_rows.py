"""The last block is computed for the rows that are read alone, and attention that nobody reads by torch's own function."""

import pytest
import torch

from benchmark.checking import small_models
from benchmark.models import PruneHeads, hold_constant
from benchmark.models import attention_interface as interface
from benchmark.models.read_rows import everywhere, lone_rows
from benchmark.models.removal import OPERATORS
from benchmark.targets import ClassTarget

ALL_ROWS = ("bart", "dinov2", "beit")


@pytest.fixture(scope="module", params=small_models.FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family, tmp_path_factory):
    return small_models.load(family, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def batch(model, family):
    return model.encode(small_models.inputs(family))


def everything(model, batch, rows):
    trace = model.run(batch, record=("attentions", "hidden"), grad=True, rows=rows)
    recorded = (*trace.attentions, *trace.hidden)
    gradients = model.gradients(trace.logits, recorded, weights=ClassTarget(torch.tensor([0, 1, 2])).seed(trace.logits))
    calls = len(trace.attentions)
    return trace, gradients[:calls], gradients[calls:]


def test_rows_that_are_read_give_the_logits_and_every_gradient(model, batch, family):
    whole, at_attention, at_hidden = everything(model, batch, "all")
    part, some, hidden = everything(model, batch, "read")
    n_tokens, last = batch.units.shape[1], part.attentions[-1]
    assert last.shape[2] == (n_tokens if family in ALL_ROWS else 2 if family == "deit-teacher" else 1)
    assert torch.allclose(part.logits, whole.logits, rtol=1e-12, atol=1e-12)
    spread = everywhere(model.read_rows(batch.tensors), some)
    for found, expected in zip((*spread, *hidden), (*at_attention, *at_hidden), strict=True):
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12 * float(expected.abs().max() + 1))
    index = lone_rows(model.family, batch.units, batch.tensors.get("input_ids"), model.config)
    if index is not None and family not in ALL_ROWS:
        rows = whole.attentions[-1].gather(2, index[:, None, :, None].expand_as(last))
        assert torch.allclose(last, rows, rtol=1e-12, atol=1e-14)


def test_a_restart_and_replaced_attention_take_the_same_rows(model, batch):
    whole = model.run(batch, record=("attentions", "hidden"))
    for layer in range(model.n_layers):
        replaced = {layer: whole.attentions[layer] * 0.5}
        restart = {"start": (layer, whole.hidden[layer]), "replace": replaced}
        expected = model.run(batch, record=("attentions",), **restart).logits
        assert torch.allclose(model.run(batch, **restart).logits, expected, rtol=1e-11, atol=1e-11)


def test_edits_of_all_rows_get_all_rows(model, batch):
    shapes = []

    def look(layer, probabilities):
        shapes.append(probabilities.shape[2])
        return probabilities

    model.run(batch, edits=[look], rows="read")
    assert shapes == [batch.units.shape[1]] * model.n_layers


def test_every_removal_gives_the_logits_of_recorded_attention(model, batch, family):
    removed = torch.zeros(len(batch), int(batch.n_units.max()), dtype=torch.bool)
    removed[:, -2:] = removed[:, 1] = True
    images = family in small_models.IMAGE_FAMILIES
    made = {name: OPERATORS[name]() for name in ("mean", "blur", "zero_embedding", "pad", "delete", "attention")}
    serving = {name: operator for name, operator in made.items() if operator.images in (None, images)}
    assert len(serving) == (3 if images else 4)
    for operator in serving.values():
        after = operator(model, batch.tensors, batch.units, removed)
        fast = model.run(after.tensors, embedding_edit=after.embedding_edit).logits
        slow = model.run(after.tensors, embedding_edit=after.embedding_edit, record=("attentions",)).logits
        assert torch.allclose(fast, slow, rtol=1e-11, atol=1e-11)


def test_pruned_heads_are_pruned_in_the_values(model, batch):
    keep = torch.rand(len(batch), model.n_layers, model.n_heads, generator=torch.manual_seed(1)) > 0.5
    slow = model.run(batch, edits=[PruneHeads(keep)]).logits
    assert torch.allclose(model.run(batch, value_edits=[PruneHeads(keep)]).logits, slow, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_the_switch_moves_float32_by_less_than_1e_6(family, tmp_path, scale):
    model = small_models.load(family, tmp_path, dtype="float32", scale=scale)
    batch = model.encode(small_models.inputs(family))
    slow = model.run(batch, record=("attentions",)).logits
    assert float((model.run(batch).logits - slow).abs().max()) <= 1e-6 * max(1.0, float(slow.abs().max()))


def test_the_switch_is_made_per_call(model, batch, monkeypatch):
    """Fused where nobody looks, instrumented where the tape records or edits, and under a mode."""
    fused = []
    original = interface.F.scaled_dot_product_attention

    def counted(*args, **options):
        fused.append(1)
        return original(*args, **options)

    monkeypatch.setattr(interface.F, "scaled_dot_product_attention", counted)

    def count(**options):
        fused.clear()
        model.run(batch, **options)
        return len(fused)

    n = model.n_layers
    assert count() == count(record=("hidden",)) == n
    assert count(record=("attentions",)) == count(record=("permitted",)) == count(edits=[hold_constant]) == 0
    attention = model.run(batch, record=("attentions",)).attentions[0]
    assert count(replace={0: attention}) == n - 1
