"""What is made of a model's weights: made once, made anew after a change, and nothing of the model in the float64 twin."""

import copy

import pytest
import torch

import benchmark
from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.models.precision import WeightParts, precise


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_models.save("bert", tmp_path_factory.mktemp("models"))


@pytest.fixture
def model(folder):
    return benchmark.load_model(folder, device="cpu")


def test_the_twin_is_the_model_that_float64_loads(model, folder):
    wide = benchmark.load_model(folder, dtype="float64", device="cpu")
    inputs = small_models.inputs("bert")
    twin = precise(model, "float64")
    assert twin.dtype == torch.float64
    assert torch.equal(twin.run(model.encode(inputs)).logits, wide.run(wide.encode(inputs)).logits)


def test_what_is_precise_enough_is_itself(model, folder):
    wide = benchmark.load_model(folder, dtype="float64", device="cpu")
    assert precise(wide, "float64") is wide
    assert precise(model, "model") is model
    assert model.twin.modules == {}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_precision_of_a_half_is_float32_with_its_rounded_weights(dtype, folder):
    half = benchmark.load_model(folder, dtype=dtype, device="cpu")
    single = precise(half, "model")
    assert single.dtype == torch.float32
    for ours, theirs in zip(half.model.parameters(), single.model.parameters(), strict=True):
        assert torch.equal(ours.float(), theirs)
    assert precise(half, "model").model is single.model
    assert precise(half, "float64").model is not single.model


def test_the_twin_shares_nothing_and_the_model_stays_as_it_is(model):
    before = copy.deepcopy(model.model.state_dict())
    twin = precise(model, "float64")
    ours = {tensor.data_ptr() for tensor in model.model.state_dict().values()}
    assert ours.isdisjoint(tensor.data_ptr() for tensor in twin.model.state_dict().values())
    assert twin.model.config is not model.model.config
    with torch.no_grad():
        for tensor in twin.model.parameters():
            tensor.zero_()
    for name, tensor in model.model.state_dict().items():
        assert tensor.dtype == before[name].dtype
        assert torch.equal(tensor, before[name])


def test_the_twin_is_made_once_and_again_after_a_change(model):
    first = precise(model, "float64").model
    assert precise(model, "float64").model is first
    with torch.no_grad():
        model.model.classifier.weight.mul_(2.0)
    second = precise(model, "float64").model
    assert second is not first
    assert torch.equal(second.classifier.weight, model.model.classifier.weight.double())
    model.model.classifier.weight = torch.nn.Parameter(torch.zeros_like(model.model.classifier.weight))
    assert not precise(model, "float64").model.classifier.weight.any()


def test_passes_of_the_twin_are_counted_and_its_rows_are_twice_as_long(model):
    twin = precise(model, "float64")
    twin.run(model.encode(small_models.inputs("bert")))
    assert model.cost.forward_passes == 3
    assert twin.rows_per_chunk(64) == model.rows_per_chunk(64) // 2


def test_a_device_without_float64_says_so_and_what_to_do(model, monkeypatch):
    zeros = torch.zeros

    def refusing(*args, **options):
        if options.get("dtype") == torch.float64:
            raise TypeError(
                "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
            )
        return zeros(*args, **options)

    monkeypatch.setattr(torch, "zeros", refusing)
    with pytest.raises(NotApplicable, match=r"set model\.device=cpu, or precision=model"):
        precise(model, "float64")


def test_parts_of_weights_are_kept_and_made_again_after_a_change(model):
    weight, parts = model.model.classifier.weight, WeightParts()
    signs = {"magnitude": weight.abs(), "positive": weight.clamp(min=0), "negative": weight.clamp(max=0)}
    for part, expected in signs.items():
        assert torch.equal(parts.of(weight, part), expected)
        assert parts.of(weight, part) is parts.of(weight, part)
    first = parts.of(weight, "positive")
    with torch.no_grad():
        weight.neg_()
    assert torch.equal(parts.of(weight, "positive"), -signs["negative"])
    assert parts.of(weight, "positive") is not first
    assert len(parts.kept) == 3


def test_parts_of_weights_are_kept_within_their_limit(model):
    weight = model.model.classifier.weight
    parts = WeightParts(limit=weight.nbytes)
    parts.of(weight, "positive")
    assert torch.equal(parts.of(weight, "negative"), weight.clamp(max=0))
    assert [part for _, part in parts.kept] == ["positive"]
    assert not copy.deepcopy(parts).kept
