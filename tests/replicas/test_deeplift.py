"""DeepLIFT on every family: complete, and the gradient where input and reference are one."""

import pytest
import torch

from benchmark.checking import small_models
from benchmark.targets import ClassTarget
from methods.deeplift import DeepLift
from methods.propagation.mode import propagating
from methods.propagation.multipliers import RescaleRule
from methods.shared.input_gradients import baseline_embeddings, embeddings_of
from tests.replicas.conftest import assert_same


@pytest.fixture(scope="module", params=small_models.FAMILIES)
def any_model(request, tmp_path_factory):
    return request.param, small_models.load(request.param, tmp_path_factory.mktemp("deeplift"))


@pytest.mark.parametrize("baseline", ["zero", "pad"])
def test_scores_sum_to_the_difference_from_the_reference(any_model, baseline):
    family, model = any_model
    if family in small_models.IMAGE_FAMILIES and baseline == "pad":
        return
    batch, target = model.encode(small_models.inputs(family)), torch.tensor([0, 1, 2])
    found = DeepLift(baseline)(model, batch, target).tokens
    embeddings = embeddings_of(model, batch.tensors)
    start = baseline_embeddings(model, batch, embeddings, baseline)
    change = model.run(batch).logits - model.run(batch, embedding_edit=lambda _: start).logits
    expected = change.gather(1, target[:, None])[:, 0]
    tolerance = 1e-4 if family in small_models.FLOAT32_INSIDE else 1e-10  # their norms are computed in float32
    assert float((found.sum(1) - expected).abs().max()) < tolerance * float(expected.abs().max())
    assert not found[batch.units < 0].any()


def test_with_the_input_as_reference_multipliers_are_gradients(any_model):
    family, model = any_model
    batch, target = model.encode(small_models.inputs(family)), torch.tensor([0, 1, 2])
    embeddings = embeddings_of(model, batch.tensors)
    both = torch.cat([embeddings, embeddings]).requires_grad_()
    doubled = {name: torch.cat([tensor, tensor]) for name, tensor in batch.tensors.items()}
    with propagating(model.model, RescaleRule()):
        trace = model.run(doubled, embedding_edit=lambda _: both, grad=True)
    (found,) = model.gradients(trace.logits[:3], [both], weights=ClassTarget(target).seed(trace.logits[:3]))
    own = embeddings.clone().requires_grad_()
    trace = model.run(batch, embedding_edit=lambda _: own, grad=True)
    (expected,) = model.gradients(trace.logits, [own], weights=ClassTarget(target).seed(trace.logits))
    tolerance = 1e-4 if family in small_models.FLOAT32_INSIDE else 1e-9
    assert torch.allclose(found[:3], expected, atol=tolerance * float(expected.abs().max()), rtol=0)


def test_small_chunks_give_the_same(model, batch, target):
    small = type(model)(**{**vars(model), "memory_budget": 1})
    assert_same(DeepLift()(small, batch, target).tokens, DeepLift()(model, batch, target).tokens)
