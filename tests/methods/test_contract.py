"""Every method on every family: finite, right shapes, deterministic, invariant to padding and batch, model untouched.

A method that cannot serve a family is listed in CANNOT with its reason, and the test holds it to that.
"""

import copy

import pytest
import torch

import benchmark
from benchmark.configuration import options
from benchmark.errors import NotApplicable
from tests import tiny_models

METHODS = options("methods")
CHEAPER = {"attattr": ["edges.steps=3"]}
HEADS_ONLY = ("taylor", "accuracy_difference")
NEED_RATIONALE = ("oracle", "inverted")
NEED_WORDS = ("frequency",)
CANNOT = {
    **{(method, family): "no rationales" for method in NEED_RATIONALE for family in tiny_models.FAMILIES},
    **{(method, family): "no words" for method in NEED_WORDS for family in tiny_models.FAMILIES},
}  # ready ids carry neither words nor rationales; the controls are tested on text in test_controls.py


@pytest.fixture(scope="module", params=tiny_models.FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family, tmp_path_factory):
    folder = tiny_models.save(family, tmp_path_factory.mktemp("models"))
    return benchmark.load_model(folder, dtype="float64", device="cpu")


def equal(a, b, tolerance):
    for name in ("tokens", "heads", "layers"):
        one, two = getattr(a, name), getattr(b, name)
        assert (one is None) == (two is None)
        if one is not None:
            assert torch.allclose(one, two, atol=tolerance * max(1.0, float(two.abs().max())), rtol=0), name


@pytest.mark.parametrize("name", METHODS)
def test_contract(name, model, family):
    method = benchmark.build(f"methods/{name}", *CHEAPER.get(name, []))
    batch = model.encode(tiny_models.inputs(family))
    target = torch.tensor([0, 1, 2])
    if (name, family) in CANNOT:
        with pytest.raises(NotApplicable, match=CANNOT[name, family]):
            method(model, batch, target)
        return
    state = copy.deepcopy(model.model.state_dict())
    result = method(model, batch, target)
    if name in HEADS_ONLY:
        assert result.tokens is None
        assert result.heads.shape == (len(batch), model.n_layers, model.n_heads)
    else:
        assert result.tokens.shape == batch.units.shape
        assert float(result.tokens[~batch.attention_mask].abs().sum()) == 0
    for value in (result.tokens, result.heads, result.layers):
        assert value is None or bool(value.isfinite().all())
    equal(method(model, batch, target), result, 0.0)
    assert all(torch.equal(value, model.model.state_dict()[key]) for key, value in state.items())
    assert not any(module.__dict__.get("forward") for module in model.model.modules())
    for row in range(len(batch)):
        alone = model.encode([tiny_models.inputs(family)[row]])
        alone = type(alone)(**{**vars(alone), "uids": (batch.uids[row],)})
        single = method(model, alone, target[row : row + 1])
        width = alone.units.shape[1]
        cut = type(result)(
            target=target[row : row + 1],
            tokens=None if result.tokens is None else result.tokens[row : row + 1, :width],
            heads=None if result.heads is None else result.heads[row : row + 1],
            layers=None if result.layers is None else result.layers[row : row + 1, :, :width],
        )
        equal(single, cut, 1e-6 if family not in ("llama", "modernbert") else 1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_class_specific_methods_depend_on_the_target_and_others_do_not(name, model, family):
    if (name, family) in CANNOT:
        return
    method = benchmark.build(f"methods/{name}", *CHEAPER.get(name, []))
    batch = model.encode(tiny_models.inputs(family))
    results = [method(model, batch, torch.full((3,), target)) for target in (0, 1)]
    one, two = (result.heads if name in HEADS_ONLY else result.tokens for result in results)
    if method.class_specific and not bool(one.any() | two.any()):  # grad-CAM may be clamped to 0 everywhere
        return
    assert torch.allclose(one, two) != method.class_specific
