"""What does not fit into memory at once is computed block by block, and gives the same numbers."""

from dataclasses import fields, replace

import pytest
import torch

import benchmark
from benchmark.checking import small_models
from benchmark.models.passes import Cost
from methods.attention_explainer import AttentionExplainer
from methods.edges.product import FactorProduct
from methods.readouts.column_sum import ColumnSum
from methods.readouts.flow import Flow
from methods.readouts.generic import Generic
from methods.readouts.read_row import ReadRow
from methods.readouts.rollout import Rollout
from tests.covering import covering

METHODS = (
    ("raw_attention",),
    ("rollout",),
    ("attention_gradcam",),
    ("grad_sam",),
    ("lrp",),
    ("lrp", "rules=attnlrp"),
    ("conservative_lrp",),
    ("attention_x_relevance",),
    ("transformer_attribution",),
    ("transformer_attribution", "edges.precision=model"),
    ("transformer_attribution", "edges.rules=conservative"),
    ("attattr", "edges.steps=2"),
)
IN_FLOAT32 = ("bert", "albert", "modernbert", "bart", "llama")
TARGET = [0, 2, 1]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of a family and precision, each loaded once."""
    loaded = {}

    def model(family, dtype):
        if (family, dtype) not in loaded:
            folder = tmp_path_factory.mktemp("models")
            loaded[family, dtype] = small_models.load(
                family, folder, dtype=dtype, scale=12 if dtype == "float64" else 3
            )
        return loaded[family, dtype]

    return model


def forced(model):
    """The model with so little memory that every input is long."""
    return replace(model, memory_budget=1, cost=Cost())


def assert_equal(found, expected, tolerance):
    """Fields agree relative to their largest value; token scores, to those of all layers if these are larger.

    A method that reads one layer may read what rounding left there of gradients of the other layers' size.
    """
    assert found.target.ids == expected.target.ids
    for field in fields(expected)[1:]:
        one, other = getattr(found, field.name), getattr(expected, field.name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            scale = float(other.abs().max())
            if field.name == "tokens" and expected.layers is not None:
                scale = max(scale, float(expected.layers.abs().max()))
            assert float((one - other).abs().max()) <= tolerance * scale, field.name


OF_FAMILIES = [f"{family} float64" for family in small_models.FAMILIES]
IN_EVERY_PRECISION = [*OF_FAMILIES, *(f"{family} float32" for family in IN_FLOAT32)]
TOLERANCES = {"float64": 1e-10, "float32": 1e-5}


@pytest.mark.parametrize(
    ("settings", "place"), covering({" ".join(settings): IN_EVERY_PRECISION for settings in METHODS}, share=6)
)
def test_block_by_block_gives_the_same(models, settings, place):
    family, dtype = place.split()
    model = models(family, dtype)
    batch = model.encode(small_models.inputs(family))
    name, *others = settings.split()
    method = benchmark.build(f"methods/{name}", *others)
    assert_equal(method(forced(model), batch, TARGET), method(model, batch, TARGET), TOLERANCES[dtype])


@pytest.mark.parametrize("family", ["bert", "bart"])
def test_edges_are_the_same_and_their_sums(models, family):
    model = models(family, "float64")
    batch = model.encode(small_models.inputs(family))
    method = benchmark.build("methods/grad_sam")
    whole, found = (method.edge_scores(each, batch, TARGET) for each in (model, forced(model)))
    assert torch.allclose(found, whole, rtol=1e-10, atol=1e-10 * float(whole.abs().max()))
    assert_equal(
        method.with_edges(forced(model), batch, torch.tensor(TARGET)),
        method.with_edges(model, batch, torch.tensor(TARGET)),
        1e-10,
    )


@pytest.mark.parametrize(
    "readout",
    [
        Rollout(),
        Rollout(start_layer=-1, normalize="none"),
        Rollout(start_layer=1, residual=False),
        ReadRow(),
        ReadRow(layer=0, head=2),
        ReadRow(layer="mean", part="positive"),
        ReadRow(layer="max"),
        ColumnSum(part="positive"),
        ColumnSum(scored="query"),
        Generic(),
        Flow(),
    ],
    ids=repr,
)
def test_a_readout_of_one_layer_after_another_is_that_of_all(models, readout):
    """Bit for bit, whatever the order in which the layers come."""
    model = models("bert", "float64")
    batch = model.encode(small_models.inputs("bert"))
    read = model.read_weights(batch)
    edges = [layer * batch.cells[:, None] for layer in FactorProduct()(model, batch, torch.tensor(TARGET))]
    needed = [number for number in reversed(range(3)) if readout.needs(number, 3)]
    kept = {number: readout.reduce(edges[number], read) for number in needed}
    assert torch.equal(readout.combine([kept[number] for number in sorted(kept)], read), readout(tuple(edges), read))


def test_a_subclass_that_calls_in_its_own_way_is_called(models):
    class Doubled(Rollout):
        def __call__(self, edges, read):
            return 2 * super().__call__(edges, read)

    model = models("bert", "float64")
    batch = model.encode(small_models.inputs("bert"))
    found, single = (
        AttentionExplainer(FactorProduct(), readout)(model, batch, TARGET).tokens for readout in (Doubled(), Rollout())
    )
    assert torch.equal(found, 2 * single)


@pytest.mark.parametrize(
    ("settings", "short", "long"),
    [
        (("raw_attention",), (1, 0), (1, 0)),
        (("attention_gradcam",), (1, 1), (2, 1)),
        (("lrp",), (1, 1), (2, 1)),
        (("attention_x_relevance",), (1, 1), (2, 1)),
        (("transformer_attribution",), (2, 2), (5 - 1 / 3, 3)),  # the first block has no block below it
        (("attattr", "edges.steps=2"), (1 + 4, 4), (1 + 4 + 2, 4)),
    ],
    ids=str,
)
def test_blocks_that_are_computed_again_are_counted(models, settings, short, long):
    """Only of a long input; a model of three layers."""
    model = models("bert", "float32")
    method = benchmark.build(f"methods/{settings[0]}", *settings[1:])
    for each, expected in ((replace(model, cost=Cost()), short), (forced(model), long)):
        method(each, each.encode(small_models.inputs("bert")[:1]), [0])
        assert (each.cost.forward_passes, each.cost.backward_passes) == pytest.approx(expected)
