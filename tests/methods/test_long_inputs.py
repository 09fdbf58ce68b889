"""What does not fit into memory at once is computed block by block, and gives the same numbers."""

from dataclasses import fields, replace

import pytest
import torch

import benchmark
from benchmark.models.recomputing import TIMES, is_long
from methods.edges.base import LayerwiseScore
from methods.readouts.base import LayerwiseReadout
from tests import tiny_models

METHODS = (
    ("raw_attention",),
    ("rollout",),
    ("max_attention",),
    ("attention_gradcam",),
    ("attention_gradient",),
    ("grad_sam",),
    ("generic_attention",),
    ("gradient_x_input",),
    ("lrp",),
    ("lrp", "rules=attnlrp"),
    ("conservative_lrp",),
    ("partial_lrp",),
    ("attention_x_relevance",),
    ("transformer_attribution",),
    ("transformer_attribution", "edges.precision=model"),
    ("transformer_attribution", "edges.rules=conservative"),
    ("attattr", "edges.steps=2"),
)
TARGET = [0, 2, 1]


@pytest.fixture(scope="module", params=tiny_models.FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family, tmp_path_factory):
    return tiny_models.load(family, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def batch(model, family):
    return model.encode(tiny_models.inputs(family))


def forced(model):
    """The model with so little memory that every input is long."""
    return replace(model, memory_budget=1)


def assert_equal(found, expected, tolerance):
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            assert float((one - other).abs().max()) <= tolerance * float(other.abs().max()), field.name


@pytest.mark.parametrize("settings", METHODS, ids=" ".join)
def test_block_by_block_gives_the_same(model, batch, settings):
    method = benchmark.build(f"methods/{settings[0]}", *settings[1:])
    assert_equal(method(forced(model), batch, TARGET), method(model, batch, TARGET), 1e-10)


@pytest.mark.parametrize("settings", METHODS, ids=" ".join)
def test_block_by_block_gives_the_same_in_float32(family, tmp_path, settings):
    model = tiny_models.load(family, tmp_path, dtype="float32", scale=3.0)
    batch = model.encode(tiny_models.inputs(family))
    method = benchmark.build(f"methods/{settings[0]}", *settings[1:])
    assert_equal(method(forced(model), batch, TARGET), method(model, batch, TARGET), 1e-5)
